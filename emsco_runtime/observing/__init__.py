"""Who is notified of each decision, and what becomes of it: logs, audit log, metrics, spans."""
