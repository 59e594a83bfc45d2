"""What the training mail taught: clues, letter habits, and the SQLite store that keeps them."""
