"""Vectors of numbers, of a fixed width: an embedding, a histogram, hashed words. From a raw value to its numbers.

A vector is missing as a whole (None, or nothing but NaN and None in it) or not at all. `make_vector_encoder` makes the function
for one value, which is the reference; `encode_vectors` does the same for an array, and property tests compare the two.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from typing import Any

import numpy as np

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.bundle.numbers import ValueFault, are_finite_numbers, missing_fault, to_number, wrong_type
from emsco_runtime.support.arrays import Array, Floats, Mask
from emsco_runtime.support.missing_values import is_missing

__all__ = ["encode_vectors", "make_vector_encoder"]

_NUMBER_KINDS = "fiub"
_COMMON_TYPES = frozenset(map(np.dtype, (np.float64, np.float32, np.int64, np.int32, np.bool_)))


def make_vector_encoder(feature: Feature) -> Callable[[object], Floats]:
    """Return the function that turns one raw value of this feature into its numbers, or raises `ValueFault`."""
    width = feature.width
    imputes = feature.missing == "impute"
    pack = struct.Struct(f"={width}d").pack_into

    def pack_sequence(values: Sequence[Any]) -> Floats | None:
        """Return the numbers of a sequence; None only means that each must be looked at."""
        try:
            # Their sum takes a quarter of the time of a look at their types; text, dates and arrays have none that is a float.
            # With NaN or infinity it is not finite.
            total = sum(values, 0.0)
            if not (math.isfinite(total) if type(total) is float else are_finite_numbers(values)):
                return None
            numbers: Any = np.empty(width)
            pack(numbers, 0, *values)
        except Exception:  # noqa: BLE001 - adding and packing may run the user's code
            return None
        return numbers  # type: ignore[no-any-return]

    def encode(value: object) -> Floats:
        # The commonest cases first: an array, and a list of plain numbers.
        if type(value) is np.ndarray and value.dtype in _COMMON_TYPES and value.shape == (width,):
            if np.isfinite(value).all():
                # A copy: the acquirer may use its array again.
                return value.astype(np.float64)
        elif isinstance(value, list | tuple) and len(value) == width:
            numbers = pack_sequence(value)
            if numbers is not None:
                return numbers
        return np.array(_read_numbers(value, width, imputes=imputes))

    return encode


def _read_numbers(value: object, width: int, *, imputes: bool) -> list[float]:
    entries = [] if is_missing(value) else _to_entries(value, width)
    numbers = [_to_entry_number(entry, position) for position, entry in enumerate(entries)]
    gaps = [position for position, number in enumerate(numbers) if math.isnan(number)]
    if len(gaps) < len(numbers):
        if gaps:
            detail = f"number {gaps[0]} of the vector, counted from 0, is missing (None or NaN)"
            advice = "a vector is missing as a whole or not at all. Fill it, or leave all of it out (None)"
            raise ValueFault("missing", f"{detail}, and {advice}")
        return numbers
    if not imputes:
        raise missing_fault()
    return [math.nan] * width


def _to_entries(value: Any, width: int) -> list[Any]:
    expected = f"a sequence of {width} numbers"
    if isinstance(value, str | bytes | bytearray | Mapping | AbstractSet):
        raise wrong_type(expected, value)
    try:
        entries, shape = _split(value)
    except Exception:  # noqa: BLE001 - the value may be of a class of the user's, and raise anything
        raise wrong_type(expected, value) from None
    if len(shape) > 1:
        raise ValueFault("wrong_type", f"expected {expected}, got an array of shape {shape}; give one row of it")
    if len(entries) != width:
        raise ValueFault("wrong_type", f"expected {expected}, as in training, got {len(entries)}; give as many")
    return entries


def _split(value: Any) -> tuple[list[Any], tuple[int, ...]]:
    """Return the entries of a value, and its shape."""
    # Masked arrays say None for what is masked in `tolist`; dates would become plain numbers there.
    array = value if isinstance(value, np.ndarray) else np.asarray(value) if hasattr(value, "__array__") else None
    if array is None:
        # Only what has a length: a generator could be read once alone.
        return list(value), (len(value),)
    if array.ndim == 0:
        raise TypeError("a single value")
    return (array.tolist() if array.dtype.kind in _NUMBER_KINDS else list(array)), array.shape


def _to_entry_number(entry: object, position: int) -> float:
    if is_missing(entry):
        return math.nan
    try:
        return to_number(entry)
    except ValueFault as fault:
        raise ValueFault(fault.kind, f"number {position} of the vector, counted from 0: {fault.message}") from None


def encode_vectors(feature: Feature, values: Array) -> tuple[Floats, Mask | None]:
    """Encode raw values: an array [rows, width] of numbers, or one of objects, a sequence each.

    Returns
    -------
    tuple
        The numbers [rows, width], and a mask of the rows that must be encoded one by one (a failure, most likely); None when
        there are none. The numbers under the mask mean nothing.
    """
    matrix = values if values.ndim == 2 else _stack(values, feature.width)
    if matrix is not None and matrix.dtype.kind in _NUMBER_KINDS and matrix.shape[1] == feature.width:
        return _encode_matrix(matrix, imputes=feature.missing == "impute")
    encode = make_vector_encoder(feature)
    numbers = np.zeros((len(values), feature.width))
    faulty: Mask = np.zeros(len(values), dtype=np.bool_)
    for row, value in enumerate(values):
        try:
            numbers[row] = encode(value)
        except ValueFault:
            faulty[row] = True
    return numbers, faulty if faulty.any() else None


def _stack(values: Array, width: int) -> Array | None:
    """Return arrays of numbers as one; None if a value is something else."""
    are_arrays = values.dtype.kind == "O" and all(
        type(value) is np.ndarray and value.dtype.kind in _NUMBER_KINDS and value.shape == (width,) for value in values.tolist()
    )
    return np.stack(values.tolist()).astype(np.float64, copy=False) if are_arrays and len(values) else None


def _encode_matrix(matrix: Array, *, imputes: bool) -> tuple[Floats, Mask | None]:
    numbers: Floats = matrix.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(numbers.sum())
    if math.isfinite(total):
        return numbers, None
    faulty: Mask = np.logical_not(np.isfinite(numbers).all(axis=1))
    if imputes:
        faulty &= ~np.isnan(numbers).all(axis=1)
    return numbers, faulty if faulty.any() else None
