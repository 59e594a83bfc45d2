"""Drivers: they make the calls that the walk asks for, for one item or for many in step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from emsco_runtime._plan import Acquire, Call, Plan
from emsco_runtime._pooled import Limits, call_for_each, call_within
from emsco_runtime._rule import accept_rows
from emsco_runtime._walk import NOT_DONE, Expired, Failed, Request, Score, Walk, walk
from emsco_runtime.errors import AcquisitionError

if TYPE_CHECKING:
    from emsco_runtime._scorer import Scorer
    from emsco_runtime.decision import Decision

__all__ = ["drive_many", "drive_one"]


def drive_one(
    plan: Plan, scorer: Scorer, item: Any, known: Mapping[str, object], budget: float, key: str | None = None
) -> Decision:
    """Walk one item to its decision."""
    steps = walk(plan, known, budget, math.inf, key)
    send = steps.send
    score = scorer.score
    reply: Any = None
    try:
        while True:
            request = send(reply)
            reply = _acquire(request, item) if isinstance(request, Acquire) else score(request.stage, request.values)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def _acquire(request: Acquire, item: Any) -> list[Any]:
    """Make the calls in order; after a failure that ends the item, the rest would only cost."""
    outcomes: list[Any] = []
    keep = outcomes.append
    due = request.functions
    while due:
        try:
            for function in due:
                keep(function(item))
            break
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
            failed = request.calls[len(outcomes)]
            keep(Failed(error))
            if failed.policy != "default":
                break
            due = request.functions[len(outcomes) :]
    return outcomes


def drive_many(
    plan: Plan, scorer: Scorer, items: Sequence[Any], walks: Sequence[Walk], limits: Limits, decisions: dict[int, Decision]
) -> None:
    """Walk many items in step, so that batch acquirers and models see all that are still under way at a stage.

    The decisions are put in as they come, by item: those that had come are not lost when another item raises.
    """
    lockstep = _Lockstep(walks, decisions)
    while lockstep.requests:
        # Items for which nothing is to be acquired ask to be scored at once; the others join them here.
        lockstep.answer(_acquire_many(lockstep.asking(Acquire), items, limits))
        lockstep.answer(_score_many(plan, scorer, lockstep.asking(Score)))


class _Lockstep:
    """Walks under way: what each asks for next, and the decisions of those that ended."""

    def __init__(self, walks: Sequence[Walk], decisions: dict[int, Decision]) -> None:
        self._walks = walks
        self._decisions = decisions
        self.requests: dict[int, Request] = {}
        self.answer(dict.fromkeys(range(len(walks))))

    def asking(self, kind: type[Acquire | Score]) -> dict[int, Any]:
        """Return the open requests of one kind, by item."""
        return {index: request for index, request in self.requests.items() if isinstance(request, kind)}

    def answer(self, replies: Mapping[int, Any]) -> None:
        """Send each item its reply and keep its next request."""
        for index, reply in replies.items():
            try:
                self.requests[index] = self._walks[index].send(reply)
            except StopIteration as stop:
                self._decisions[index] = stop.value
                self.requests.pop(index, None)
            except AcquisitionError as error:
                raise error.at(index) from error.__cause__


def _acquire_many(requests: Mapping[int, Acquire], items: Sequence[Any], limits: Limits) -> dict[int, Any]:
    outcomes: dict[int, list[Any]] = {index: [] for index in requests}
    ended: set[int] = set()
    callers: dict[int, list[int]] = {}
    calls: dict[int, Call] = {}
    for index, request in requests.items():
        for call in request.calls:
            calls[call.rank] = call
            callers.setdefault(call.rank, []).append(index)
    # The order of ranks is that of every single request, so that outcomes and calls of an item stay aligned.
    for rank in sorted(calls):
        call = calls[rank]
        going = [index for index in callers[rank] if index not in ended]
        for index, outcome in zip(going, _call_for(call, [items[index] for index in going], limits), strict=True):
            outcomes[index].append(outcome)
            if outcome is NOT_DONE or (isinstance(outcome, Failed) and call.policy != "default"):
                ended.add(index)
    return {index: Expired(found) if found and found[-1] is NOT_DONE else found for index, found in outcomes.items()}


def _call_for(call: Call, items: list[Any], limits: Limits) -> list[Any]:
    if not items:
        return []
    if not call.batch:
        bare = call.guard is None and limits.deadline == math.inf and not limits.side_by_side
        return _call_bare(call.function, items) if bare else call_for_each(call, items, limits)
    outcome = call_within(call, items, limits)
    if outcome is NOT_DONE or isinstance(outcome, Failed):
        return [outcome] * len(items)
    return outcome  # type: ignore[no-any-return]


def _call_bare(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Call a function for each item, with nothing around it: as quick as it can be."""
    outcomes: list[Any] = []
    keep = outcomes.append
    rest = iter(items)
    while True:
        try:
            for item in rest:
                keep(function(item))
            break
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
            keep(Failed(error))
    return outcomes


def _score_many(plan: Plan, scorer: Scorer, requests: Mapping[int, Score]) -> dict[int, list[float]]:
    """Score items of the same stage together, and those near a threshold or a tie again, alone."""
    replies: dict[int, list[float]] = {}
    for number, stage in enumerate(plan.stages):
        asking = {index: request.values for index, request in requests.items() if request.stage == number}
        if not asking:
            continue
        scores = scorer.score_rows(number, np.array(list(asking.values()), dtype=np.float64))
        near = accept_rows(scores, stage.thresholds)[3].tolist()
        for (index, values), row, alone in zip(asking.items(), scores.tolist(), near, strict=True):
            replies[index] = scorer.score(number, values) if alone else row
    return replies
