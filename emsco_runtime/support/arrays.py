"""Array types for annotations, and how values become a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST_EXACT", "Array", "Floats", "Ints", "Mask", "as_column", "to_objects"]

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]

# Of whole numbers as floats: beyond it, not every one is a float.
LARGEST_EXACT = 2**53


def as_column(values: Any) -> Array:
    """Return values as an array in which each keeps its type.

    numpy alone would turn a list such as [1, "a", None] into text, and drop the mask of a masked array.

    Examples
    --------
    >>> as_column([1, "a", None])
    array([1, 'a', None], dtype=object)
    >>> as_column([10**17 + 3, float("nan")])
    array([100000000000000003, nan], dtype=object)
    >>> as_column(np.ma.array([1.5, 9.9], mask=[False, True], dtype=object))
    array([1.5, None], dtype=object)
    """
    if isinstance(values, np.ma.MaskedArray) and values.ndim > 1:
        return np.where(np.ma.getmaskarray(values), np.nan, values.data.astype(np.float64))
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values)
        return to_objects([None if masked else value for value, masked in zip(values.data, mask, strict=True)])
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        types = {*map(type, values)}
        plain = types <= {float, int} or types == {bool}
        column = np.asarray(values) if plain else to_objects(values)
        # Whole numbers among others become floats, which cannot hold the largest: a category is a code, to the last digit.
        is_rounded = int in types and column.dtype.kind == "f" and any(map(_is_large_integer, values))
        return to_objects(values) if is_rounded else column
    return np.asarray(values)


def _is_large_integer(value: object) -> bool:
    return isinstance(value, int) and abs(value) > LARGEST_EXACT


def to_objects(values: Sequence[Any]) -> Array:
    """Return values as an array of objects, sequences among them as they are."""
    # One by one: handed over at once, values that are sequences themselves would become further dimensions.
    return np.fromiter(values, dtype=object, count=len(values))
