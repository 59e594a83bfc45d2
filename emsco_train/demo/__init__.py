"""The demonstration behind `make demo`: a clinic with cheap and dear tests, from its table to decisions."""
