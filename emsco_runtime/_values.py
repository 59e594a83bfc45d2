"""Values that users hand in, whatever they are: is it a gap, and how does a message show it."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["is_gap", "shortened", "shown"]

# Gaps of other libraries, known by the name of their type: they are never imported here.
_GAP_TYPES = ("NAType", "NaTType", "MaskedConstant")
_BITS_PER_DIGIT = math.log2(10)


def is_gap(value: object) -> bool:
    """Return whether a value stands for a missing one: None, NaN, or pandas' NA and NaT."""
    if value is None or type(value).__name__ in _GAP_TYPES:
        return True
    return isinstance(value, float | np.floating) and bool(value != value)  # noqa: PLR0124 - the test for NaN


def shown(value: object) -> str:
    """Return a value for a message: shortened, with its type; it never raises.

    Examples
    --------
    >>> shown("abc"), shown(10**5000)
    ("'abc' (str)", 'a whole number of about 5000 digits (int)')
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the user's own class; a failure to print must not become another failure
        # Python refuses to print very long whole numbers.
        digits = round(value.bit_length() / _BITS_PER_DIGIT) if isinstance(value, int) else 0
        text = f"a whole number of about {digits} digits" if digits else "a value that cannot be printed"
    return f"{shortened(text)} ({type(value).__name__})"


def shortened(text: str, limit: int = 200) -> str:
    """Return a text of at most so many characters, and dots in the place of the rest."""
    return text if len(text) <= limit else f"{text[:limit]}..."
