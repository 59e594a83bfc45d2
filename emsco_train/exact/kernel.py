"""The compiled walk over all designs: nested feature sets, one stage inside the other.

A design is a chain of feature sets S1 < S2 < ...; its first sets are a *prefix*, kept on a stack with the items still waiting
after it. The last free set is scored for all its values in one tight loop; the full set after it, where it is forced, is scored
along with it (see `bits`).

Two rules, and nothing else, decide what is left out, and both leave out only designs that some known design strictly dominates
(no worse in all three objectives, better in one), so that neither the front nor the number of ties can change:

1. a design that costs more than `limits.most` at its (accepted, right);
2. a prefix, or one more set above it, whose *best conceivable* design does: it accepts what any larger set accepts, is right
   wherever a larger set is right, and pays for no more than the next set, and for all sets where nothing lets the item go.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emsco_train._compiled import entry_point, inner
from emsco_train.exact.bits import Landscape, Units
from emsco_train.exact.count import count_pairs
from emsco_train.exact.key import KEY
from emsco_train.exact.state import Finds, Limits, Stack

__all__ = ["walk"]

# Nothing here makes an array, so numba need not count who uses the arrays; that counting took a third of the time.
# A number that is written out in a call has a type of its own, hence int(np.int64(0)): the function is compiled once.


@inner(counted=False)
def _population(word: np.uint64) -> np.int64:  # pragma: no cover - compiled
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inner(counted=False)
def _push(land: Landscape, stack: Stack, level: int, larger: int) -> None:  # pragma: no cover - compiled
    """Put the prefix that goes on with set `larger` above the one at `level`."""
    words = land.ends[2]
    first, _, whole = count_pairs(land.pairs, larger * words, stack.waiting[level], land.ends)
    leaving = whole & 0xFFFF
    # In the region "right", swing marks the wrong ones.
    hits = (first & 0xFFFF) + (whole >> 16) - 2 * (first >> 16)
    before = land.cost[stack.sets[level]] if level else 0
    stack.sets[level + 1] = larger
    stack.accepted[level + 1] = stack.accepted[level] + leaving
    stack.right[level + 1] = stack.right[level] + hits
    stack.cost[level + 1] = stack.cost[level] + stack.left[level] * (land.cost[larger] - before)
    stack.left[level + 1] = stack.left[level] - leaving
    for word in range(words):
        waiting = stack.waiting[level, 2 * word] & ~land.pairs[2 * (larger * words + word)]
        stack.waiting[level + 1, 2 * word] = waiting
        stack.waiting[level + 1, 2 * word + 1] = waiting


@inner(counted=False)
def _hopeless(land: Landscape, limits: Limits, stack: Stack, level: int) -> bool:  # pragma: no cover - compiled
    """Whether a known design strictly dominates the best conceivable design with this prefix; notes what that one is held to."""
    base = stack.sets[level]
    accepted, right, doomed = np.int64(0), np.int64(0), np.int64(0)
    for word in range(land.ends[2]):
        waiting = stack.waiting[level, 2 * word]
        accepted += _population(waiting & land.reach[base, 0, word])
        right += _population(waiting & land.reach[base, 1, word])
        doomed += _population(waiting & land.reach[base, 2, word])
    never = stack.left[level] - accepted
    cost = stack.cost[level] + stack.left[level] * land.step[base] + never * land.rest[base]
    doomed += stack.accepted[level] - stack.right[level]
    accepted += stack.accepted[level]
    right += stack.right[level]
    # The share of wrong items is at least doomed / (right + doomed); the cell with no larger a share, and all accepted:
    wrong = accepted * doomed // (right + doomed) if right + doomed else accepted
    wrong = min(wrong, limits.stride - 1)
    most = limits.most[(accepted - limits.fewest) * limits.stride + wrong]
    stack.never[level] = never
    stack.most[level] = most
    return bool(cost > most)


@inner(counted=False)
def _too_dear(land: Landscape, stack: Stack, level: int, larger: int) -> bool:  # pragma: no cover - compiled
    """Whether going on from the prefix at `level` with set `larger` costs more than its best conceivable design may."""
    added = land.cost[larger] - (land.cost[stack.sets[level]] if level else 0)
    cost = stack.cost[level] + stack.left[level] * added + stack.never[level] * land.after[larger]
    return bool(cost > stack.most[level])


@inner(counted=False)
def _comes_first(chain: Units, other: Units, stages: int, last: int) -> bool:  # pragma: no cover - compiled
    """Whether a chain's chromosome is lexicographically less; `last` is 1 if the full set follows, which is not in the chain."""
    apart = np.int64(0)
    for stage in range(stages):
        apart |= chain[stage] ^ other[stage]
    bit = apart & -apart
    mine = theirs = last
    for stage in range(stages):
        mine += (chain[stage] & bit) != 0
        theirs += (other[stage] & bit) != 0
    # A feature that no set has is left out: -1, the least.
    if mine == 0 or theirs == 0:
        return mine == 0 and theirs != 0
    return mine > theirs


@inner(counted=False)
def _note(
    land: Landscape,
    finds: Finds,
    cell: int,
    cost: int,
    chain: Units,
    stages: int,
    listing: bool,  # noqa: FBT001
) -> None:  # pragma: no cover - compiled
    """Note a design that no known one dominates."""
    slot = -1 if listing else finds.slots[cell]
    if slot < 0:
        slot = finds.tally[0]
        if slot == finds.cell.shape[0]:
            finds.tally[3] = 1
            return
        finds.tally[0] += 1
        if not listing:
            finds.slots[cell] = slot
        finds.cost[slot] = cost + 1
        finds.cell[slot] = cell
    if cost > finds.cost[slot]:
        return
    if cost == finds.cost[slot]:
        finds.ties[slot] += 1
        if not _comes_first(chain, finds.chain[slot], stages, int(land.closed)):
            return
    else:
        finds.cost[slot] = cost
        finds.ties[slot] = 1
    for stage in range(stages):
        finds.chain[slot, stage] = chain[stage]


