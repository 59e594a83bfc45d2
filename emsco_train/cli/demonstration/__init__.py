"""The demonstration behind `make demo`: a clinic with cheap and expensive tests, from its table to decisions."""
