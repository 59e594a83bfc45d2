"""The compiled loop of the recombination: what a design becomes when one of its stages' sets is replaced, added or left out.

A design is a chain of nested feature sets, each with its bits. No set is fitted here, so a design costs a few ANDs per stage.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from emsco_train.search.scoring.exit_counting import leave
from emsco_train.support.compiled import jit_entry, jit_inner

__all__ = ["SPLICE_FIGURES", "count_splices", "keep_uncovered", "most_splices"]

# Of each new chain: items accepted, right ones among them, cost, and the items that the new set accepts.
SPLICE_FIGURES = 4


def most_splices(sets: int, stages: int) -> int:
    """Return how many chains `count_splices` makes at most of a chain of `stages` stages."""
    return 6 * sets + 3 * (stages + 1)


@jit_entry()
def count_splices(
    chain: NDArray[np.int64],
    sets: NDArray[np.uint64],
    confident: NDArray[np.uint64],
    right: NDArray[np.uint64],
    cost: NDArray[np.int64],
    units: NDArray[np.int64],
    rows: int,
    closed: bool,  # noqa: FBT001 - compiled code has no keywords
    whole: bool,  # noqa: FBT001
    max_stages: int,
    splices: NDArray[np.int64],
    figures: NDArray[np.int64],
) -> int:  # pragma: no cover - compiled
    """Count what the chains do that share this one's first and last sets; return how many there are.

    A new chain has one of all sets between two of `chain`, or at an end, or instead of a neighbour; or it has one set
    less, or none after the new one. All are nested; `closed` keeps the last set. `sets` [sets, words] are masks of features,
    `confident` and `right` [sets, words] their bits, `cost` their units, and item i counts `units[i]`, or 1 where that is
    empty. `splices` gets the new set of each chain, -1 for none, how many sets stay before it, and the first one that stays
    after it; `figures` what `SPLICE_FIGURES` says. With `whole`, all items are here, and chains whose new set accepts nobody are
    left out: it adds nothing. Without, the chains do not depend on the bits, so that figures of parts can be added.
    """
    stages = len(chain)
    # After each of the chain's stages: who still waits; the items that left, those with the right label, what all of them paid.
    # Then the same after the new set (`left`), and after the end (`rest`).
    left, rest = stages + 1, stages + 2
    waiting = np.empty((stages + 3, confident.shape[1]), dtype=np.uint64)
    totals = np.zeros((stages + 3, 3), dtype=np.int64)
    for word in range(confident.shape[1]):
        waiting[0, word] = ~np.uint64(0)
    for stage in range(stages):
        _copy(waiting, totals, stage, stage + 1)
        _add_stage(waiting, totals, stage + 1, chain[stage], confident, right, cost, units)
    count = 0
    # -1 stands for no set.
    for new in range(-1, len(sets)):
        below, above = stages, 0
        if new >= 0:
            below, above = 0, stages
            while below < stages and chain[below] != new and _is_subset(sets, chain[below], new):
                below += 1
            while above > 0 and chain[above - 1] != new and _is_subset(sets, new, chain[above - 1]):
                above -= 1
            if below == 0 and above == stages:
                continue
        for first in range(max(0, below - 1) if new >= 0 else 0, below + 1):
            _copy(waiting, totals, first, left)
            if new >= 0:
                _add_stage(waiting, totals, left, new, confident, right, cost, units)
                if whole and totals[left, 0] == totals[first, 0]:
                    continue
            least = max(above, first) if new >= 0 else first + 1
            for last in range(least, stages + 1):
                # One set is left out, or all that follow.
                if (last > least + 1 and last < stages) or (last == stages and closed):
                    continue
                length = first + (1 if new >= 0 else 0) + stages - last
                if length == 0 or length > max_stages:
                    continue
                _copy(waiting, totals, left, rest)
                for stage in range(last, stages):
                    _add_stage(waiting, totals, rest, chain[stage], confident, right, cost, units)
                end = chain[stages - 1] if last < stages else (new if new >= 0 else chain[first - 1])
                splices[count, 0], splices[count, 1], splices[count, 2] = new, first, last
                figures[count, 0], figures[count, 1] = totals[rest, 0], totals[rest, 1]
                figures[count, 2] = totals[rest, 2] + (rows - totals[rest, 0]) * cost[end]
                figures[count, 3] = totals[left, 0] - totals[first, 0]
                count += 1
    return count


@jit_entry(refcounted=False)
def keep_uncovered(
    chain: NDArray[np.int64],
    splices: NDArray[np.int64],
    figures: NDArray[np.int64],
    front: NDArray[np.int64],
    size: int,
    found: NDArray[np.int64],
) -> int:  # pragma: no cover - compiled
    """Find the chains that nothing known dominates or equals, among those that `count_splices` made of one; return how many.

    The vectors (accepted, right, cost) of what is known are the first `size` rows of `front`; those of what is found are
    appended there, and the chains, ended by -1, to `found`, until that is full.
    """
    stages = len(chain)
    # The known vector that covered the last one: it often covers the next one too.
    count = hit = 0
    for at in range(len(splices)):
        new, first, last = splices[at]
        if count == len(found) or (size + count > 0 and _covers(front, hit, figures, at)):
            continue
        hit = _find_cover(front, size + count, figures, at)
        if hit >= 0:
            continue
        hit = size + count
        for objective in range(3):
            front[hit, objective] = figures[at, objective]
        for place in range(found.shape[1]):
            found[count, place] = -1
        for place in range(first):
            found[count, place] = chain[place]
        if new >= 0:
            found[count, first] = new
        length = first + (1 if new >= 0 else 0) + stages - last
        for stage in range(last, stages):
            found[count, length - stages + stage] = chain[stage]
        count += 1
    return count


@jit_inner(refcounted=False)
def _is_subset(sets: NDArray[np.uint64], one: int, other: int) -> bool:  # pragma: no cover - compiled
    for word in range(sets.shape[1]):  # noqa: SIM110 - compiled
        if sets[one, word] & ~sets[other, word]:
            return False
    return True


@jit_inner(refcounted=False)
def _copy(waiting: NDArray[np.uint64], totals: NDArray[np.int64], source: int, to: int) -> None:  # pragma: no cover - compiled
    for word in range(waiting.shape[1]):
        waiting[to, word] = waiting[source, word]
    for objective in range(totals.shape[1]):
        totals[to, objective] = totals[source, objective]


@jit_inner(refcounted=False)
def _add_stage(
    waiting: NDArray[np.uint64],
    totals: NDArray[np.int64],
    at: int,
    chosen: int,
    confident: NDArray[np.uint64],
    right: NDArray[np.uint64],
    cost: NDArray[np.int64],
    units: NDArray[np.int64],
) -> None:  # pragma: no cover - compiled
    """Let the items leave that a set accepts, and add them to the total."""
    leaving, good = leave(waiting[at], chosen, confident, right, units)
    totals[at, 0] += leaving
    totals[at, 1] += good
    totals[at, 2] += leaving * cost[chosen]


@jit_inner(refcounted=False)
def _find_cover(front: NDArray[np.int64], size: int, vectors: NDArray[np.int64], at: int) -> int:  # pragma: no cover - compiled
    """Return the place of a known vector that covers this one, or -1."""
    for known in range(size):
        if _covers(front, known, vectors, at):
            return known
    return -1


@jit_inner(refcounted=False)
def _covers(front: NDArray[np.int64], known: int, vectors: NDArray[np.int64], at: int) -> bool:  # pragma: no cover - compiled
    """Return whether a known vector is at least as good as another in coverage, accuracy and cost."""
    if front[known, 0] < vectors[at, 0] or front[known, 2] > vectors[at, 2]:
        return False
    one, other = max(front[known, 0], np.int64(1)), max(vectors[at, 0], np.int64(1))
    accurate: bool = front[known, 1] * other >= vectors[at, 1] * one
    return accurate
