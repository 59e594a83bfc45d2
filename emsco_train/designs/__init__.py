"""Designs: the chromosome that encodes one, the record people see, the front of a search and how to choose from it."""
