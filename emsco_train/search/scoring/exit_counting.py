"""The compiled inner loops of the evaluator: a few ANDs and population counts per stage and design, or sums of units."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from emsco_train.support.compiled import jit_entry, jit_inner, popcount

__all__ = ["count_answers", "count_exits", "leave"]


@jit_inner(refcounted=False)
def leave(
    waiting: NDArray[np.uint64],
    chosen: int,
    confident: NDArray[np.uint64],
    right: NDArray[np.uint64],
    units: NDArray[np.int64],
) -> tuple[np.int64, np.int64]:  # pragma: no cover - compiled
    """Let the items that a set accepts leave; return how many they are, and how many get the right label.

    `confident` and `right` [sets, words] are the bits of the sets. Item i counts `units[i]`, or 1 where that is empty; all bits
    beyond the items are zero.
    """
    leaving, good = np.int64(0), np.int64(0)
    if len(units) == 0:
        for word in range(len(waiting)):
            leaving += popcount(waiting[word] & confident[chosen, word])
            good += popcount(waiting[word] & right[chosen, word])
            waiting[word] &= ~confident[chosen, word]
        return leaving, good
    for word in range(len(waiting)):
        bits = waiting[word] & confident[chosen, word]
        waiting[word] &= ~bits
        while bits != np.uint64(0):
            lowest = bits ^ (bits & (bits - np.uint64(1)))
            unit = units[np.int64(64) * word + popcount(lowest - np.uint64(1))]
            leaving += unit
            if right[chosen, word] & lowest:
                good += unit
            bits ^= lowest
    return leaving, good


@jit_entry()
def count_exits(
    chains: NDArray[np.int64],
    confident: NDArray[np.uint64],
    right: NDArray[np.uint64],
    units: NDArray[np.int64],
    exits: NDArray[np.int64],
    hits: NDArray[np.int64],
) -> None:  # pragma: no cover - compiled
    """Fill `exits` and `hits`: how many items leave at each stage of each design, and how many of them with the right label.

    `chains` [designs, stages] holds the row of each stage's feature set in `confident` and `right`, which `leave` describes
    with `units`; -1 ends one.
    """
    waiting = np.empty(confident.shape[1], dtype=np.uint64)
    for design in range(chains.shape[0]):
        for word in range(len(waiting)):
            waiting[word] = ~np.uint64(0)
        for stage in range(chains.shape[1]):
            row = chains[design, stage]
            if row < 0:
                break
            exits[design, stage], hits[design, stage] = leave(waiting, row, confident, right, units)


@jit_entry()
def count_answers(
    chains: NDArray[np.int64],
    confident: NDArray[np.uint64],
    right: NDArray[np.uint64],
    answers: NDArray[np.uint64],
    target: NDArray[np.int64],
    units: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:  # pragma: no cover - compiled
    """Fill `counts` [designs, 3, labels]: accepted items by their own label, by the one they get, and those where both are one.

    `chains`, `confident` and `right` are those of `count_exits`; `answers` [planes, sets, words] are the bits of the position of
    each item's most probable label, empty for two labels; they do not depend on thresholds, and row r of `confident` is the set
    r modulo their number. Item i has the label at `target[i]` and counts `units[i]`, or 1 where that is empty.
    """
    if answers.shape[0] == 0 and len(units) == 0:
        _count_two_labels(chains, confident, right, target, counts)
        return
    words = confident.shape[1]
    waiting = np.empty(words, dtype=np.uint64)
    for design in range(chains.shape[0]):
        for word in range(words):
            waiting[word] = ~np.uint64(0)
        for stage in range(chains.shape[1]):
            row = chains[design, stage]
            if row < 0:
                break
            for word in range(words):
                bits = waiting[word] & confident[row, word]
                waiting[word] &= ~bits
                while bits != np.uint64(0):
                    lowest = bits ^ (bits & (bits - np.uint64(1)))
                    item = np.int64(64) * word + popcount(lowest - np.uint64(1))
                    own, unit = target[item], units[item] if len(units) > 0 else np.int64(1)
                    if right[row, word] & lowest:
                        answer = own
                        counts[design, 2, own] += unit
                    elif answers.shape[0] == 0:
                        answer = 1 - own
                    else:
                        answer = np.int64(0)
                        for plane in range(answers.shape[0]):
                            if answers[plane, row % answers.shape[1], word] & lowest:
                                answer += np.int64(1) << plane
                    counts[design, 0, own] += unit
                    counts[design, 1, answer] += unit
                    bits ^= lowest


@jit_inner()
def _count_two_labels(
    chains: NDArray[np.int64],
    confident: NDArray[np.uint64],
    right: NDArray[np.uint64],
    target: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:  # pragma: no cover - compiled
    """Fill `counts` for two labels whose items all count 1: 64 items at a time."""
    words = confident.shape[1]
    second, waiting = np.zeros(words, dtype=np.uint64), np.empty(words, dtype=np.uint64)
    for item in range(len(target)):
        second[item // 64] |= np.uint64(target[item]) << np.uint64(item % 64)
    for design in range(chains.shape[0]):
        for word in range(words):
            waiting[word] = ~np.uint64(0)
        # Accepted and right items, and those of the second label among both.
        accepted, good, accepted_second, good_second = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for stage in range(chains.shape[1]):
            row = chains[design, stage]
            if row < 0:
                break
            for word in range(words):
                leaving = waiting[word] & confident[row, word]
                waiting[word] &= ~leaving
                accepted += popcount(leaving)
                accepted_second += popcount(leaving & second[word])
                leaving &= right[row, word]
                good += popcount(leaving)
                good_second += popcount(leaving & second[word])
        counts[design, 0, 0], counts[design, 0, 1] = accepted - accepted_second, accepted_second
        counts[design, 2, 0], counts[design, 2, 1] = good - good_second, good_second
        # A wrong item gets the other label.
        counts[design, 1, 0] = counts[design, 2, 0] + accepted_second - good_second
        counts[design, 1, 1] = accepted - counts[design, 1, 0]
