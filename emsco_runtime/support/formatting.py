"""Values that users hand in, as messages show them, whatever they are."""

from __future__ import annotations

import math

__all__ = ["format_value", "format_with_type", "shorten"]

_BITS_PER_DIGIT = math.log2(10)


def format_value(value: object) -> str:
    """Return the `repr` of a value for a message, shortened; it never raises.

    Examples
    --------
    >>> format_value("abc"), format_value(10**5000)
    ("'abc'", 'a whole number of about 5000 digits')
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the user's own class; a failure to print must not become another failure
        # Python refuses to print very long whole numbers.
        digits = round(value.bit_length() / _BITS_PER_DIGIT) if isinstance(value, int) else 0
        text = f"a whole number of about {digits} digits" if digits else "a value that cannot be printed"
    return shorten(text)


def format_with_type(value: object) -> str:
    """Return a value with its type, for a message; it never raises.

    Examples
    --------
    >>> format_with_type("abc")
    "'abc' (str)"
    """
    return f"{format_value(value)} ({type(value).__name__})"


def shorten(text: str, limit: int = 200) -> str:
    """Return a text of at most so many characters, and dots in the place of the rest."""
    return text if len(text) <= limit else f"{text[:limit]}..."
