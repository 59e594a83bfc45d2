"""Helpers for all subpackages; nothing here knows cascades."""
