"""What all rooms need, and what knows nothing of problems and designs."""
