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

from emsco_runtime._calling import UNGUARDED, call_here, landed, open_to_wait, refused, to_run
from emsco_runtime._guard import Joined, Opened
from emsco_runtime._plan import Acquire, Call
from emsco_runtime._walk import NOT_DONE, Expired, Failed, Walk
from emsco_runtime.pool import AcquirerPool, PoolCall, PoolFull, place_free

if TYPE_CHECKING:
    from emsco_runtime._flight import Flight
    from emsco_runtime._scorer import Scorer
    from emsco_runtime.decision import Decision

__all__ = ["Limits", "call_for_each", "call_within", "drive_pooled"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds the calls of one decision.

    Parameters
    ----------
    deadline
        By `time.perf_counter`; infinity for none.
    pool
        Threads for calls that need one.
    side_by_side
        Run all calls of a stage in the pool, at the same time.
    """

    deadline: float
    pool: AcquirerPool
    side_by_side: bool


def drive_pooled(steps: Walk, scorer: Scorer, item: Any, limits: Limits) -> Decision:
    """Walk one item to its decision."""
    reply: Any = None
    try:
        while True:
            request = steps.send(reply)
            if isinstance(request, Acquire):
                reply = _acquire(request, item, limits)
            else:
                reply = scorer.score(request.stage, request.values)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


@dataclass(slots=True)
class _Begun:
    """A call that was begun: its outcome if there is one already, else its place in the pool, or the call of another."""

    call: Call
    outcome: Any = NOT_DONE
    opened: Opened | None = None
    job: PoolCall | None = None
    joined: Joined | None = None

    def abandon(self, pool: AcquirerPool) -> None:
        """Stop waiting for it, unless it has ended."""
        if self.job is not None and self.opened is not None and self.outcome is NOT_DONE:
            pool.abandon(self.job)
            (self.call.guard or UNGUARDED).left(self.opened)
            self.job = None


def _acquire(request: Acquire, item: Any, limits: Limits) -> Any:
    if limits.side_by_side and len(request.calls) > 1:
        return _acquire_together(request.calls, item, limits)
    outcomes: list[Any] = []
    for call in request.calls:
        outcome = call_within(call, item, limits)
        if outcome is NOT_DONE:
            return Expired(outcomes)
        outcomes.append(outcome)
        if isinstance(outcome, Failed) and call.policy != "default":
            break
    return outcomes


def call_within(call: Call, item: Any, limits: Limits) -> Any:
    """Make one call within its limits; `NOT_DONE` if the deadline came first."""
    guard = call.guard
    if limits.deadline == math.inf and (guard is None or guard.timeout_s is None) and not limits.side_by_side:
        return call_here(call, item)
    begun = _begin(call, item, limits)
    try:
        return _outcome(begun, item, limits)
    finally:
        begun.abandon(limits.pool)


def call_for_each(call: Call, items: Sequence[Any], limits: Limits) -> list[Any]:
    """Make one call per item, each as `call_within` does; side by side where the limits say so."""
    if not limits.side_by_side:
        return [call_within(call, item, limits) for item in items]
    begun: list[_Begun] = []
    try:
        # Grows one by one: what has begun is abandoned below even if the next one raises.
        begun.extend(_begin(call, item, limits) for item in items)
        return [_outcome(one, item, limits) for one, item in zip(begun, items, strict=True)]
    finally:
        for one in begun:
            one.abandon(limits.pool)


def _acquire_together(calls: Sequence[Call], item: Any, limits: Limits) -> Any:
    begun: list[_Begun] = []
    outcomes: list[Any] = []
    try:
        begun.extend(_begin(call, item, limits) for call in calls)
        for one in begun:
            outcome = _outcome(one, item, limits)
            if outcome is NOT_DONE:
                return Expired([other.outcome for other in begun])
            outcomes.append(outcome)
            if isinstance(outcome, Failed) and one.call.policy != "default":
                break
        return outcomes
    finally:
        for one in begun:
            one.abandon(limits.pool)


def _begin(call: Call, item: Any, limits: Limits) -> _Begun:
    begun = _Begun(call)
    _start(begun, item, limits)
    return begun


def _start(begun: _Begun, item: Any, limits: Limits) -> None:
    begun.joined = None
    if time.perf_counter() >= limits.deadline:
        return
    call = begun.call
    opened = open_to_wait(call, item)
    if isinstance(opened, Joined):
        begun.joined = opened
    elif not isinstance(opened, Opened):
        begun.outcome = opened
    else:
        try:
            begun.job = limits.pool.submit(to_run(call, opened), item)
            begun.opened = opened
        except PoolFull as error:
            begun.outcome = refused(call, opened, error)
        except BaseException:
            (call.guard or UNGUARDED).left(opened)
            raise


def _outcome(begun: _Begun, item: Any, limits: Limits) -> Any:
    """Wait for a call that was begun, and note how it ended; `NOT_DONE` if the deadline comes first."""
    guard = begun.call.guard or UNGUARDED
    while begun.joined is not None:
        ended = _wait(begun.joined.flight, guard.timeout_s, limits.deadline)
        if ended == "deadline":
            return NOT_DONE
        begun.outcome = landed(begun.call, begun.joined) if ended == "done" else Failed(guard.late())
        if begun.outcome is not NOT_DONE:
            return begun.outcome
        # Its leader gave it up.
        _start(begun, item, limits)
    if begun.job is None or begun.opened is None:
        return begun.outcome
    ended = _wait(begun.job, guard.timeout_s, limits.deadline)
    if ended == "timeout":
        limits.pool.abandon(begun.job)
        late = guard.late()
        guard.broke(begun.opened, late)
        begun.outcome = Failed(late)
    elif ended == "done":
        try:
            begun.outcome = begun.job.result()
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
            guard.broke(begun.opened, error)
            begun.outcome = Failed(error)
        else:
            guard.took(begun.opened, begun.outcome)
    return begun.outcome


def _wait(call: PoolCall | Flight, timeout_s: float | None, deadline: float) -> Literal["done", "timeout", "deadline"]:
    with place_free():
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
