"""What features cost: the user's model, its files, profiling, and whole units in which ties are exact."""
