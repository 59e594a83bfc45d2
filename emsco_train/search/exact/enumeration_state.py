"""What the compiled walk of the exact search reads, works on and fills; tuples, because numba takes no dataclass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from emsco_train.search.exact.set_bits import SetLayout, Units, Words

__all__ = ["CostLimits", "FindBuffer", "Stack", "empty_stack"]


class CostLimits(NamedTuple):
    """The most that a design may cost, by accepted (from `min_accepted` on) and wrong items, not to be dominated by one."""

    max_cost: Units
    min_accepted: int
    stride: int


class Stack(NamedTuple):
    """Prefixes from the empty one (level 0) on: set, what to try next, counts, cost so far, waiting items (each word twice).

    `unsettled` counts the waiting items that no larger set accepts; `max_cost` is the limit of the best conceivable design.
    """

    sets: Units
    untried: Units
    accepted: Units
    right: Units
    cost: Units
    left: Units
    unsettled: Units
    max_cost: Units
    waiting: Words


class FindBuffer(NamedTuple):
    """Designs found: the cheapest of each cell of `CostLimits`, with the number of equals; or, for listing, every one."""

    slots: Any
    cell: Units
    cost: Units
    ties: Units
    chain: Units
    counters: Units  # used slots, designs accounted for, designs scored, 1 if the slots did not suffice


def empty_stack(layout: SetLayout, depth: int) -> Stack:
    """Return a stack for chains of up to `depth` sets, with the empty prefix at its bottom."""
    sets, untried, accepted, right, cost, left, unsettled = np.zeros((7, depth + 1), dtype=np.int64)
    max_cost = np.full(depth + 1, np.iinfo(np.int64).max)
    waiting = np.zeros((depth + 1, 2 * layout.ends[2]), dtype=np.uint64)
    waiting[0] = np.repeat(layout.valid, 2)
    left[0] = layout.rows
    return Stack(sets, untried, accepted, right, cost, left, unsettled, max_cost, waiting)
