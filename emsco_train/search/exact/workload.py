"""How much work an exact search is, and how it is divided into parts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from emsco_train.errors import DesignError
from emsco_train.search.exact.set_bits import Units

__all__ = ["MAX_FEATURES", "Part", "Workload", "count_continuations", "estimate_workload", "split_parts"]

# Two bits for each item of each of 2**20 sets is where memory ends; the chains themselves end earlier.
MAX_FEATURES = 20
# A part of the walk is about this many designs, so that limits are renewed, and progress is shown, a few times a second.
_DESIGNS_PER_PART = 2**21
# Nanoseconds for a design and for each of its words, measured on one core of a small server, nothing pruned.
_PER_DESIGN, _PER_WORD = 13.0, 1.7
# The same for each item of each set, for checking and laying out the bits; one thread does it.
_PER_BIT = 25.0


@dataclass(frozen=True, slots=True)
class Workload:
    """What an exact search needs: seconds if nothing can be pruned (real data take about half), memory with the bits given."""

    designs: int
    seconds_estimate: float
    bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Designs of `stages` stages, by their first sets; without first sets, all designs with one free set."""

    stages: int
    starts: Units
    designs: int


def estimate_workload(
    n: int, max_stages: int, rows: int, *, allow_exclusion: bool = False, pinned: int = 0, jobs: int = 2
) -> Workload:
    """Return what enumerating all designs of n features in at most `max_stages` stages takes, for `rows` validation rows.

    Examples
    --------
    >>> estimate_workload(14, 4, 200).designs
    254152083
    >>> estimate_workload(14, 4, 200, allow_exclusion=True).designs
    5317308365
    """
    if not 1 <= n <= MAX_FEATURES:
        raise DesignError(f"features: the exact search takes 1 to {MAX_FEATURES}, got {n}. Use the genetic search")
    if not 1 <= max_stages <= n:
        raise DesignError(f"`max_stages`: expected 1 to {n}, the number of features, got {max_stages}")
    if not 0 <= pinned < 2**n:
        raise DesignError(f"pinned: expected a mask of {n} features (bit i = feature i), got {pinned}")
    designs = sum(_count_designs(n, stages, pinned, closed=not allow_exclusion) for stages in range(1, max_stages + 1))
    words = -(-rows // 64) + (0 if allow_exclusion else 1)
    # Bits given and laid out, the reach of each set, and one table of limits for each worker and one to come.
    sets = 2**n * (16 * -(-rows // 64) + (16 + 24) * words + 40) + 2**n * rows * 4
    tables = (rows + 1) ** 2 * (8 * (jobs + 1) + 4 * jobs)
    seconds = designs * (_PER_DESIGN + _PER_WORD * words) * 1e-9 / jobs + 2**n * rows * _PER_BIT * 1e-9
    return Workload(designs, seconds, sets + tables)


def count_continuations(features: int, stages: int, *, closed: bool) -> Units:
    """Return how many designs continue a prefix [sets still to choose, features outside]; one row for each free set.

    Where every design ends in the full set (`closed`), that set is not free.
    """
    free = stages - 1 if closed else stages
    table = [[_count_chains(more, outside, closed=closed) for outside in range(features + 1)] for more in range(free)]
    return np.array(table, dtype=np.int64).reshape(free, features + 1)


def split_parts(features: int, stages: int, *, pinned: int, closed: bool) -> Iterator[Part]:
    """Yield the parts of the walk over all designs with `stages` stages, those with the smallest first sets first."""
    free = stages - 1 if closed else stages
    total = _count_designs(features, stages, pinned, closed=closed)
    if free <= 1:
        if total:
            yield Part(stages, np.zeros(0, dtype=np.int64), total)
        return
    sets = np.arange(2**features, dtype=np.int64)
    # numpy counts bits only from version 2 on.
    outside = features - np.unpackbits(sets.view(np.uint8).reshape(len(sets), -1), axis=1).sum(axis=1, dtype=np.int64)
    starts = sets[(sets & pinned == pinned) & (sets > 0) & (outside >= free - 1 + closed)]
    starts = starts[np.argsort(-outside[starts], kind="stable")]
    below = np.array([_count_chains(free - 1, count, closed=closed) for count in range(features + 1)], dtype=np.int64)
    work = below[outside[starts]]
    cuts = np.flatnonzero(np.diff((np.cumsum(work) - 1) // _DESIGNS_PER_PART)) + 1
    for first, last in zip([0, *cuts.tolist()], [*cuts.tolist(), len(starts)], strict=True):
        if last > first:
            yield Part(stages, starts[first:last], int(work[first:last].sum()))


def _count_designs(features: int, stages: int, pinned: int, *, closed: bool) -> int:
    """Return the number of designs with exactly `stages` stages and the pinned features in the first."""
    rest = features - pinned.bit_count()
    largest = rest if pinned else features - 1
    more = stages - 1 - closed
    return sum(math.comb(rest, outside) * _count_chains(more, outside, closed=closed) for outside in range(largest + 1))


def _count_chains(more: int, outside: int, *, closed: bool) -> int:
    """Return the number of chains that add `more` sets (if closed, also the full one) to a set that lacks `outside` features."""
    if more < 0:
        # Closed, and the set is the last one: it has to be the full one.
        return int(outside == 0)
    return _surjection_count(outside, more + 1) + (0 if closed else _surjection_count(outside, more))


def _surjection_count(items: int, boxes: int) -> int:
    """Return the number of ways to put items into distinct boxes, none left empty: boxes! S2(items, boxes)."""
    return sum((-1) ** empty * math.comb(boxes, empty) * (boxes - empty) ** items for empty in range(boxes + 1))
