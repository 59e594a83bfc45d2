"""The driver for coroutines: the same walk, with the acquirers of a stage at the same time.

Exact semantics:

- async acquirers of one stage run at the same time, at most `concurrency` of them; those of a later stage never before;
- plain acquirers run in the event loop's thread, one after the other and before the async ones, unless they have a timeout,
  there is a deadline, or the user gave the cascade a pool: then they run in the pool, while the async ones run;
- timeouts, deadlines and cached acquirers are as in `pooled`;
- at its timeout, at the deadline, and after a failure that ends the item, outstanding calls are cancelled and not waited for:
  a coroutine that takes its time to clean up does so in the background, and what it raises then is logged (level debug);
- a decision that is cancelled cancels its outstanding calls, gives them a second to clean up, and is cancelled itself: that is
  never a failed feature, whatever the calls make of it. (A single async acquirer without limits runs in the decision's own task,
  since another one would take longer than most decisions. It has as long to clean up as it takes; and before Python 3.13, if it
  catches the cancellation and goes on, so does the decision.)
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from emsco_runtime.decision import Decision
from emsco_runtime.driving.guarded_calls import GuardedCall
from emsco_runtime.driving.item_inputs import Limits
from emsco_runtime.driving.tasks import cancel_and_wait, cancel_in_background, cancelled_tasks
from emsco_runtime.driving.timeouts import wait_for_call_async
from emsco_runtime.engine.outcomes import reject_coroutine
from emsco_runtime.engine.plan import AcquireRequest, Call
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.engine.walk import NOT_DONE, Expired, Failed, NotDone, Walk, ends_item
from emsco_runtime.sources.guard import UNGUARDED
from emsco_runtime.sources.pool import AcquirerPool, CallScope

__all__ = ["drive_async"]

# Before, a TaskGroup within an acquirer may leave the count raised where nobody cancelled.
_COUNTS_CANCELLATIONS = sys.version_info >= (3, 13)


async def drive_async(steps: Walk, scorer: Scorer, item: Any, limits: Limits) -> Decision:
    """Walk one item to its decision."""
    no_deadline = limits.deadline == math.inf
    task = asyncio.current_task()
    cancelled_before = task.cancelling() if task is not None else 0
    reply: Any = None
    try:
        while True:
            request = steps.send(reply)
            if not isinstance(request, AcquireRequest):
                reply = scorer.score(request.stage, request.values)
                continue
            call = request.calls[0]
            if no_deadline and len(request.calls) == 1 and call.guard is UNGUARDED and (call.is_async or not limits.parallel):
                # The common case, without a task or a coroutine of its own.
                try:
                    outcome = call.function(item)
                    reply = [await outcome if call.is_async else reject_coroutine(outcome)]
                except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature; a cancellation is not
                    reply = [Failed(error)]
                if _COUNTS_CANCELLATIONS and task is not None and task.cancelling() > cancelled_before:
                    # The acquirer has caught the cancellation of this task, and returned or raised something else.
                    raise asyncio.CancelledError
            else:
                reply = await _acquire(request.calls, item, limits)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


async def _call_unguarded(call: Call, item: Any) -> Any:
    try:
        return await call.function(item)
    except Exception as error:  # noqa: BLE001 - as above
        return Failed(error)


async def _acquire(calls: Sequence[Call], item: Any, limits: Limits) -> Any:
    loop = asyncio.get_running_loop()
    semaphore = asyncio.Semaphore(limits.concurrency) if len(calls) > limits.concurrency else None
    stage_tasks = _StageTasks(calls, loop.create_future())
    scope = CallScope(limits.deadline)
    in_tasks: list[tuple[int, Call]] = []
    inline: list[int] = []
    for place, call in enumerate(calls):
        if _needs_task(call, limits):
            in_tasks.append((place, call))
        else:
            inline.append(place)
    reply: Any = stage_tasks.outcomes
    try:
        # Before there is a task: one that a loop starts eagerly would call its acquirer at once.
        if _call_in_loop_thread(stage_tasks, inline, item, limits, scope):
            for place, call in in_tasks:
                if semaphore is None and call.guard is UNGUARDED and call.is_async:
                    stage_tasks.add(loop.create_task(_call_unguarded(call, item)), place)
                    continue
                guarded = GuardedCall(call, item)
                in_turn = semaphore if call.is_async else None
                made = (
                    _call_guarded(guarded, limits, scope) if in_turn is None else _call_in_turn(guarded, limits, scope, in_turn)
                )
                stage_tasks.add(loop.create_task(made), place)
            if stage_tasks.remaining:
                reply = await _wait_for_outcomes(stage_tasks, loop, limits.deadline)
    except BaseException:
        # First: as in `pooled`.
        scope.ended = True
        await cancel_and_wait(stage_tasks.tasks)
        raise
    scope.ended = True
    if stage_tasks.remaining:
        await cancel_in_background(stage_tasks.tasks)
    return reply


class _StageTasks:
    """The tasks of a stage and their outcomes; sets the result of `waiter` when all are done, or one ends the item.

    An outcome takes the same time however many tasks there are, unlike `asyncio.wait` for the first that completes.
    """

    __slots__ = ("calls", "outcomes", "remaining", "tasks", "waiter")

    def __init__(self, calls: Sequence[Call], waiter: asyncio.Future[asyncio.Task[Any] | NotDone | None]) -> None:
        self.calls = calls
        self.remaining = 0
        self.outcomes: list[Any] = [NOT_DONE] * len(calls)
        self.tasks: dict[asyncio.Task[Any], int] = {}
        self.waiter = waiter

    def add(self, task: asyncio.Task[Any], place: int) -> None:
        """Add a task whose outcome goes to this place."""
        self.tasks[task] = place
        self.remaining += 1
        task.add_done_callback(self._on_task_done)

    def expire(self) -> None:
        """End the wait, since the deadline has come."""
        if not self.waiter.done():
            self.waiter.set_result(NOT_DONE)

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self.remaining -= 1
        # Retrieved in any case: asyncio logs errors that are not.
        broken = task.cancelled() or task.exception() is not None
        if self.waiter.done():
            return
        if broken:
            self.waiter.set_result(task)
            return
        place = self.tasks[task]
        outcome = self.outcomes[place] = task.result()
        if outcome is NOT_DONE:
            # The deadline came before there was a thread for it.
            self.expire()
        elif not self.remaining or ends_item(self.calls[place], outcome):
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
        # It was cancelled, or raised what is not a failure of a feature, such as SystemExit: raised here too.
        woken_by.result()
    return Expired(stage_tasks.outcomes) if woken_by is NOT_DONE else stage_tasks.outcomes


def _needs_task(call: Call, limits: Limits) -> bool:
    return call.is_async or limits.parallel or limits.deadline != math.inf or call.guard.timeout_s is not None


def _call_in_loop_thread(stage_tasks: _StageTasks, places: Iterable[int], item: Any, limits: Limits, scope: CallScope) -> bool:
    """Make plain calls in this thread and in order; False if one failed that ends the item."""
    for place in places:
        guarded = GuardedCall(stage_tasks.calls[place], item)
        guarded.begin(blocking=False)
        if guarded.joined is not None:
            # It is under way elsewhere: waited for in a task, since the loop must go on.
            stage_tasks.add(asyncio.get_running_loop().create_task(_call_guarded(guarded, limits, scope)), place)
            continue
        outcome = stage_tasks.outcomes[place] = guarded.run()
        if ends_item(guarded.call, outcome):
            return False
    return True


async def _call_in_turn(guarded: GuardedCall, limits: Limits, scope: CallScope, semaphore: asyncio.Semaphore) -> Any:
    async with semaphore:
        return await _call_guarded(guarded, limits, scope)


async def _call_guarded(guarded: GuardedCall, limits: Limits, scope: CallScope) -> Any:
    """Make one call through its guard, or wait for one with the same key that is under way."""
    if guarded.joined is None:
        guarded.begin(blocking=False)
    while (joined := guarded.joined) is not None:
        try:
            await wait_for_call_async(joined.flight, guarded.call.guard.timeout_s)
        except TimeoutError:
            return guarded.time_out()
        if guarded.finish_joined(joined) is NOT_DONE:
            guarded.begin(blocking=False)
    if guarded.outcome is not NOT_DONE:
        return guarded.outcome
    if guarded.call.is_async:
        return await _run_coroutine(guarded)
    return await _run_in_pool(guarded, limits.pool, scope) if _needs_task(guarded.call, limits) else guarded.run()


async def _run_coroutine(guarded: GuardedCall) -> Any:
    function, flight, item = guarded.call.function, guarded.ticket.flight, guarded.item

    async def run() -> Any:
        return await (function(item) if flight is None else flight.run_async(function, item))

    # In a task of its own: at its timeout it is cancelled, and cleans up in the background.
    task = asyncio.get_running_loop().create_task(run())
    try:
        await asyncio.wait((task,), timeout=guarded.call.guard.timeout_s)
        if not task.done():
            cancelled_tasks.cancel(task)
            return guarded.time_out()
        return guarded.finish(task.result)
    except BaseException:
        # Cancelled, for the most part.
        guarded.cancel()
        cancelled_tasks.cancel(task)
        await asyncio.wait((task,))
        raise


async def _run_in_pool(guarded: GuardedCall, pool: AcquirerPool, scope: CallScope) -> Any:
    guarded.submit(pool, scope)
    call = guarded.pool_call
    if call is None:
        return guarded.outcome
    try:
        await wait_for_call_async(call, guarded.call.guard.timeout_s)
    except TimeoutError:
        pool.abandon(call)
        return guarded.time_out()
    except BaseException:
        pool.abandon(call)
        guarded.cancel()
        raise
    return guarded.finish_pool_call(call)