@inner(counted=False)
def _all_to_last(land: Landscape, stack: Stack, level: int) -> Any:  # pragma: no cover - compiled
    """Count items accepted, and those wrong, if all that wait go straight to the forced last stage (if there is one)."""
    accepted, wrong = stack.accepted[level], stack.accepted[level] - stack.right[level]
    for word in range(land.ends[1]):
        count = _population(stack.waiting[level, 2 * word])
        accepted += count
        if word >= land.ends[0]:
            wrong += count
    return accepted, wrong


@inner(counted=False)
def _score_full(land: Landscape, limits: Limits, stack: Stack, finds: Finds, listing: bool) -> None:  # noqa: FBT001  # pragma: no cover - compiled
    """Score the design of one stage that has all features."""
    accepted, wrong = _all_to_last(land, stack, int(np.int64(0)))
    cell = (accepted - limits.fewest) * limits.stride + wrong
    cost = stack.left[0] * land.cost[(1 << land.features) - 1]
    if cost <= limits.most[cell]:
        _note(land, finds, cell, cost, stack.sets[1:], int(np.int64(0)), listing)
    finds.tally[1] += 1
    finds.tally[2] += 1


@inner(counted=False)
def _score_last(
    land: Landscape,
    limits: Limits,
    stack: Stack,
    finds: Finds,
    level: int,
    pinned: int,
    listing: bool,  # noqa: FBT001
) -> None:  # pragma: no cover - compiled
    """Score every design whose last free set is larger than the prefix at `level`."""
    base = stack.sets[level] if level else pinned
    before = land.cost[base] if level else 0
    outside = ((1 << land.features) - 1) & ~base
    pairs, price, after, ends, most, stride = land.pairs, land.cost, land.after, land.ends, limits.most, limits.stride
    waiting, left, never, cap = stack.waiting[level], stack.left[level], stack.never[level], stack.most[level]
    accepted, wrong = _all_to_last(land, stack, level)
    origin = (accepted - limits.fewest) * stride + wrong
    spent = stack.cost[level] - left * before
    added = (outside - 1) & outside if land.closed else outside
    and_none = level == 0 and pinned != 0
    visited = scored = 0
    while added or and_none:
        larger = base | added
        visited += 1
        further = after[np.uint64(larger)]
        cost = spent + left * price[np.uint64(larger)]
        if cost + never * further <= cap:
            scored += 1
            first, second, whole = count_pairs(pairs, larger * ends[2], waiting, ends)
            leaving = whole & 0xFFFF
            more = leaving - (second & 0xFFFF)
            hits = (whole >> 16) - 2 * (first >> 16)
            cost += (left - leaving) * further
            cell = origin + more * stride + more - hits
            if cost <= most[np.uint64(cell)]:
                stack.sets[level + 1] = larger
                _note(land, finds, cell, cost, stack.sets[1:], level + 1, listing)
        if added == 0:
            break
        added = (added - 1) & outside
    finds.tally[1] += visited
    finds.tally[2] += scored


@inner(counted=False)
def _enter(
    land: Landscape, limits: Limits, stack: Stack, finds: Finds, level: int, larger: int, ways: Units, options: Any
) -> bool:  # pragma: no cover - compiled
    """Account for all designs that go on from the prefix at `level` with set `larger`; True if the walk has to go deeper."""
    prune, listing = options
    outside = land.features - _population(np.uint64(larger))
    more = ways.shape[0] - level - 1
    if outside < (more + 1 if land.closed else more):
        return False
    if _too_dear(land, stack, level, larger):
        finds.tally[1] += ways[more, outside]
        return False
    _push(land, stack, level, larger)
    if prune and _hopeless(land, limits, stack, level + 1):
        finds.tally[1] += ways[more, outside]
        return False
    if more == 1:
        _score_last(land, limits, stack, finds, level + 1, int(np.int64(0)), listing)
        return False
    return True


@entry_point(KEY, counted=False)
def walk(
    land: Landscape,
    limits: Limits,
    stack: Stack,
    finds: Finds,
    starts: Units,
    ways: Units,
    pinned: int,
    options: Any,
    stop: Any,
) -> None:  # pragma: no cover - compiled
    """Visit all designs with `len(ways)` free sets whose first set is one of `starts`; with one free set or none, all of them.

    `ways[sets, outside]` is the number of designs below a prefix: `sets` more to choose, `outside` features still to place.
    `options` are two flags: prune prefixes; list every find. A nonzero `stop[0]` ends the walk early.
    """
    if ways.shape[0] == 0:
        _score_full(land, limits, stack, finds, options[1])
    if ways.shape[0] == 1:
        _score_last(land, limits, stack, finds, int(np.int64(0)), pinned, options[1])
    everything = (1 << land.features) - 1
    for which in range(starts.shape[0]):
        level, larger = int(np.int64(0)), starts[which]
        while not (stop[0] or finds.tally[3]):
            # Here `larger` is the next set to put above `level`; 0 when there is none.
            if larger == 0:
                level -= 1
            elif _enter(land, limits, stack, finds, level, larger, ways, options):
                level += 1
                stack.trying[level] = everything & ~larger
            if level == 0:
                break
            added = stack.trying[level]
            larger = stack.sets[level] | added if added else 0
            stack.trying[level] = (added - 1) & (everything & ~stack.sets[level])
