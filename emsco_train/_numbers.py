"""What counts as a number in a setting."""

from __future__ import annotations

import math
from numbers import Real
from typing import TypeGuard

__all__ = ["is_number"]


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite real number that a float can hold; True and False are not meant as numbers.

    Examples
    --------
    >>> is_number(0.5), is_number(True), is_number("1"), is_number(float("nan")), is_number(10**400)
    (True, False, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
