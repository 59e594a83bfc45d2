"""Encoded rows, laid out in blocks for the compiled passes, and the runs of rows with the same choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from emsco_runtime.support.arrays import Array, Floats, Ints
from emsco_train.models.logistic.column_layout import ColumnLayout

__all__ = ["RowBlocks", "RowRuns"]

# Rows of one block, at most: 30 columns of them fill the first cache of a common processor, 200 the second, between two uses.
_MAX_BLOCK_ROWS = 256
_MULTIPLE = 8


class RowRuns(NamedTuple):
    """Which rows of a block follow each other with the same choices (a tuple, since compiled code takes no dataclass)."""

    # The first run of each block, and the end of the last [blocks + 1].
    first: Ints
    # The places in its block where each run starts and ends; unsigned, since an index that might be negative keeps loops scalar.
    start: Array
    stop: Array
    # The combination of choices of its rows; then, as in `ColumnLayout`, the combinations and the number of choices.
    kind: Ints
    members: Ints
    n_categories: int


@dataclass(frozen=True, slots=True, eq=False)
class RowBlocks:
    """Rows in blocks, each block column by column; rows with the same choices follow each other, in this order.

    `values` are the columns of numbers [blocks, columns, places], with zeros in the places of the last block that have no row.

    Examples
    --------
    >>> rows = RowBlocks.of(np.arange(600.0).reshape(300, 2))
    >>> rows.values.shape
    (2, 2, 152)
    >>> rows.values[1, 0, :3]
    array([304., 306., 308.])
    """

    values: Floats
    runs: RowRuns
    layout: ColumnLayout
    order: Ints

    @classmethod
    def of(cls, encoded: Floats, one_hot_groups: Sequence[slice] = ()) -> RowBlocks:
        """Lay out encoded rows [rows, columns]; `one_hot_groups` as for `ColumnLayout.of`."""
        layout = ColumnLayout.of(encoded, one_hot_groups)
        order = np.argsort(layout.kinds, kind="stable")
        values = _in_blocks(encoded[:, layout.order[: layout.numbers]], order)
        return cls(values, _find_runs(layout, layout.kinds[order], values.shape[0], values.shape[2]), layout, order)

    def arrange(self, table: Floats) -> Floats:
        """Lay out more columns [rows, columns] of the same rows."""
        return _in_blocks(table, self.order)


def _find_runs(layout: ColumnLayout, kinds: Ints, count: int, places: int) -> RowRuns:
    """Return the runs of rows of these kinds in `count` blocks; places without a row belong to the last run."""
    padded = np.full(count * places, kinds[-1])
    padded[: len(kinds)] = kinds
    begins = np.concatenate(([True], padded[1:] != padded[:-1])) | (np.arange(len(padded)) % places == 0)
    start = np.flatnonzero(begins)
    first = np.searchsorted(start, np.arange(count + 1) * places)
    stop = np.append(start[1:], len(padded)) - start // places * places
    unsigned = (start % places).astype(np.uint64), stop.astype(np.uint64)
    return RowRuns(first, *unsigned, padded[start], layout.members, layout.n_categories)


def _in_blocks(table: Array, order: Ints) -> Array:
    rows, columns = table.shape
    count = max(1, -(-rows // _MAX_BLOCK_ROWS))
    places = -(-rows // (count * _MULTIPLE)) * _MULTIPLE
    padded = np.zeros((count * places, columns))
    padded[:rows] = table[order]
    return np.ascontiguousarray(padded.reshape(count, places, columns).transpose(0, 2, 1))
