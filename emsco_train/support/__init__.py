"""Helpers for all subpackages; nothing here knows problems or designs."""
