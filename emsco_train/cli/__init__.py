"""The training commands: argument parsing only, the work is done by the modules beside this package."""
