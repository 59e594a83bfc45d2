"""Mail made up from word lists."""
