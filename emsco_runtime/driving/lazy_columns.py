"""Columns of a table that are computed while it is decided: only for the rows that reach their stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from emsco_runtime.support.arrays import Array, Ints, as_column

__all__ = ["Column", "LazyColumn", "TableRow", "cut_column", "take_rows"]


class LazyColumn:
    """The values of some rows that follow each other, computed by a function from row numbers.

    Each row is computed at most once. What the function raises is the failure of every row it was called for.

    Parameters
    ----------
    compute
        Called with an array of row numbers of the table; returns a value for each.
    dimensions
        Most that the values may have: 1, or 2 of a vector.
    start
        Number of the first row.
    """

    def __init__(self, compute: Callable[[Ints], Any], dimensions: int, start: int = 0) -> None:
        self._compute = compute
        self._dimensions = dimensions
        self._start = start
        self._rows: Ints = np.arange(0)
        self._values: Array = np.empty(0)
        self._failure: Exception | None = None

    def cut(self, start: int) -> LazyColumn:
        """Return the column from a row on."""
        return LazyColumn(self._compute, self._dimensions, self._start + start)

    def take(self, rows: Ints) -> Array | None:
        """Compute the values of rows, ascending; None if that failed. A stage does so once."""
        self._rows = rows
        try:
            self._values = self._call(rows)
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
            self._failure = error
            return None
        return self._values

    def value(self, row: int) -> object:
        """Return the value of one row, computed here if the row has not reached its stage."""
        place = int(np.searchsorted(self._rows, row))
        if place == len(self._rows) or self._rows[place] != row:
            return _item_value(self._call(np.array([row])), 0)
        if self._failure is not None:
            raise self._failure
        return _item_value(self._values, place)

    def _call(self, rows: Ints) -> Array:
        values = as_column(self._compute(rows + self._start))
        if not 1 <= values.ndim <= self._dimensions or len(values) != len(rows):
            raise ValueError(f"expected a value for each of {len(rows)} rows, got the shape {values.shape}")
        return values


Column: TypeAlias = Array | LazyColumn


def cut_column(column: Column, rows: slice) -> Column:
    """Return the part of a column that holds these rows."""
    return column.cut(rows.start) if isinstance(column, LazyColumn) else column[rows]


def take_rows(column: Column, rows: Ints) -> Array | None:
    """Return the values of some rows, ascending; None if they could not be computed."""
    if isinstance(column, LazyColumn):
        return column.take(rows)
    return column if len(rows) == len(column) else column.take(rows, axis=0)


class TableRow:
    """One row of a table as an item: feature -> value."""

    def __init__(self, columns: Mapping[str, Column], row: int) -> None:
        self._columns = columns
        self._row = row

    def __getitem__(self, name: str) -> object:
        """Return the value of a feature."""
        column = self._columns[name]
        return column.value(self._row) if isinstance(column, LazyColumn) else _item_value(column, self._row)


def _item_value(array: Array, row: int) -> object:
    """Return the value of one row as an item would have it; numbers as Python's own, as which errors show them."""
    return array[row].tolist() if array.dtype.kind in "fiub" else array[row]
