"""Observers, which are notified of each decision: logs, audit log, metrics, spans."""
