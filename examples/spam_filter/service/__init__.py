"""The SMTP service: accept a message, classify it, mark it, pass it on."""
