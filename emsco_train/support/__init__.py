"""What all rooms need; nothing here knows problems or designs."""
