"""The driver for plain code with timeouts, deadlines, breakers, caches, or acquirers that run at the same time in threads.

Exact semantics:

- a call with a timeout, and any call under a deadline, runs in the pool; others run in the calling thread, unless the user gave
  the cascade a pool: then all calls of a stage, or of many items to one acquirer, run in it at the same time;
- no call is started after the deadline;
- a timeout counts from the moment the call begins, not while it waits for a thread; a deadline counts from the call of `decide`;
- of a cached acquirer one call per key is under way: those who need the same key wait for it, until their own deadline at most,
  and at most their timeout counted from the moment that call began; if it is cancelled, one of those who wait makes it;
- a call that has ended by the time it is looked at counts, even if it was late: outcomes are looked at in the order of calls, so
  that of several failures the first in this order ends the item, whichever came first;
- after a failure that ends the item, and at the deadline, calls that have not started are taken back and running ones abandoned;
  those that have ended count for their breakers and caches.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

from emsco_runtime.decision import Decision
from emsco_runtime.driving.guarded_calls import GuardedCall
from emsco_runtime.driving.item_inputs import Limits
from emsco_runtime.driving.one import drive
from emsco_runtime.driving.timeouts import wait_for_call
from emsco_runtime.engine.outcomes import reject_coroutine
from emsco_runtime.engine.plan import AcquireRequest, Call
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.engine.walk import NOT_DONE, Expired, Failed, Walk, ends_item
from emsco_runtime.sources.guard import UNGUARDED
from emsco_runtime.sources.pool import CallScope

__all__ = ["call_for_each", "call_with_limits", "drive_pooled"]


def drive_pooled(steps: Walk, scorer: Scorer, item: Any, limits: Limits) -> Decision:
    """Walk one item to its decision."""
    return drive(steps, scorer, lambda request: _acquire(request, item, limits))


def _acquire(request: AcquireRequest, item: Any, limits: Limits) -> Any:
    if limits.parallel and len(request.calls) > 1:
        return _acquire_parallel(request.calls, item, limits)
    outcomes: list[Any] = []
    for call in request.calls:
        outcome = call_with_limits(call, item, limits)
        if outcome is NOT_DONE:
            return Expired(outcomes)
        outcomes.append(outcome)
        if ends_item(call, outcome):
            break
    return outcomes


def call_with_limits(call: Call, item: Any, limits: Limits) -> Any:
    """Make one call within its limits; `NOT_DONE` if the deadline came first."""
    if call.guard is UNGUARDED and limits.deadline == math.inf and not limits.parallel:
        # Nothing to wait for and nobody to tell: most calls are such, and take less time than what the others need around them.
        try:
            return reject_coroutine(call.function(item))
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
            return Failed(error)
    guarded, scope = GuardedCall(call, item), CallScope(limits.deadline)
    try:
        _begin(guarded, limits, scope)
        return _wait_for_outcome(guarded, limits, scope)
    finally:
        _abandon(guarded, limits)


def call_for_each(call: Call, items: Sequence[Any], limits: Limits) -> list[Any]:
    """Make one call per item, each as `call_with_limits` does; at the same time where the limits say so."""
    if not limits.parallel:
        return [call_with_limits(call, item, limits) for item in items]
    scope = CallScope(limits.deadline)
    with _started([(call, item) for item in items], limits, scope) as started:
        return [_wait_for_outcome(guarded, limits, scope) for guarded in started]


def _acquire_parallel(calls: Sequence[Call], item: Any, limits: Limits) -> Any:
    outcomes: list[Any] = []
    scope = CallScope(limits.deadline)
    with _started([(call, item) for call in calls], limits, scope) as started:
        for guarded in started:
            # After the deadline this does not wait: calls that have ended by then count.
            outcomes.append(_wait_for_outcome(guarded, limits, scope))
            if ends_item(guarded.call, outcomes[-1]):
                break
    return Expired(outcomes) if any(outcome is NOT_DONE for outcome in outcomes) else outcomes


@contextlib.contextmanager
def _started(calls: Sequence[tuple[Call, Any]], limits: Limits, scope: CallScope) -> Iterator[list[GuardedCall]]:
    """Begin calls; those that have not ended by the end of the block are abandoned."""
    started = [GuardedCall(call, item) for call, item in calls]
    try:
        for guarded in started:
            _begin(guarded, limits, scope)
        yield started
    finally:
        # First: each that is abandoned leaves its thread to one that waits, which is not to begin now.
        scope.ended = True
        for guarded in started:
            _abandon(guarded, limits)


def _begin(guarded: GuardedCall, limits: Limits, scope: CallScope) -> None:
    if time.perf_counter() < limits.deadline:
        guarded.begin(blocking=True)
        if limits.parallel or limits.deadline != math.inf or guarded.call.guard.timeout_s is not None:
            guarded.submit(limits.pool, scope)


def _abandon(guarded: GuardedCall, limits: Limits) -> None:
    """Stop waiting for a call; its guard still learns of one that has ended."""
    call = guarded.pool_call
    if guarded.outcome is not NOT_DONE or call is None:
        return
    if call.done() and (call.cancelled() or isinstance(call.exception(), Exception | None)):
        guarded.finish_pool_call(call)
    else:
        limits.pool.abandon(call)
        guarded.cancel()


def _wait_for_outcome(guarded: GuardedCall, limits: Limits, scope: CallScope) -> Any:
    """Wait for a call that was started, and end it; `NOT_DONE` if the deadline comes first."""
    timeout_s = guarded.call.guard.timeout_s
    while (joined := guarded.joined) is not None:
        ended_by = wait_for_call(joined.flight, timeout_s, limits.deadline)
        if ended_by == "deadline":
            return NOT_DONE
        if ended_by == "timeout":
            return guarded.time_out()
        if guarded.finish_joined(joined) is NOT_DONE:
            _begin(guarded, limits, scope)
    if guarded.pool_call is None:
        return guarded.run()
    ended_by = wait_for_call(guarded.pool_call, timeout_s, limits.deadline)
    if ended_by == "timeout":
        limits.pool.abandon(guarded.pool_call)
        return guarded.time_out()
    return guarded.finish_pool_call(guarded.pool_call) if ended_by == "done" else NOT_DONE
