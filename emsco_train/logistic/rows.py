"""Encoded rows, laid out in blocks for the compiled passes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emsco_runtime._arrays import Floats

__all__ = ["RowBlocks"]

# Rows of one block, at most: 30 columns of them fill the first cache of a common processor, 200 the second, between two uses.
_MOST = 256
_MULTIPLE = 8


@dataclass(frozen=True, slots=True, eq=False)
class RowBlocks:
    """Rows in blocks, each block column by column.

    Row i is in block i modulo their number: each block is a sample of all rows, however the rows are ordered. The last places of
    some blocks are empty and hold zeros.

    Parameters
    ----------
    values
        Columns [blocks, columns, places].
    rows
        How many rows there are.

    Examples
    --------
    >>> rows = RowBlocks.of(np.arange(600.0).reshape(300, 2))
    >>> rows.values.shape
    (2, 2, 152)
    >>> rows.values[1, 0, :3]
    array([ 2.,  6., 10.])
    """

    values: Floats
    rows: int

    @classmethod
    def of(cls, encoded: Floats) -> RowBlocks:
        """Lay out encoded rows [rows, columns]."""
        rows, columns = encoded.shape
        count = max(1, -(-rows // _MOST))
        places = -(-rows // count)
        values = np.zeros((count, columns, -(-places // _MULTIPLE) * _MULTIPLE))
        for place in range(places):
            part = encoded[place * count : (place + 1) * count]
            values[: len(part), :, place] = part
        return cls(values, rows)
