"""What stands before a user's source: threads, circuit breakers, caches, guards."""
