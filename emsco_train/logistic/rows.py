"""Encoded rows, laid out in blocks for the compiled passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from emsco_runtime._arrays import Array, Floats, Ints
from emsco_train.logistic.layout import ColumnLayout

__all__ = ["RowBlocks", "Runs"]

# Rows of one block, at most: 30 columns of them fill the first cache of a common processor, 200 the second, between two uses.
_MOST = 256
_MULTIPLE = 8


class Runs(NamedTuple):
    """Which rows of a block follow each other with the same choices (a tuple, since compiled code takes no dataclass).

    Parameters
    ----------
    first
        The first run of each block, and the end of the last [blocks + 1].
    start, stop
        The places in its block where each run starts, and where it ends; unsigned, since an index that might be negative keeps
        loops scalar.
    kind
        The combination of choices of its rows.
    members
        The choice of each group in each combination [kinds, groups]; `choices` for none.
    choices
        How many choices there are in all groups.
    """

    first: Ints
    start: Array
    stop: Array
    kind: Ints
    members: Ints
    choices: int


@dataclass(frozen=True, slots=True, eq=False)
class RowBlocks:
    """Rows in blocks, each block column by column; rows with the same choices follow each other.

    Parameters
    ----------
    values
        Columns of numbers [blocks, columns, places]; zeros in the places of the last block that have no row.
    runs
        The choices.
    layout
        Which columns are numbers, and which are choices.
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
    runs: Runs
    layout: ColumnLayout
    order: Ints

    @classmethod
    def of(cls, encoded: Floats, choices: Sequence[slice] = ()) -> RowBlocks:
        """Lay out encoded rows [rows, columns]; `choices` as for `ColumnLayout.of`."""
        layout = ColumnLayout.of(encoded.shape[1], choices)
        members, kinds = layout.kinds(encoded)
        order = np.argsort(kinds, kind="stable")
        values = _in_blocks(encoded[:, layout.order[: layout.numbers]], order)
        return cls(values, _runs(kinds[order], members, layout.choices, values.shape), layout, order)

    def lay(self, table: Floats) -> Floats:
        """Lay out more columns [rows, columns] of the same rows."""
        return _in_blocks(table, self.order)


def _in_blocks(table: Array, order: Ints) -> Array:
    rows, columns = table.shape
    count = max(1, -(-rows // _MOST))
    places = -(-rows // (count * _MULTIPLE)) * _MULTIPLE
    laid = np.zeros((count * places, columns))
    laid[:rows] = table[order]
    return np.ascontiguousarray(laid.reshape(count, places, columns).transpose(0, 2, 1))


def _runs(kinds: Ints, members: Ints, choices: int, shape: tuple[int, ...]) -> Runs:
    """Return the runs of rows in order, by their kinds."""
    count, _, places = shape
    padded = np.full(count * places, kinds[-1] if len(kinds) else 0)
    padded[: len(kinds)] = kinds
    begins = np.concatenate(([True], padded[1:] != padded[:-1])) | (np.arange(len(padded)) % places == 0)
    start = np.flatnonzero(begins)
    first = np.searchsorted(start, np.arange(count + 1) * places)
    stop = np.append(start[1:], len(padded)) - start // places * places
    return Runs(first, (start % places).astype(np.uint64), stop.astype(np.uint64), padded[start], members, choices)
