"""What the compiled walk of the exact search reads, works on and fills; tuples, because numba takes no dataclass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from emsco_train.exact.bits import Landscape, Units, Words

__all__ = ["Finds", "Limits", "Stack", "empty_stack"]


class Limits(NamedTuple):
    """The most that a design may cost, by accepted (from `fewest` on) and wrong items, not to be dominated by a known one."""

    most: Units
    fewest: int
    stride: int


class Stack(NamedTuple):
    """Prefixes from the empty one (level 0) on: set, what to try next, counts, cost so far, waiting items (each word twice).

    `never` counts the waiting items that no larger set lets go; `most` is the limit of the best conceivable design.
    """

    sets: Units
    trying: Units
    accepted: Units
    right: Units
    cost: Units
    left: Units
    never: Units
    most: Units
    waiting: Words


class Finds(NamedTuple):
    """Designs found: the cheapest of each cell of `Limits`, with the number of equals; or, for listing, every one."""

    slots: Any
    cell: Units
    cost: Units
    ties: Units
    chain: Units
    tally: Units  # used slots, designs accounted for, designs scored, 1 if the slots did not suffice


def empty_stack(land: Landscape, depth: int) -> Stack:
    """Return a stack for chains of up to `depth` sets, with the empty prefix at its bottom."""
    sets, trying, accepted, right, cost, left, never = np.zeros((7, depth + 1), dtype=np.int64)
    most = np.full(depth + 1, np.iinfo(np.int64).max)
    waiting = np.zeros((depth + 1, 2 * land.words), dtype=np.uint64)
    waiting[0] = np.repeat(land.valid, 2)
    left[0] = land.rows
    return Stack(sets, trying, accepted, right, cost, left, never, most, waiting)
