"""The driver of many items in lockstep: batch acquirers and models get all that are still under way at a stage."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from emsco_runtime.bundle.rule import accept_rows
from emsco_runtime.decision import Decision
from emsco_runtime.driving.item_inputs import Limits
from emsco_runtime.driving.pooled import call_for_each, call_with_limits
from emsco_runtime.engine.plan import AcquireRequest, Call, Plan
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.engine.walk import NOT_DONE, Expired, Failed, Request, ScoreRequest, Walk, ends_item
from emsco_runtime.errors import AcquisitionError
from emsco_runtime.sources.guard import UNGUARDED

__all__ = ["drive_many"]


def drive_many(
    plan: Plan, scorer: Scorer, items: Sequence[Any], walks: Sequence[Walk], limits: Limits, decisions: dict[int, Decision]
) -> None:
    """Walk many items, and add their decisions to the mapping as they are made: they are not lost if another item raises."""
    requests: dict[int, Request] = {}

    def send(replies: Mapping[int, Any]) -> None:
        for index, reply in replies.items():
            try:
                requests[index] = walks[index].send(reply)
            except StopIteration as stop:
                decisions[index] = stop.value
                requests.pop(index, None)
            except AcquisitionError as error:
                raise error.with_index(index) from error.__cause__

    send(dict.fromkeys(range(len(walks))))
    while requests:
        # Items that need no acquirer request scores at once; the others catch up with them here.
        send(_acquire_many({i: request for i, request in requests.items() if isinstance(request, AcquireRequest)}, items, limits))
        send(_score_many(plan, scorer, {i: request for i, request in requests.items() if isinstance(request, ScoreRequest)}))


def _acquire_many(requests: Mapping[int, AcquireRequest], items: Sequence[Any], limits: Limits) -> dict[int, Any]:
    outcomes: dict[int, list[Any]] = {index: [] for index in requests}
    ended: set[int] = set()
    items_by_rank: dict[int, list[int]] = {}
    calls: dict[int, Call] = {}
    for index, request in requests.items():
        for call in request.calls:
            calls[call.rank] = call
            items_by_rank.setdefault(call.rank, []).append(index)
    # The order of ranks is that of every single request, so that outcomes and calls of an item stay aligned.
    for rank in sorted(calls):
        call = calls[rank]
        going = [index for index in items_by_rank[rank] if index not in ended]
        for index, outcome in zip(going, _call_acquirer(call, [items[index] for index in going], limits), strict=True):
            outcomes[index].append(outcome)
            if outcome is NOT_DONE or ends_item(call, outcome):
                ended.add(index)
    return {index: Expired(found) if found and found[-1] is NOT_DONE else found for index, found in outcomes.items()}


def _call_acquirer(call: Call, items: list[Any], limits: Limits) -> list[Any]:
    if not items:
        return []
    if not call.batch:
        bare = call.guard is UNGUARDED and limits.deadline == math.inf and not limits.parallel
        return _call_each(call.function, items) if bare else call_for_each(call, items, limits)
    outcome = call_with_limits(call, items, limits)
    if outcome is NOT_DONE or isinstance(outcome, Failed):
        return [outcome] * len(items)
    return outcome  # type: ignore[no-any-return]


def _call_each(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Call a function for each item, as fast as possible."""
    outcomes: list[Any] = []
    append = outcomes.append
    rest = iter(items)
    while True:
        try:
            for item in rest:
                append(function(item))
            break
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
            append(Failed(error))
    return outcomes


def _score_many(plan: Plan, scorer: Scorer, requests: Mapping[int, ScoreRequest]) -> dict[int, list[float]]:
    """Score items of the same stage together, and those near a threshold or a tie again, one by one."""
    replies: dict[int, list[float]] = {}
    for number, stage in enumerate(plan.stages):
        pending = {index: request.values for index, request in requests.items() if request.stage == number}
        if not pending:
            continue
        scores = scorer.score_rows(number, np.array(list(pending.values()), dtype=np.float64))
        near = accept_rows(scores, stage.thresholds)[3].tolist()
        for (index, values), row, near_threshold in zip(pending.items(), scores.tolist(), near, strict=True):
            replies[index] = scorer.score(number, values) if near_threshold else row
    return replies
