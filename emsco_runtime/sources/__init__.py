"""Between the walk and a user's source: threads, circuit breakers, caches, guards."""
