"""The drivers of one item: they make the calls that its walk requests, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from emsco_runtime.decision import Decision
from emsco_runtime.engine.plan import AcquireRequest, Plan
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.engine.walk import Failed, Walk, ends_item, walk

__all__ = ["drive", "drive_one"]


def drive(steps: Walk, scorer: Scorer, acquire: Callable[[AcquireRequest], Any]) -> Decision:
    """Walk one item to its decision; `acquire` answers its requests for values."""
    reply: Any = None
    try:
        while True:
            request = steps.send(reply)
            reply = acquire(request) if isinstance(request, AcquireRequest) else scorer.score(request.stage, request.values)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def drive_one(
    plan: Plan, scorer: Scorer, item: Any, known: Mapping[str, object], budget: float, key: str | None = None
) -> Decision:
    """Walk one item whose calls are all simple; the loop of `drive` again, since most decisions are made here."""
    steps = walk(plan, known, budget, math.inf, key)
    send = steps.send
    score = scorer.score
    reply: Any = None
    try:
        while True:
            request = send(reply)
            reply = _acquire(request, item) if isinstance(request, AcquireRequest) else score(request.stage, request.values)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def _acquire(request: AcquireRequest, item: Any) -> list[Any]:
    """Make the calls in order; after a failure that ends the item, the rest would only cost."""
    outcomes: list[Any] = []
    append = outcomes.append
    remaining = request.functions
    while remaining:
        try:
            for function in remaining:
                append(function(item))
            break
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
            failed = request.calls[len(outcomes)]
            append(Failed(error))
            if ends_item(failed, outcomes[-1]):
                break
            remaining = request.functions[len(outcomes) :]
    return outcomes
