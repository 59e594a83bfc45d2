"""The driver for plain code with time-outs, deadlines, breakers, caches, or acquirers side by side in threads.

Exact semantics:

- a call with a time-out, and any call under a deadline, runs in the pool; others run in the calling thread, unless the user gave
  the cascade a pool: then all calls of a stage, or of many items to one acquirer, run side by side in it;
- no call is begun after the deadline;
- a time-out counts from the moment the call begins, not while it waits for a thread; a deadline counts from the call of `decide`;
- of a cached acquirer one call per key is under way: whoever comes meanwhile waits for it, no longer than until its own deadline,
  and no longer than its time-out counted from the moment that call began; if it is given up, one of those who wait makes it;
- a call that has answered by the time it is looked at counts, even if it was late: outcomes are looked at in the order of calls;
- after a failure that ends the item, and at the deadline, what has not begun is taken back and what runs is abandoned.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from emsco_runtime.driving.guarded_calls import (
    UNGUARDED,
    begin_blocking_call,
    call_in_thread,
    joined_outcome,
    make_runner,
    refuse,
)
from emsco_runtime.engine.plan import AcquireRequest, Call
from emsco_runtime.engine.walk import NOT_DONE, Expired, Failed, Walk
from emsco_runtime.sources.guard import CallTicket, JoinedCall
from emsco_runtime.sources.pool import AcquirerPool, PoolCall, PoolFull, released_slot

if TYPE_CHECKING:
    from emsco_runtime.decision import Decision
    from emsco_runtime.engine.scorer import Scorer
    from emsco_runtime.sources.in_flight import InFlightCall

__all__ = ["Limits", "call_for_each", "call_with_limits", "drive_pooled"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds the calls of one decision.

    Parameters
    ----------
    deadline
        By `time.perf_counter`; infinity for none.
    pool
        Threads for calls that need one.
    parallel
        Run all calls of a stage in the pool, at the same time.
    """

    deadline: float
    pool: AcquirerPool
    parallel: bool


def drive_pooled(steps: Walk, scorer: Scorer, item: Any, limits: Limits) -> Decision:
    """Walk one item to its decision."""
    reply: Any = None
    try:
        while True:
            request = steps.send(reply)
            if isinstance(request, AcquireRequest):
                reply = _acquire(request, item, limits)
            else:
                reply = scorer.score(request.stage, request.values)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


@dataclass(slots=True)
class _Attempt:
    """A call that was begun: its outcome if there is one already, else its place in the pool, or the call of another."""

    call: Call
    outcome: Any = NOT_DONE
    ticket: CallTicket | None = None
    pool_call: PoolCall | None = None
    joined: JoinedCall | None = None

    def abandon(self, pool: AcquirerPool) -> None:
        """Stop waiting for it, unless it has ended."""
        if self.pool_call is not None and self.ticket is not None and self.outcome is NOT_DONE:
            pool.abandon(self.pool_call)
            (self.call.guard or UNGUARDED).cancelled(self.ticket)
            self.pool_call = None


def _acquire(request: AcquireRequest, item: Any, limits: Limits) -> Any:
    if limits.parallel and len(request.calls) > 1:
        return _acquire_parallel(request.calls, item, limits)
    outcomes: list[Any] = []
    for call in request.calls:
        outcome = call_with_limits(call, item, limits)
        if outcome is NOT_DONE:
            return Expired(outcomes)
        outcomes.append(outcome)
        if isinstance(outcome, Failed) and call.policy != "default":
            break
    return outcomes


def call_with_limits(call: Call, item: Any, limits: Limits) -> Any:
    """Make one call within its limits; `NOT_DONE` if the deadline came first."""
    guard = call.guard
    if limits.deadline == math.inf and (guard is None or guard.timeout_s is None) and not limits.parallel:
        return call_in_thread(call, item)
    attempt = _begin_attempt(call, item, limits)
    try:
        return _wait_for_outcome(attempt, item, limits)
    finally:
        attempt.abandon(limits.pool)


