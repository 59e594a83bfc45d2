"""The compiled walk over all designs: nested feature sets, one stage inside the other.

A design is a chain of feature sets S1 < S2 < ...; its first sets are a *prefix*, kept on a stack with the items still waiting
after it. The last free set is scored for all its values in one tight loop; the full set after it, where it is forced, is scored
along with it (see `set_bits`).

Two rules, and nothing else, decide what is left out, and both leave out only designs that some known design strictly dominates
(no worse in all three objectives, better in one), so that neither the front nor the number of ties can change:

1. a design that costs more than `limits.max_cost` at its (accepted, right);
2. a prefix, or one more set above it, whose *best conceivable* design does: it accepts what any larger set accepts, is right
   wherever a larger set is right, and pays for no more than the next set, and for all sets where nothing accepts the item.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emsco_train.search.exact.bit_counting import count_pairs
from emsco_train.search.exact.enumeration_state import CostLimits, FindBuffer, Stack
from emsco_train.search.exact.set_bits import SetLayout, Units
from emsco_train.support.compiled import jit_entry, jit_inner, popcount

__all__ = ["walk_designs"]

# Nothing here makes an array, so numba need not count references to arrays, which took a third of the time.
# A number that is written out in a call has a type of its own, so it is int(np.int64(0)): the function is compiled once.


@jit_inner(refcounted=False)
def _push(layout: SetLayout, stack: Stack, level: int, larger: int) -> None:  # pragma: no cover - compiled
    """Put the prefix that continues with set `larger` above the one at `level`."""
    words = layout.ends[2]
    first, _, whole = count_pairs(layout.pairs, larger * words, stack.waiting[level], layout.ends)
    leaving = whole & 0xFFFF
    # In the region "right", swing marks the wrong ones.
    hits = (first & 0xFFFF) + (whole >> 16) - 2 * (first >> 16)
    before = layout.cost[stack.sets[level]] if level else 0
    stack.sets[level + 1] = larger
    stack.accepted[level + 1] = stack.accepted[level] + leaving
    stack.right[level + 1] = stack.right[level] + hits
    stack.cost[level + 1] = stack.cost[level] + stack.left[level] * (layout.cost[larger] - before)
    stack.left[level + 1] = stack.left[level] - leaving
    for word in range(words):
        waiting = stack.waiting[level, 2 * word] & ~layout.pairs[2 * (larger * words + word)]
        stack.waiting[level + 1, 2 * word] = waiting
        stack.waiting[level + 1, 2 * word + 1] = waiting


@jit_inner(refcounted=False)
def _is_dominated(layout: SetLayout, limits: CostLimits, stack: Stack, level: int) -> bool:  # pragma: no cover - compiled
    """Whether a known design strictly dominates the best conceivable design with this prefix; stores the limit for it."""
    base = stack.sets[level]
    accepted, right, doomed = np.int64(0), np.int64(0), np.int64(0)
    for word in range(layout.ends[2]):
        waiting = stack.waiting[level, 2 * word]
        accepted += popcount(waiting & layout.reach[base, 0, word])
        right += popcount(waiting & layout.reach[base, 1, word])
        doomed += popcount(waiting & layout.reach[base, 2, word])
    unsettled = stack.left[level] - accepted
    cost = stack.cost[level] + stack.left[level] * layout.step[base] + unsettled * layout.rest[base]
    doomed += stack.accepted[level] - stack.right[level]
    accepted += stack.accepted[level]
    right += stack.right[level]
    # The share of wrong items is at least doomed / (right + doomed); the cell with no larger a share, and all accepted:
    wrong = accepted * doomed // (right + doomed) if right + doomed else accepted
    wrong = min(wrong, limits.stride - 1)
    max_cost = limits.max_cost[(accepted - limits.min_accepted) * limits.stride + wrong]
    stack.unsettled[level] = unsettled
    stack.max_cost[level] = max_cost
    return bool(cost > max_cost)


@jit_inner(refcounted=False)
def _is_too_expensive(layout: SetLayout, stack: Stack, level: int, larger: int) -> bool:  # pragma: no cover - compiled
    """Whether continuing the prefix at `level` with set `larger` costs more than its best conceivable design may."""
    added = layout.cost[larger] - (layout.cost[stack.sets[level]] if level else 0)
    cost = stack.cost[level] + stack.left[level] * added + stack.unsettled[level] * layout.after[larger]
    return bool(cost > stack.max_cost[level])


@jit_inner(refcounted=False)
def _precedes(chain: Units, other: Units, stages: int, last: int) -> bool:  # pragma: no cover - compiled
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


@jit_inner(refcounted=False)
def _record_find(
    layout: SetLayout,
    buffer: FindBuffer,
    cell: int,
    cost: int,
    chain: Units,
    stages: int,
    listing: bool,  # noqa: FBT001
) -> None:  # pragma: no cover - compiled
    """Record a design that no known one dominates."""
    slot = -1 if listing else buffer.slots[cell]
    if slot < 0:
        slot = buffer.counters[0]
        if slot == buffer.cell.shape[0]:
            buffer.counters[3] = 1
            return
        buffer.counters[0] += 1
        if not listing:
            buffer.slots[cell] = slot
        buffer.cost[slot] = cost + 1
        buffer.cell[slot] = cell
    if cost > buffer.cost[slot]:
        return
    if cost == buffer.cost[slot]:
        buffer.ties[slot] += 1
        if not _precedes(chain, buffer.chain[slot], stages, int(layout.closed)):
            return
    else:
        buffer.cost[slot] = cost
        buffer.ties[slot] = 1
    for stage in range(stages):
        buffer.chain[slot, stage] = chain[stage]


@jit_inner(refcounted=False)
def _all_to_last(layout: SetLayout, stack: Stack, level: int) -> Any:  # pragma: no cover - compiled
    """Count items accepted, and those wrong, if all that wait go straight to the forced last stage (if there is one)."""
    accepted, wrong = stack.accepted[level], stack.accepted[level] - stack.right[level]
    for word in range(layout.ends[1]):
        count = popcount(stack.waiting[level, 2 * word])
        accepted += count
        if word >= layout.ends[0]:
            wrong += count
    return accepted, wrong


@jit_inner(refcounted=False)
def _score_full(layout: SetLayout, limits: CostLimits, stack: Stack, buffer: FindBuffer, listing: bool) -> None:  # noqa: FBT001  # pragma: no cover - compiled
    """Score the design of one stage that has all features."""
    accepted, wrong = _all_to_last(layout, stack, int(np.int64(0)))
    cell = (accepted - limits.min_accepted) * limits.stride + wrong
    cost = stack.left[0] * layout.cost[(1 << layout.features) - 1]
    if cost <= limits.max_cost[cell]:
        _record_find(layout, buffer, cell, cost, stack.sets[1:], int(np.int64(0)), listing)
    buffer.counters[1] += 1
    buffer.counters[2] += 1


@jit_inner(refcounted=False)
def _score_last(
    layout: SetLayout,
    limits: CostLimits,
    stack: Stack,
    buffer: FindBuffer,
    level: int,
    pinned: int,
    listing: bool,  # noqa: FBT001
) -> None:  # pragma: no cover - compiled
    """Score every design whose last free set is larger than the prefix at `level`."""
    base = stack.sets[level] if level else pinned
    before = layout.cost[base] if level else 0
    outside = ((1 << layout.features) - 1) & ~base
    pairs, price, after, ends, max_cost, stride = (
        layout.pairs,
        layout.cost,
        layout.after,
        layout.ends,
        limits.max_cost,
        limits.stride,
    )
    waiting, left, unsettled, cap = stack.waiting[level], stack.left[level], stack.unsettled[level], stack.max_cost[level]
    accepted, wrong = _all_to_last(layout, stack, level)
    origin = (accepted - limits.min_accepted) * stride + wrong
    spent = stack.cost[level] - left * before
    added = (outside - 1) & outside if layout.closed else outside
    and_none = level == 0 and pinned != 0
    visited = scored = 0
    while added or and_none:
        larger = base | added
        visited += 1
        further = after[np.uint64(larger)]
        cost = spent + left * price[np.uint64(larger)]
        if cost + unsettled * further <= cap:
            scored += 1
            first, second, whole = count_pairs(pairs, larger * ends[2], waiting, ends)
            leaving = whole & 0xFFFF
            more = leaving - (second & 0xFFFF)
            hits = (whole >> 16) - 2 * (first >> 16)
            cost += (left - leaving) * further
            cell = origin + more * stride + more - hits
            if cost <= max_cost[np.uint64(cell)]:
                stack.sets[level + 1] = larger
                _record_find(layout, buffer, cell, cost, stack.sets[1:], level + 1, listing)
        if added == 0:
            break
        added = (added - 1) & outside
    buffer.counters[1] += visited
    buffer.counters[2] += scored


@jit_inner(refcounted=False)
def _visit_prefix(
    layout: SetLayout,
    limits: CostLimits,
    stack: Stack,
    buffer: FindBuffer,
    level: int,
    larger: int,
    continuations: Units,
    options: Any,
) -> bool:  # pragma: no cover - compiled
    """Account for all designs that continue the prefix at `level` with set `larger`; True if the walk has to go deeper."""
    prune, listing = options
    outside = layout.features - popcount(np.uint64(larger))
    more = continuations.shape[0] - level - 1
    if outside < (more + 1 if layout.closed else more):
        return False
    if _is_too_expensive(layout, stack, level, larger):
        buffer.counters[1] += continuations[more, outside]
        return False
    _push(layout, stack, level, larger)
    if prune and _is_dominated(layout, limits, stack, level + 1):
        buffer.counters[1] += continuations[more, outside]
        return False
    if more == 1:
        _score_last(layout, limits, stack, buffer, level + 1, int(np.int64(0)), listing)
        return False
    return True


@jit_entry(refcounted=False)
def walk_designs(
    layout: SetLayout,
    limits: CostLimits,
    stack: Stack,
    buffer: FindBuffer,
    starts: Units,
    continuations: Units,
    pinned: int,
    options: Any,
    stop: Any,
) -> None:  # pragma: no cover - compiled
    """Visit all designs with `len(continuations)` free sets whose first set is one of `starts`; with one or none, all of them.

    `continuations[sets, outside]` is the number of designs below a prefix: `sets` more to choose, `outside` features to place.
    `options` are two flags: prune prefixes; list every find. A nonzero `stop[0]` ends the walk early.
    """
    if continuations.shape[0] == 0:
        _score_full(layout, limits, stack, buffer, options[1])
    if continuations.shape[0] == 1:
        _score_last(layout, limits, stack, buffer, int(np.int64(0)), pinned, options[1])
    everything = (1 << layout.features) - 1
    for which in range(starts.shape[0]):
        level, larger = int(np.int64(0)), starts[which]
        while not (stop[0] or buffer.counters[3]):
            # Here `larger` is the next set to put above `level`; 0 when there is none.
            if larger == 0:
                level -= 1
            elif _visit_prefix(layout, limits, stack, buffer, level, larger, continuations, options):
                level += 1
                stack.untried[level] = everything & ~larger
            if level == 0:
                break
            added = stack.untried[level]
            larger = stack.sets[level] | added if added else 0
            stack.untried[level] = (added - 1) & (everything & ~stack.sets[level])
