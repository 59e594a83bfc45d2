"""The drivers of the walk: one item, many in step, whole tables, in threads, as a coroutine."""
