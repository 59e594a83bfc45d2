"""Columns of vectors, as arrays [rows, width] of numbers: out of sequences, or of the columns `name[0]`, `name[1]`, ..."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from emsco_runtime.bundle.encoding import ValueFault, make_encoder
from emsco_runtime.bundle.manifest import MAX_WIDTH, Feature
from emsco_runtime.bundle.vectors import encode_vectors
from emsco_runtime.support.arrays import Array, Floats
from emsco_runtime.support.missing_values import is_missing
from emsco_runtime.support.vector_names import find_vectors
from emsco_train.data.row_error import RowError
from emsco_train.errors import DataError

__all__ = ["is_column_of_vectors", "join_numbered_columns", "read_vectors"]


def is_column_of_vectors(column: Array) -> bool:
    """Return whether a column holds sequences: its first value that is not missing is one."""
    if column.dtype.kind != "O":
        return False
    first = next((value for value in column if not is_missing(value)), None)
    return isinstance(first, list | tuple) or (hasattr(first, "__array__") and np.ndim(first) == 1)  # type: ignore[arg-type]


def read_vectors(name: str, column: Array) -> Floats:
    """Return a column of vectors as numbers [rows, width]; all must be as wide as the first. A row of NaN is a gap."""
    width = column.shape[1] if column.ndim == 2 else len(next(value for value in column if not is_missing(value)))
    if not 1 <= width <= MAX_WIDTH:
        raise DataError(f"column {name!r}: vectors of {width:,} numbers: expected 1 to {MAX_WIDTH:,}")
    # Gaps stay gaps here: whether they are allowed is said later.
    feature = Feature(name="vector", kind="vector", width=width, cost=0.0, missing="impute")
    numbers, faulty = encode_vectors(feature, column)
    if faulty is not None:
        row = int(np.argmax(faulty))
        try:
            make_encoder(feature)(column[row])
        except ValueFault as fault:
            raise RowError(f"column {name!r}, ", f"row {row}", f": {fault.message}", row, fault.kind) from None
    return numbers


def join_numbered_columns(columns: Mapping[str, Array]) -> dict[str, Array]:
    """Return a table's columns with those of each vector joined, at the place of the first of them."""
    vectors = find_vectors(columns)
    owner = {part: name for name, parts in vectors.items() for part in parts}
    joined: dict[str, Array] = {}
    for name, column in columns.items():
        if name not in owner:
            joined[name] = column
        elif owner[name] not in joined:
            parts = vectors[owner[name]]
            joined[owner[name]] = read_vectors(owner[name], np.column_stack([_to_objects(part, columns[part]) for part in parts]))
    return joined


def _to_objects(name: str, column: Array) -> Any:
    if column.ndim > 1:
        raise DataError(f"column {name!r} holds vectors, and is one number of a vector by its name: rename it")
    # Text together with numbers would make text of all of them.
    return column if column.dtype.kind in "fiub" else column.astype(object)
