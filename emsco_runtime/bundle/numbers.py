"""One raw value to one number, and the fault of a value that is none."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from emsco_runtime.decision import FailureKind
from emsco_runtime.support.formatting import format_with_type

__all__ = ["ValueFault", "are_finite_numbers", "missing_fault", "to_number", "wrong_type"]

_INFINITY = math.inf
_FLOAT = frozenset({float})
_PLAIN_TYPES = frozenset({float, int, bool, np.float64, np.float32, np.int64, np.int32, np.bool_})
# numpy gives all of its scalars a float(), text and dates included; these are not meant as numbers.
_NON_NUMERIC_TYPES = (np.flexible, np.datetime64, np.timedelta64, np.complexfloating)


class ValueFault(Exception):
    """A value that its feature does not allow; turned into a `Failure` by the walk."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(kind, message)
        self.kind: FailureKind = kind
        self.message = message


def are_finite_numbers(values: Sequence[Any]) -> bool:
    """Return whether numeric values can be used as they are; False only means that each must be encoded."""
    # Two passes in C instead of a call per value; a sum with NaN or infinity is not finite.
    if _FLOAT.issuperset(map(type, values)):
        return math.isfinite(sum(values))
    # `sum` would warn of numpy's own numbers, and take whole numbers that are too large for a float.
    try:
        return _PLAIN_TYPES.issuperset(map(type, values)) and -_INFINITY < math.fsum(values) < _INFINITY
    except (ValueError, OverflowError):
        return False


def to_number(value: object) -> float:
    """Return a value as a number, NaN included; raise `ValueFault` if it is none, or infinite."""
    try:
        number = _to_float(value)
    except OverflowError:
        number = _INFINITY
    except Exception:  # noqa: BLE001 - the value may be of a class of the user's, and raise anything
        raise wrong_type("a number", value) from None
    if number in (_INFINITY, -_INFINITY):
        advice = "cap it, or return None if it is missing"
        raise ValueFault("infinite", f"expected a finite number, got {format_with_type(value)}; {advice}")
    return number


def wrong_type(expected: str, value: object) -> ValueFault:
    """Return the fault of a value that is something else than expected."""
    return ValueFault("wrong_type", f"expected {expected}, got {format_with_type(value)}; convert it first")


def missing_fault() -> ValueFault:
    """Return the fault of a missing value where training had none."""
    advice = 'training had none here (missing="forbid"). Give a value, or let failures reject or fall back (on_failure)'
    return ValueFault("missing", f"the value is missing (None or NaN), and {advice}")


def _to_float(value: Any) -> float:
    # Not float(value) at once: that would read text and bytes, and numpy's text and dates.
    if hasattr(type(value), "__float__") and not isinstance(value, _NON_NUMERIC_TYPES):
        return float(value)
    return float(operator.index(value))
