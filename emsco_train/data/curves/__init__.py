"""Curves: what is learned about each feature by itself, before stage models weigh the features against each other."""