def call_for_each(call: Call, items: Sequence[Any], limits: Limits) -> list[Any]:
    """Make one call per item, each as `call_with_limits` does; side by side where the limits say so."""
    if not limits.parallel:
        return [call_with_limits(call, item, limits) for item in items]
    attempts: list[_Attempt] = []
    try:
        # Grows one by one: what has begun is abandoned below even if the next one raises.
        attempts.extend(_begin_attempt(call, item, limits) for item in items)
        return [_wait_for_outcome(attempt, item, limits) for attempt, item in zip(attempts, items, strict=True)]
    finally:
        for attempt in attempts:
            attempt.abandon(limits.pool)


def _acquire_parallel(calls: Sequence[Call], item: Any, limits: Limits) -> Any:
    attempts: list[_Attempt] = []
    outcomes: list[Any] = []
    try:
        attempts.extend(_begin_attempt(call, item, limits) for call in calls)
        for attempt in attempts:
            outcome = _wait_for_outcome(attempt, item, limits)
            if outcome is NOT_DONE:
                return Expired([other.outcome for other in attempts])
            outcomes.append(outcome)
            if isinstance(outcome, Failed) and attempt.call.policy != "default":
                break
        return outcomes
    finally:
        for attempt in attempts:
            attempt.abandon(limits.pool)


def _begin_attempt(call: Call, item: Any, limits: Limits) -> _Attempt:
    attempt = _Attempt(call)
    _start(attempt, item, limits)
    return attempt


def _start(attempt: _Attempt, item: Any, limits: Limits) -> None:
    attempt.joined = None
    if time.perf_counter() >= limits.deadline:
        return
    call = attempt.call
    ticket = begin_blocking_call(call, item)
    if isinstance(ticket, JoinedCall):
        attempt.joined = ticket
    elif not isinstance(ticket, CallTicket):
        attempt.outcome = ticket
    else:
        try:
            attempt.pool_call = limits.pool.submit(make_runner(call, ticket), item)
            attempt.ticket = ticket
        except PoolFull as error:
            attempt.outcome = refuse(call, ticket, error)
        except BaseException:
            (call.guard or UNGUARDED).cancelled(ticket)
            raise


def _wait_for_outcome(attempt: _Attempt, item: Any, limits: Limits) -> Any:
    """Wait for a call that was begun, and note how it ended; `NOT_DONE` if the deadline comes first."""
    guard = attempt.call.guard or UNGUARDED
    while attempt.joined is not None:
        wait_result = _wait(attempt.joined.flight, guard.timeout_s, limits.deadline)
        if wait_result == "deadline":
            return NOT_DONE
        attempt.outcome = joined_outcome(attempt.call, attempt.joined) if wait_result == "done" else Failed(guard.timeout_fault())
        if attempt.outcome is not NOT_DONE:
            return attempt.outcome
        # Its leader gave it up.
        _start(attempt, item, limits)
    if attempt.pool_call is None or attempt.ticket is None:
        return attempt.outcome
    wait_result = _wait(attempt.pool_call, guard.timeout_s, limits.deadline)
    if wait_result == "timeout":
        limits.pool.abandon(attempt.pool_call)
        fault = guard.timeout_fault()
        guard.failed(attempt.ticket, fault)
        attempt.outcome = Failed(fault)
    elif wait_result == "done":
        try:
            attempt.outcome = attempt.pool_call.result()
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
            guard.failed(attempt.ticket, error)
            attempt.outcome = Failed(error)
        else:
            guard.succeeded(attempt.ticket, attempt.outcome)
    return attempt.outcome


def _wait(call: PoolCall | InFlightCall, timeout_s: float | None, deadline: float) -> Literal["done", "timeout", "deadline"]:
    with released_slot():
        while not call.done():
            now = time.perf_counter()
            started = now if call.started is None else call.started
            left = math.inf if timeout_s is None else timeout_s - (now - started)
            if deadline - now <= 0:
                return "deadline"
            if left <= 0:
                return "timeout"
            # Waits, and does not raise what the call raised; the loop looks at the clock again.
            with contextlib.suppress(TimeoutError, CancelledError):
                call.exception(min(left, deadline - now, threading.TIMEOUT_MAX))
    return "done"
