"""The runtime's commands: argument parsing, reading, printing. What they do lives in the package above."""
