"""Training commands: argument parsing and printing. What they do lives in the package above."""
