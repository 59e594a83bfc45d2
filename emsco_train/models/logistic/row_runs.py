"""`RowRuns`: rows that follow each other with the same choices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from emsco_runtime.support.arrays import Array, Ints

__all__ = ["RowRuns", "find_runs"]


class RowRuns(NamedTuple):
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
        The choice of each group in each combination [kinds, groups]; `n_categories` for none.
    n_categories
        How many choices there are in all groups.
    """

    first: Ints
    start: Array
    stop: Array
    kind: Ints
    members: Ints
    n_categories: int


def find_runs(kinds: Ints, members: Ints, n_categories: int, count: int, places: int) -> RowRuns:
    """Return the runs of rows that are laid out in so many blocks of so many places, by the kinds of the rows.

    Places without a row are counted to the last run.

    Examples
    --------
    >>> runs = find_runs(np.array([0, 0, 1, 1, 1]), np.array([[0], [2]]), 3, count=2, places=4)
    >>> runs.first, runs.start, runs.stop, runs.kind
    (array([0, 2, 3]), array([0, 2, 0], dtype=uint64), array([2, 4, 4], dtype=uint64), array([0, 1, 1]))
    """
    padded = np.full(count * places, kinds[-1])
    padded[: len(kinds)] = kinds
    begins = np.concatenate(([True], padded[1:] != padded[:-1])) | (np.arange(len(padded)) % places == 0)
    start = np.flatnonzero(begins)
    first = np.searchsorted(start, np.arange(count + 1) * places)
    stop = np.append(start[1:], len(padded)) - start // places * places
    return RowRuns(first, (start % places).astype(np.uint64), stop.astype(np.uint64), padded[start], members, n_categories)
