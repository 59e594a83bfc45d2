"""The SMTP service: take a message, judge it, mark it, hand it on."""
