"""Values that mean "missing"."""

from __future__ import annotations

import numpy as np

__all__ = ["is_missing"]

# Missing values of other libraries, known by the name of their type: these libraries are never imported here.
_MISSING_TYPES = ("NAType", "NaTType", "MaskedConstant")


def is_missing(value: object) -> bool:
    """Return whether a value means "missing": None, NaN, or pandas' NA and NaT."""
    if value is None or type(value).__name__ in _MISSING_TYPES:
        return True
    return isinstance(value, float | np.floating) and bool(value != value)  # noqa: PLR0124 - the test for NaN
