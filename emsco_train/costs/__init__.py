"""What features cost: the user's model, its files, and whole units in which ties are exact."""
