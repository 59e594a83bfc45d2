"""The compiled loop of the recombination: what a design becomes when one of its stages' sets is replaced, added or left out.

A design is a chain of nested feature sets, each with its bits. No set is fitted here, so a design costs a few ANDs per stage.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from emsco_train.support.compiled import jit_entry, jit_inner, popcount

__all__ = ["splice_chain"]


@jit_entry()
def splice_chain(
    chain: NDArray[np.int64],
    sets: NDArray[np.uint64],
    confident: NDArray[np.uint64],
    right: NDArray[np.uint64],
    cost: NDArray[np.int64],
    units: NDArray[np.int64],
    rows: int,
    closed: bool,  # noqa: FBT001 - compiled code has no keywords
    front: NDArray[np.int64],
    size: int,
    found: NDArray[np.int64],
) -> int:  # pragma: no cover - compiled
    """Find the chains that nothing known dominates or equals, among those that share this one's first and last sets.

    A new chain has one of all sets between two of `chain`, or at an end, or in the place of a neighbour; or it has one set
    less, or none after the new one. All are nested; `closed` keeps the last set. `sets` [sets, words] are masks of features,
    `confident` and `right` [sets, words] their bits, `cost` their units, and item i counts `units[i]`, or 1 where that is
    empty. The vectors (accepted, right, cost) of what is known are the first `size` rows of `front`; those of what is found
    are appended there, and the chains, ended by -1, to `found`, until that is full. Returns how many were found.
    """
    stages, words = len(chain), confident.shape[1]
    waiting = np.empty((stages + 1, words), dtype=np.uint64)
    # Accepted, right and paid by the items that left.
    before = np.zeros((stages + 1, 3), dtype=np.int64)
    waiting[0] = ~np.uint64(0)
    for stage in range(stages):
        waiting[stage + 1] = waiting[stage]
        before[stage + 1] = before[stage]
        _leave(waiting[stage + 1], chain[stage], confident, right, cost, units, before[stage + 1])
    left, rest = np.empty(words, dtype=np.uint64), np.empty(words, dtype=np.uint64)
    middle, total = np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64)
    # The known vector that covered the last one: it often covers the next one too.
    count = hit = 0
    # -1 stands for no set.
    for new in range(-1, len(sets)):
        below, above = stages, 0
        if new >= 0:
            below, above = 0, stages
            while below < stages and chain[below] != new and _is_subset(sets[chain[below]], sets[new]):
                below += 1
            while above > 0 and chain[above - 1] != new and _is_subset(sets[new], sets[chain[above - 1]]):
                above -= 1
            if below == 0 and above == stages:
                continue
        for first in range(max(0, below - 1) if new >= 0 else 0, below + 1):
            left[:] = waiting[first]
            middle[:] = before[first]
            if new >= 0:
                _leave(left, new, confident, right, cost, units, middle)
                if middle[0] == before[first, 0]:
                    # A stage that accepts nobody adds nothing.
                    continue
            least = max(above, first) if new >= 0 else first + 1
            for last in range(least, stages + 1):
                # One set is left out, or all that follow.
                if (last > least + 1 and last < stages) or (last == stages and closed):
                    continue
                length = first + (1 if new >= 0 else 0) + stages - last
                if length == 0 or length > found.shape[1]:
                    continue
                rest[:] = left
                total[:] = middle
                for stage in range(last, stages):
                    _leave(rest, chain[stage], confident, right, cost, units, total)
                end = chain[stages - 1] if last < stages else (new if new >= 0 else chain[first - 1])
                total[2] += (rows - total[0]) * cost[end]
                if count == len(found) or (size + count > 0 and _covers(front[hit], total)):
                    continue
                hit = _find_cover(total, front, size + count)
                if hit >= 0:
                    continue
                hit = size + count
                front[size + count] = total
                found[count] = -1
                found[count, :first] = chain[:first]
                if new >= 0:
                    found[count, first] = new
                found[count, length - (stages - last) : length] = chain[last:]
                count += 1
    return count


@jit_inner()
def _is_subset(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> bool:  # pragma: no cover - compiled
    for word in range(len(one)):  # noqa: SIM110 - compiled
        if one[word] & ~other[word]:
            return False
    return True


@jit_inner()
def _leave(
    waiting: NDArray[np.uint64],
    chosen: int,
    confident: NDArray[np.uint64],
    right: NDArray[np.uint64],
    cost: NDArray[np.int64],
    units: NDArray[np.int64],
    total: NDArray[np.int64],
) -> None:  # pragma: no cover - compiled
    """Let the items leave that a set accepts, and add them to the total."""
    accepted = np.int64(0)
    for word in range(len(waiting)):
        bits = waiting[word] & confident[chosen, word]
        if len(units) == 0:
            accepted += popcount(bits)
            total[1] += popcount(bits & right[chosen, word])
        else:
            while bits != np.uint64(0):
                lowest = bits ^ (bits & (bits - np.uint64(1)))
                unit = units[np.int64(64) * word + popcount(lowest - np.uint64(1))]
                accepted += unit
                if right[chosen, word] & lowest:
                    total[1] += unit
                bits ^= lowest
        waiting[word] &= ~confident[chosen, word]
    total[0] += accepted
    total[2] += accepted * cost[chosen]


@jit_inner()
def _find_cover(vector: NDArray[np.int64], front: NDArray[np.int64], size: int) -> int:  # pragma: no cover - compiled
    """Return the place of a known vector that covers this one, or -1."""
    for known in range(size):
        if _covers(front[known], vector):
            return known
    return -1


@jit_inner()
def _covers(known: NDArray[np.int64], vector: NDArray[np.int64]) -> bool:  # pragma: no cover - compiled
    """Return whether a vector is at least as good as another in coverage, accuracy and cost."""
    if known[0] < vector[0] or known[2] > vector[2]:
        return False
    accurate: bool = known[1] * max(vector[0], np.int64(1)) >= vector[1] * max(known[0], np.int64(1))
    return accurate
