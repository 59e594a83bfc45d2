"""The drivers of the walk: one item, many in lockstep, whole tables, in threads, as a coroutine."""
