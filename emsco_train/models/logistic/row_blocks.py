"""Encoded rows, laid out in blocks for the compiled passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.support.arrays import Array, Floats, Ints
from emsco_train.models.logistic.column_layout import ColumnLayout
from emsco_train.models.logistic.row_runs import RowRuns, find_runs

__all__ = ["RowBlocks"]

# Rows of one block, at most: 30 columns of them fill the first cache of a common processor, 200 the second, between two uses.
_MAX_BLOCK_ROWS = 256
_MULTIPLE = 8


@dataclass(frozen=True, slots=True, eq=False)
class RowBlocks:
    """Rows in blocks, each block column by column; rows with the same choices follow each other.

    Parameters
    ----------
    values
        Columns of numbers [blocks, columns, places]; zeros in the places of the last block that have no row.
    runs
        What the rows chose.
    layout
        Which columns are multiplied, and which are looked up.
    order
        The rows, in the order in which they are laid out.

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
        runs = find_runs(layout.kinds[order], layout.members, layout.n_categories, values.shape[0], values.shape[2])
        return cls(values, runs, layout, order)

    def arrange(self, table: Floats) -> Floats:
        """Lay out more columns [rows, columns] of the same rows."""
        return _in_blocks(table, self.order)


def _in_blocks(table: Array, order: Ints) -> Array:
    rows, columns = table.shape
    count = max(1, -(-rows // _MAX_BLOCK_ROWS))
    places = -(-rows // (count * _MULTIPLE)) * _MULTIPLE
    padded = np.zeros((count * places, columns))
    padded[:rows] = table[order]
    return np.ascontiguousarray(padded.reshape(count, places, columns).transpose(0, 2, 1))
