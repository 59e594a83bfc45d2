"""What all rooms need, and what knows nothing of cascades."""
