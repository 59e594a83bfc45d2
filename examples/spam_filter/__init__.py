"""A spam filter around the emsco runtime: features of mail, training, and an SMTP service."""
