"""What counts as a number in a setting."""

from __future__ import annotations

import math
from numbers import Real
from typing import TypeGuard

__all__ = ["is_number"]


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite real number; True and False are not meant as numbers.

    Examples
    --------
    >>> is_number(0.5), is_number(True), is_number("1"), is_number(float("nan"))
    (True, False, False, False)
    """
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
