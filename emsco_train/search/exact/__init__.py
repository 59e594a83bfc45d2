"""The exact search: every design over packed bits, ties counted."""
