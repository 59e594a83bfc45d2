"""Raw values to numbers: what enters a stage model.

Every feature becomes one float64: a number as it is, a boolean as 0 or 1, a category as its position in `categories` (an ignored
unknown one as -1), a missing value that the graph imputes as NaN. A vector becomes as many as its width (`vectors`).
`make_encoder` makes the function for one value, which is the reference; `encode_column` does the same for an array, and property
tests compare the two.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.bundle.numbers import ValueFault, are_finite_numbers, missing_fault, to_number, wrong_type
from emsco_runtime.bundle.vectors import encode_vectors, make_vector_encoder
from emsco_runtime.support.arrays import Array, Floats, Mask
from emsco_runtime.support.formatting import format_with_type, shorten
from emsco_runtime.support.missing_values import is_missing

__all__ = [
    "Encoded",
    "Encoder",
    "ValueFault",
    "are_finite_numbers",
    "category_name",
    "encode_column",
    "make_encoder",
]

# A number; the numbers of a vector.
Encoded: TypeAlias = float | Floats
Encoder: TypeAlias = Callable[[object], Encoded]
_NumberEncoder: TypeAlias = Callable[[object], float]

_INFINITY = math.inf
UNKNOWN_CATEGORY = -1.0
# Categories are shorter than this (`manifest.Name`), so whole numbers from here on cannot be one.
_CATEGORY_LIMIT = 10**256


def make_encoder(feature: Feature) -> Encoder:
    """Return the function that turns one raw value of this feature into its number or numbers, or raises `ValueFault`."""
    return make_vector_encoder(feature) if feature.kind == "vector" else _make_number_encoder(feature)


def _make_number_encoder(feature: Feature) -> _NumberEncoder:
    return _category_encoder(feature) if feature.kind == "categorical" else _number_encoder(feature)


def _number_encoder(feature: Feature) -> _NumberEncoder:
    convert = _to_boolean if feature.kind == "boolean" else to_number
    numeric = feature.kind == "numeric"
    encode_missing = _missing_encoder(feature)

    def encode(value: object) -> float:
        # The commonest case first; NaN fails both comparisons.
        if numeric and isinstance(value, float) and -_INFINITY < value < _INFINITY:
            return value
        if is_missing(value):
            return encode_missing()
        number = convert(value)
        # NaN of another type, such as Decimal("NaN").
        return encode_missing() if number != number else number  # noqa: PLR0124 - the test for NaN

    return encode


def _category_encoder(feature: Feature) -> _NumberEncoder:
    position = {category: float(index) for index, category in enumerate(feature.categories)}
    ignore = feature.unknown == "ignore"
    encode_missing = _missing_encoder(feature)
    allowed = shorten(", ".join(feature.categories))

    def encode(value: object) -> float:
        if type(value) is str and value in position:
            return position[value]
        if is_missing(value):
            return encode_missing()
        if not _is_too_long_for_category(value):
            name = category_name(value)
            if name in position:
                return position[name]
        if ignore:
            return UNKNOWN_CATEGORY
        advice = f'known categories: {allowed}. Map it to one of these, or train with unknown="ignore"'
        raise ValueFault("unknown_category", f"unknown category {format_with_type(value)}; {advice}")

    return encode


def _missing_encoder(feature: Feature) -> Callable[[], float]:
    if feature.missing == "impute":
        return lambda: math.nan

    def raise_missing() -> float:
        raise missing_fault()

    return raise_missing


def _to_boolean(value: object) -> float:
    if isinstance(value, bool | np.bool_):
        return 1.0 if value else 0.0
    try:
        if isinstance(value, numbers.Real) and value in (0, 1):
            return float(value)
    except Exception:  # noqa: BLE001, S110 - as above
        pass
    raise wrong_type("True or False (or 1 or 0)", value)


def category_name(value: object) -> str:
    """Return the text a category is compared by: codes such as 3 or 3.0 match the category "3"."""
    if isinstance(value, str):
        # Not `str(value)`: of a member of an enumeration of texts that is its name.
        return str.__str__(value)
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        if _is_too_long_for_category(value):
            message = f"expected a category of at most 256 characters, got {format_with_type(value)}; use a shorter code"
            raise ValueFault("wrong_type", message)
        return str(_to_int(value))
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    raise wrong_type("a category (text or a whole number)", value)


def _is_too_long_for_category(value: object) -> bool:
    """Return whether a value is a whole number that is longer than any category; Python may refuse to print it."""
    return isinstance(value, numbers.Integral) and abs(_to_int(value)) >= _CATEGORY_LIMIT


def _to_int(value: numbers.Integral) -> int:
    try:
        return int(value)
    except Exception:  # noqa: BLE001 - as above
        raise wrong_type("a category (text or a whole number)", value) from None


def encode_column(feature: Feature, values: Array) -> tuple[Floats, Mask | None]:
    """Encode an array of raw values.

    Returns
    -------
    tuple
        The numbers, of a vector [rows, width], and a mask of the values that must be encoded one by one (a failure, most
        likely); None when there are none. The numbers under the mask mean nothing.
    """
    if feature.kind == "vector":
        return encode_vectors(feature, values)
    if feature.kind == "numeric" and values.dtype.kind in "fiub":
        return _encode_numbers(values, impute=feature.missing == "impute")
    if feature.kind == "boolean" and values.dtype.kind == "b":
        return values.astype(np.float64), None
    if feature.kind == "categorical" and values.dtype.kind in "OU":
        return _encode_categories(feature, values)
    return _encode_each(_make_number_encoder(feature), values)


def _encode_numbers(values: Array, *, impute: bool) -> tuple[Floats, Mask | None]:
    column: Floats = values.astype(np.float64, copy=False)
    # One sum shows whether all are finite, much faster than isfinite; a rare overflow only costs the second pass.
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(column.sum())
    if math.isfinite(total):
        return column, None
    faulty: Mask = np.isinf(column) if impute else ~np.isfinite(column)
    return column, faulty if faulty.any() else None


def _encode_categories(feature: Feature, values: Array) -> tuple[Floats, Mask | None]:
    """Look known categories up at once, and encode only other values one by one."""
    position = {category: float(index) for index, category in enumerate(feature.categories)}
    try:
        found = list(map(position.get, values.tolist()))
    except Exception:  # noqa: BLE001 - a value that cannot be a key, such as a list, or of the user's own class
        return _encode_each(_make_number_encoder(feature), values)
    if None not in found:
        return np.array(found), None
    others = np.flatnonzero(np.fromiter((code is None for code in found), dtype=np.bool_, count=len(found)))
    column = np.array([0.0 if code is None else code for code in found])
    column[others], other_faults = _encode_each(_make_number_encoder(feature), values[others])
    if other_faults is None:
        return column, None
    faulty: Mask = np.zeros(len(values), dtype=np.bool_)
    faulty[others] = other_faults
    return column, faulty


def _encode_each(encode: _NumberEncoder, values: Array) -> tuple[Floats, Mask | None]:
    column = np.zeros(len(values))
    faulty: Mask = np.zeros(len(values), dtype=np.bool_)
    # Dates would become plain numbers in `tolist`.
    for row, value in enumerate(list(values) if values.dtype.kind in "mM" else values.tolist()):
        try:
            column[row] = encode(value)
        except Exception:  # noqa: BLE001 - a fault, or whatever a value of the user's own class raises
            faulty[row] = True
    return column, faulty if faulty.any() else None
