"""The load driver, and the service as a child process."""
