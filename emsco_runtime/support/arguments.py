"""Checks of arguments that several classes take: counts and seconds."""

from __future__ import annotations

import sys

from emsco_runtime.errors import InputError
from emsco_runtime.support.formatting import format_value

__all__ = ["check_count", "check_seconds", "is_count", "is_number", "is_seconds"]


def is_count(value: object, minimum: int = 1) -> bool:
    """Return whether a value is a whole number of at least `minimum`; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum


def is_number(value: object, least: float, most: float) -> bool:
    """Return whether a value is a number from `least` to `most`; True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


def is_seconds(value: object) -> bool:
    """Return whether a value is a finite number above 0."""
    return is_number(value, 0, sys.float_info.max) and value != 0


def check_count(name: str, value: object, minimum: int = 1) -> None:
    """Raise `InputError` unless a value is a count."""
    if not is_count(value, minimum):
        raise InputError(f"{name}: expected a whole number of at least {minimum}, got {format_value(value)}")


def check_seconds(name: str, value: object) -> None:
    """Raise `InputError` unless a value is a number of seconds."""
    if not is_seconds(value):
        raise InputError(f"{name}: expected a number of seconds above 0, got {format_value(value)}")
