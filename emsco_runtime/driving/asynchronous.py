"""The driver for coroutines: the same walk, with the acquirers of a stage side by side.

Exact semantics:

- async acquirers of one stage run at the same time, at most `concurrency` of them; those of a later stage never before;
- plain acquirers run in the event loop's thread, one after the other and before the async ones, unless they have a time-out,
  there is a deadline, or the user gave the cascade a pool: then they run in the pool, beside the async ones;
- a time-out counts from the moment the call begins; a deadline counts from the call of `decide_async`;
- at its time-out, at the deadline, and after a failure that ends the item, what is outstanding is cancelled and not waited for:
  a coroutine that takes its time to clean up does so in the background, and what it raises then is logged (level debug);
- of a cached acquirer one call per key is under way: whoever comes meanwhile waits for it, as in `pooled`;
- a cancelled task cancels what is outstanding, gives it a second to clean up, and is cancelled itself: that is never a failed
  feature.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from emsco_runtime.driving.guarded_calls import UNGUARDED, begin_call, joined_outcome, make_runner, refuse, run_call
from emsco_runtime.engine.outcomes import reject_coroutine
from emsco_runtime.engine.plan import AcquireRequest, Call
from emsco_runtime.engine.walk import NOT_DONE, Expired, Failed, NotDone, Walk
from emsco_runtime.sources.guard import CallTicket, JoinedCall
from emsco_runtime.sources.pool import AcquirerPool, PoolCall, PoolFull, released_slot
from emsco_runtime.support.fork import ForkSafe

if TYPE_CHECKING:
    from emsco_runtime.decision import Decision
    from emsco_runtime.engine.scorer import Scorer
    from emsco_runtime.sources.in_flight import InFlightCall

__all__ = ["AsyncLimits", "drive_async", "gather_in_order"]

_log = logging.getLogger("emsco_runtime.asynchronous")
_Result = TypeVar("_Result")
# A decision that is cancelled waits so long for its calls to clean up.
_GRACE_S = 1.0
# Turns of the event loop in which a cancelled call ends that has nothing to clean up.
_LOOP_TURNS = 4


@dataclass(frozen=True, slots=True)
class AsyncLimits:
    """What bounds the calls of one decision.

    Parameters
    ----------
    deadline
        By `time.perf_counter`; infinity for none.
    concurrency
        Async calls of one stage at the same time.
    pool
        Threads for plain acquirers that need one.
    parallel
        Run all plain acquirers in the pool.
    """

    deadline: float
    concurrency: int
    pool: AcquirerPool
    parallel: bool


async def drive_async(steps: Walk, scorer: Scorer, item: Any, limits: AsyncLimits) -> Decision:
    """Walk one item to its decision."""
    no_deadline = limits.deadline == math.inf
    reply: Any = None
    try:
        while True:
            request = steps.send(reply)
            if not isinstance(request, AcquireRequest):
                reply = scorer.score(request.stage, request.values)
            elif no_deadline and len(request.calls) == 1 and _is_unguarded(request.calls[0], limits):
                # The common case, without a task or a coroutine of its own.
                call = request.calls[0]
                try:
                    outcome = call.function(item)
                    reply = [await outcome if call.is_async else reject_coroutine(outcome)]
                except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature; a cancellation is none
                    reply = [Failed(error)]
            else:
                reply = await _acquire(request.calls, item, limits)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def _is_unguarded(call: Call, limits: AsyncLimits) -> bool:
    return call.guard is None and (call.is_async or not limits.parallel)


async def _call_unguarded(call: Call, item: Any) -> Any:
    try:
        return await call.function(item)
    except Exception as error:  # noqa: BLE001 - as above
        return Failed(error)


async def _acquire(calls: Sequence[Call], item: Any, limits: AsyncLimits) -> Any:
    loop = asyncio.get_running_loop()
    semaphore = asyncio.Semaphore(limits.concurrency) if len(calls) > limits.concurrency else None
    stage_tasks = _StageTasks(calls, loop.create_future())
    inline: list[int] = []
    try:
        for place, call in enumerate(calls):
            if not _needs_task(call, limits):
                inline.append(place)
            elif semaphore is None and call.guard is None and call.is_async:
                stage_tasks.add(loop.create_task(_call_unguarded(call, item)), place)
            else:
                stage_tasks.add(loop.create_task(_call_in_turn(call, item, limits, semaphore)), place)
        reply: Any = stage_tasks.outcomes
        if _call_in_loop_thread(stage_tasks, inline, item, limits) and stage_tasks.remaining:
            reply = await _wait_for_outcomes(stage_tasks, loop, limits.deadline)
    except BaseException:
        await _cancel_and_wait(stage_tasks.tasks)
        raise
    if stage_tasks.remaining:
        await _cancel_in_background(stage_tasks.tasks)
    return reply


class _StageTasks:
    """Where the tasks of a stage put down their outcomes; wakes whoever waits when all are there, or one ends the item.

    An outcome costs the same however many tasks there are, unlike with `asyncio.wait` for the first that completes.
    """

    __slots__ = ("calls", "outcomes", "remaining", "tasks", "waiter")

    def __init__(self, calls: Sequence[Call], waiter: asyncio.Future[asyncio.Task[Any] | NotDone | None]) -> None:
        self.calls = calls
        self.remaining = 0
        self.outcomes: list[Any] = [NOT_DONE] * len(calls)
        self.tasks: dict[asyncio.Task[Any], int] = {}
        self.waiter = waiter

    def add(self, task: asyncio.Task[Any], place: int) -> None:
        """Wait for this task too."""
        self.tasks[task] = place
        self.remaining += 1
        task.add_done_callback(self._on_task_done)

    def expire(self) -> None:
        """Wake whoever waits, since the deadline has come."""
        if not self.waiter.done():
            self.waiter.set_result(NOT_DONE)

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self.remaining -= 1
        # Asked in any case: asyncio complains of errors that nobody looked at.
        broken = task.cancelled() or task.exception() is not None
        if self.waiter.done():
            return
        if broken:
            self.waiter.set_result(task)
            return
        place = self.tasks[task]
        outcome = self.outcomes[place] = task.result()
        if not self.remaining or (isinstance(outcome, Failed) and self.calls[place].policy != "default"):
            self.waiter.set_result(None)


async def _wait_for_outcomes(stage_tasks: _StageTasks, loop: asyncio.AbstractEventLoop, deadline: float) -> Any:
    """Wait for the outcomes of a stage, until the deadline at most."""
    left = deadline - time.perf_counter()
    if left <= 0:
        return Expired(stage_tasks.outcomes)
    timer = None if left == math.inf else loop.call_later(left, stage_tasks.expire)
    try:
        woken_by = await stage_tasks.waiter
    finally:
        if timer is not None:
            timer.cancel()
    if isinstance(woken_by, asyncio.Task):
        # Cancelled by itself, or broken by what is no failure of a feature: it passes through.
        woken_by.result()
    return Expired(stage_tasks.outcomes) if woken_by is NOT_DONE else stage_tasks.outcomes


def _needs_task(call: Call, limits: AsyncLimits) -> bool:
    if call.is_async or limits.parallel or limits.deadline != math.inf:
        return True
    return call.guard is not None and call.guard.timeout_s is not None


def _call_in_loop_thread(stage_tasks: _StageTasks, places: Iterable[int], item: Any, limits: AsyncLimits) -> bool:
    """Make plain calls in this thread and in order; False if one failed that ends the item."""
    for place in places:
        call = stage_tasks.calls[place]
        ticket = begin_call(call, item)
        if isinstance(ticket, JoinedCall):
            # Somebody else makes it: waited for in a task, since the loop must go on.
            stage_tasks.add(asyncio.get_running_loop().create_task(_call_guarded(call, item, limits)), place)
            continue
        outcome = stage_tasks.outcomes[place] = run_call(call, ticket, item) if isinstance(ticket, CallTicket) else ticket
        if isinstance(outcome, Failed) and call.policy != "default":
            return False
    return True


async def _call_in_turn(call: Call, item: Any, limits: AsyncLimits, semaphore: asyncio.Semaphore | None) -> Any:
    if semaphore is None:
        return await _call_guarded(call, item, limits)
    async with semaphore:
        return await _call_guarded(call, item, limits)


async def _call_guarded(call: Call, item: Any, limits: AsyncLimits) -> Any:
    """Make one call through its guard, or wait for the one that somebody else makes for the same key."""
    guard = call.guard or UNGUARDED
    ticket = begin_call(call, item)
    while isinstance(ticket, JoinedCall):
        try:
            await _wait_until_done(ticket.flight, guard.timeout_s)
        except _TimedOut:
            return Failed(guard.timeout_fault())
        outcome = joined_outcome(call, ticket)
        if outcome is not NOT_DONE:
            return outcome
        ticket = begin_call(call, item)
    if not isinstance(ticket, CallTicket):
        return ticket
    if _needs_task(call, limits):
        return await _run_call(call, ticket, item, limits)
    return run_call(call, ticket, item)


async def _run_call(call: Call, ticket: CallTicket, item: Any, limits: AsyncLimits) -> Any:
    """Make a call that was begun, and note how it ended."""
    guard = call.guard or UNGUARDED
    # A coroutine has a task of its own, so that the guard need not wait until it has cleaned up.
    task = asyncio.get_running_loop().create_task(_run_coroutine(call, ticket, item)) if call.is_async else None
    try:
        if task is None:
            outcome = await _run_in_pool(call, ticket, item, limits.pool)
        else:
            outcome = await _wait_for_task(task, guard.timeout_s)
    except PoolFull as error:
        return refuse(call, ticket, error)
    except _TimedOut:
        fault = guard.timeout_fault()
        guard.failed(ticket, fault)
        return Failed(fault)
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
        guard.failed(ticket, error)
        return Failed(error)
    except BaseException:
        # Cancelled, for the most part.
        guard.cancelled(ticket)
        if task is not None:
            _cancelled_tasks.cancel(task)
            await asyncio.wait((task,))
        raise
    guard.succeeded(ticket, outcome)
    return outcome


class _TimedOut(Exception):
    """The call took longer than its time-out."""


async def _run_coroutine(call: Call, ticket: CallTicket, item: Any) -> Any:
    if ticket.flight is None:
        return await call.function(item)
    return await ticket.flight.run_async(call.function, item)


async def _wait_for_task(task: asyncio.Task[Any], timeout_s: float | None) -> Any:
    await asyncio.wait((task,), timeout=timeout_s)
    if task.done():
        return task.result()
    _cancelled_tasks.cancel(task)
    raise _TimedOut


async def _run_in_pool(call: Call, ticket: CallTicket, item: Any, pool: AcquirerPool) -> Any:
    pool_call = pool.submit(make_runner(call, ticket), item)
    try:
        await _wait_until_done(pool_call, (call.guard or UNGUARDED).timeout_s)
        return pool_call.result()
    finally:
        pool.abandon(pool_call)


async def _wait_until_done(call: PoolCall | InFlightCall, timeout_s: float | None) -> None:
    """Wait until a call in another thread, or of another task, has ended.

    Raises
    ------
    _TimedOut
        If it takes longer than its time-out.
    """
    # Not asyncio.wrap_future: it never ends when the call raised StopIteration, and complains of errors that nobody waits for.
    ended = asyncio.Event()
    call.add_done_callback(_LoopNotifier(asyncio.get_running_loop(), ended))
    with released_slot():
        while not call.done():
            now = time.perf_counter()
            left = None if timeout_s is None else timeout_s - (0.0 if call.started is None else now - call.started)
            if left is not None and left <= 0:
                raise _TimedOut
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await ended.wait()


@dataclass(frozen=True, slots=True)
class _LoopNotifier:
    """Tells a loop, from another thread, that a call has ended."""

    loop: asyncio.AbstractEventLoop
    ended: asyncio.Event

    def __call__(self, _: object) -> None:
        # The loop may be closed by the time that an abandoned call ends.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.ended.set)


class _CancelledTasks(ForkSafe):
    """Cancelled tasks that still clean up: held, since asyncio itself does not, and listened to, so that it has no complaint."""

    def __init__(self) -> None:
        self._start()

    def reset_after_fork(self) -> None:
        """Start over without tasks: they belong to the loops of their process."""
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._tasks)

    def cancel(self, task: asyncio.Task[Any]) -> None:
        """Cancel a task, and leave it to itself."""
        if task.cancel():
            self._tasks.add(task)
            task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.debug("a call that was cancelled raised while it cleaned up", exc_info=error)


_cancelled_tasks = _CancelledTasks()


async def _cancel_in_background(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel what is outstanding; what ends at once has ended when this returns, the rest goes on in the background."""
    outstanding = [task for task in tasks if not task.done()]
    for task in outstanding:
        _cancelled_tasks.cancel(task)
    for _ in range(_LOOP_TURNS):
        if all(task.done() for task in outstanding):
            return
        await asyncio.sleep(0)


async def _cancel_and_wait(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel what is outstanding, and give it a moment to clean up."""
    outstanding = [task for task in tasks if not task.done()]
    for task in outstanding:
        _cancelled_tasks.cancel(task)
    if outstanding:
        await asyncio.wait(outstanding, timeout=_GRACE_S)
    for task in tasks:
        # Another error has been raised already; asyncio would complain that nobody looked at this one.
        if task.done() and not task.cancelled():
            task.exception()


async def gather_in_order(work: Callable[[int], Coroutine[Any, Any, _Result]], count: int, concurrency: int) -> list[_Result]:
    """Run `work` for 0 to `count` - 1, so many at the same time, and return the results in order.

    The first that raises ends all others, and is raised.
    """
    results: dict[int, _Result] = {}
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            results[number] = await work(number)

    tasks = [asyncio.ensure_future(worker()) for _ in range(min(concurrency, count))]
    try:
        for task in asyncio.as_completed(tasks):
            await task
    finally:
        await _cancel_and_wait(tasks)
    return [results[number] for number in range(count)]
