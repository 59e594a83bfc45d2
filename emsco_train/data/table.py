"""`Table`: named columns of equal length, out of a data frame, an Arrow table, a mapping or an array.

A vector is one column of two dimensions: such an array, a column of sequences, or the columns `name[0]`, `name[1]`, ...

Data frames are recognised by their attributes (`columns` and ``frame[name]``), Arrow tables by `column_names`: neither library is
imported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.support.arrays import Array, as_column
from emsco_runtime.support.missing_values import is_missing
from emsco_train.data.vector_columns import is_column_of_vectors, join_numbered_columns, read_vectors
from emsco_train.errors import DataError

__all__ = ["Table", "is_arrow_table"]

_USABLE_KINDS = "biufOU"  # boolean, integer, unsigned, float, object, text


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of raw values.

    Parameters
    ----------
    columns
        Name -> array with one value per row; of a vector [rows, width], with a row of NaN for a gap.
    rows
        Length of every column.
    categorical
        Columns that the source declares as categories, whatever the type of their values.

    Examples
    --------
    >>> table = Table.of({"size": [1.5, 2.0], "kind": ["a", "b"]})
    >>> table.rows, table.names
    (2, ('size', 'kind'))
    >>> table.item(1)
    {'size': 2.0, 'kind': 'b'}
    >>> Table.of([[1, 2], [3, 4]]).names
    ('x0', 'x1')
    >>> Table.of({"size": [1.5, 2.0], "words[0]": [0, 1], "words[1]": [3, 0]}).item(1)
    {'size': 2.0, 'words': [1.0, 0.0]}
    """

    columns: Mapping[str, Array]
    rows: int
    categorical: frozenset[str] = frozenset()

    @classmethod
    def of(cls, data: Any, names: Sequence[str] | None = None) -> Table:
        """Make a table from a data frame, an Arrow table, a mapping of arrays, or a two-dimensional array.

        Parameters
        ----------
        data
            A table is returned as it is.
        names
            Names of the columns of an array; x0, x1, ... unless given. Frames and mappings have their own.
        """
        if isinstance(data, Table):
            return data
        if isinstance(data, Mapping):
            return _build_table([(key, data[key]) for key in data], names)
        if hasattr(data, "npartitions"):
            raise DataError(
                "a Dask DataFrame is not read into one process: use `emsco_train.dask.make_problem`, or its `compute()`"
            )
        if is_arrow_table(data) or (hasattr(data, "columns") and hasattr(data, "__getitem__")):
            # Looking up a duplicate name gives several columns, so duplicates are refused first.
            keys = list(data.column_names if is_arrow_table(data) else data.columns)
            _check_unique([str(key) for key in keys])
            return _build_table([(key, data[key]) for key in keys], names)
        return _from_matrix(data, names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(self.columns)

    def select(self, names: Sequence[str]) -> Table:
        """Return these columns only, in this order."""
        absent = [name for name in names if name not in self.columns]
        if absent:
            raise DataError(f"no column {', '.join(map(repr, absent))}; the table has: {', '.join(self.names)}")
        return Table({name: self.columns[name] for name in names}, self.rows, self.categorical & frozenset(names))

    def take(self, rows: Array | Sequence[int]) -> Table:
        """Return these rows, in this order; a mask of booleans works too."""
        columns = {name: column[np.asarray(rows)] for name, column in self.columns.items()}
        return Table(columns, len(next(iter(columns.values()))), self.categorical)

    def item(self, row: int) -> dict[str, object]:
        """Return one row as the runtime takes it: name -> plain Python value."""
        # A slice and `tolist` give Python's own types.
        return {name: column[row : row + 1].tolist()[0] for name, column in self.columns.items()}

    def items(self) -> Iterator[dict[str, object]]:
        """Iterate over all rows as `item` gives them, several times faster."""
        names = self.names
        for values in zip(*(column.tolist() for column in self.columns.values()), strict=True):
            yield dict(zip(names, values, strict=True))


def is_arrow_table(data: Any) -> bool:
    """Return whether something is an Arrow table, whose `columns` are the columns themselves and not their names."""
    # An attribute of the type: a data frame may have a column of this name.
    return hasattr(type(data), "column_names")


def _from_matrix(data: Any, names: Sequence[str] | None) -> Table:
    matrix = np.asarray(data)
    if matrix.ndim != 2:
        raise DataError(
            f"a table has two dimensions, got {type(data).__name__} of shape {matrix.shape}: "
            "give rows x columns, a mapping name -> column, or a data frame"
        )
    width = matrix.shape[1]
    labels = [f"x{index}" for index in range(width)] if names is None else [str(name) for name in names]
    if len(labels) != width:
        raise DataError(f"{pluralize(width, 'column')} but {pluralize(len(labels), 'name')}: give one name per column")
    return _build_table([(label, matrix[:, index]) for index, label in enumerate(labels)], None)


def _build_table(pairs: Sequence[tuple[object, Any]], names: Sequence[str] | None) -> Table:
    if names is not None:
        raise DataError("names were given for data that has its own: rename its columns instead")
    if not pairs:
        raise DataError("a table needs at least one column, got none")
    _check_unique([str(key) for key, _ in pairs])
    columns = {str(key): _convert_column(str(key), values) for key, values in pairs}
    categorical = frozenset(str(key) for key, values in pairs if _declares_categories(values))
    rows = _common_length(columns)
    return Table(join_numbered_columns(columns), rows, categorical)


def _check_unique(names: Sequence[str]) -> None:
    duplicates = sorted(name for name, count in Counter(names).items() if count > 1)
    if duplicates:
        raise DataError(f"column names must be unique; more than once: {', '.join(map(repr, duplicates))}. Rename or drop them")


def _common_length(columns: Mapping[str, Array]) -> int:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"columns have different lengths: {lengths}; give every row a value, None or NaN for a missing one")
    rows = next(iter(lengths.values()))
    if rows == 0:
        raise DataError("the table has no rows: give at least one")
    return rows


