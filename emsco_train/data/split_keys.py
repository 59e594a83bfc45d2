"""The groups and the times that splits respect, as whole numbers."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np

from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.support.arrays import Array, Ints
from emsco_runtime.support.missing_values import is_missing
from emsco_train.data.row_error import RowError
from emsco_train.errors import DataError

__all__ = ["canonical_group", "group_codes", "time_codes"]

_SORTED_BY_NUMPY = "biufUMm"  # boolean, whole, unsigned, real, text, date, duration


def group_codes(groups: Any, *, rows: int) -> Ints:
    """Return a number 0, 1, 2, ... per row, equal for rows of a group, and independent of the order of the rows.

    Groups are numbers, text, dates, or a mixture.

    Examples
    --------
    >>> group_codes(["b", "a", "b"], rows=3)
    array([1, 0, 1])
    """
    values = _check_column(groups, "groups", rows)
    if values.dtype.kind not in _SORTED_BY_NUMPY:
        # A mixture has no order of its own; type and text give it one.
        canonical = map(canonical_group, values)
        values = np.array([f"{type(value).__name__} {value}" for value in canonical])
    return _dense_ranks(values)


def canonical_group(group: Any) -> Any:
    """Return the same value for equal groups, which may differ in their type.

    Examples
    --------
    >>> [canonical_group(group) for group in (np.int64(3), 3.0, 3, 3.5, "3")]
    [3, 3, 3, 3.5, '3']
    """
    plain = group.item() if isinstance(group, np.generic) else group
    return int(plain) if isinstance(plain, bool | float) and plain == plain // 1 else plain


def time_codes(time: Any, *, rows: int) -> Ints:
    """Return a number 0, 1, 2, ... per row, ascending with time and equal for equal times.

    Times are numbers, dates, or ISO 8601 text. Other text is refused, since it would sort by its letters.

    Examples
    --------
    >>> time_codes(["2024-03-01", "2023-12-31", "2024-03-01"], rows=3)
    array([1, 0, 1])
    """
    values = _check_column(time, "time", rows)
    if values.dtype.kind == "U":
        values = values.astype(object)
    if values.dtype.kind == "O":
        values = np.array([_parse_time(value, row) for row, value in enumerate(values)], dtype=object)
    if values.dtype.kind not in "iufMmO":
        raise DataError(f"time holds {values.dtype}: give numbers, dates or ISO 8601 text")
    try:
        return _dense_ranks(values)
    except TypeError as error:
        raise DataError(f"time mixes kinds that have no common order: {error}. Use one kind") from None


def _check_column(given: Any, what: str, rows: int) -> Array:
    # As objects, so that numpy does not turn ["a", None] or ["a", nan] into text.
    values: Array = np.asarray(given) if hasattr(given, "dtype") else np.array(list(given), dtype=object)
    if values.shape != (rows,):
        raise DataError(f"{what} has shape {values.shape} for {pluralize(rows, 'row')}: give one value per row")
    gaps = np.isnat(values) if values.dtype.kind in "Mm" else np.array([is_missing(value) for value in values.tolist()])
    if gaps.any():
        row = int(np.argmax(gaps))
        raise RowError(f"{what}, ", f"row {row}", ": the value is missing; fill it, or drop the row", row)
    return values


def _parse_time(value: object, row: int) -> object:
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            advice = "write times as ISO 8601, such as 2024-03-01 or 2024-03-01T12:00, or give numbers or dates"
            raise RowError("time, ", f"row {row}", f": {value!r} is not a time: {advice}", row) from None
    # Every datetime is a date, and the two do not compare.
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001 - compared only with others of its kind
    return value


def _dense_ranks(values: Array) -> Ints:
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.intp)