def _declares_categories(values: Any) -> bool:
    # The categorical type of data frames has this attribute; numpy's types do not.
    return hasattr(getattr(values, "dtype", None), "categories") or _is_arrow_dictionary(values)


def _is_arrow_dictionary(values: Any) -> bool:
    """Return whether a column is Arrow's form of categories: a dictionary, and indices into it."""
    kind = getattr(values, "type", None)
    return hasattr(kind, "index_type") and hasattr(kind, "value_type")


def _convert_column(name: str, values: Any) -> Array:
    if _is_arrow_dictionary(values):
        # Arrow's own conversion to numpy takes a gap among indices for the last category.
        values = values.cast(values.type.value_type)
    column = _nullable_to_float(values)
    if column is None:
        column = as_column(values)
    if _holds_dates(values, column):
        kind = getattr(values, "dtype", column.dtype)
        advice = "make it a number, such as days since a date, in production too, or leave it out"
        raise DataError(f"column {name!r} holds dates ({kind}), which no bundle can hold: {advice}")
    if column.ndim == 2 or is_column_of_vectors(column):
        return read_vectors(name, column)
    if column.ndim != 1:
        raise DataError(f"column {name!r} has shape {column.shape}: expected one value per row")
    if column.dtype.kind not in _USABLE_KINDS:
        raise DataError(f"column {name!r} holds {column.dtype}: convert it to numbers, booleans or text")
    return column


def _holds_dates(values: Any, column: Array) -> bool:
    """Return whether a column is one of dates: by its type, also a frame's with a time zone, or by its first value."""
    if "M" in (column.dtype.kind, getattr(getattr(values, "dtype", None), "kind", None)):
        return True
    return column.dtype.kind == "O" and isinstance(next((one for one in column.flat if not is_missing(one)), None), date)


def _nullable_to_float(values: Any) -> Array | None:
    """Return a frame's nullable numbers as floats with NaN for gaps, or None when the column is something else."""
    dtype = getattr(values, "dtype", None)
    if dtype is None or isinstance(dtype, np.dtype) or getattr(dtype, "kind", "O") not in "iuf":
        return None
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
