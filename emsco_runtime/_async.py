"""The driver for coroutines: the same walk, with the acquirers of a stage side by side.

Exact semantics:

- async acquirers of one stage run at the same time, at most `concurrency` of them; those of a later stage never before;
- plain acquirers run in the event loop's thread, one after the other and before the async ones, unless they have a time-out,
  there is a deadline, or the user gave the cascade a pool: then they run in the pool, beside the async ones;
- a time-out counts from the moment the call begins; a deadline counts from the call of `decide_async`;
- a coroutine that does not end when its time-out cancels it is waited for: async code is asked to stop, not made to;
- after a failure that ends the item, and at the deadline, what is outstanding is cancelled;
- a cancelled task cancels what is outstanding and is cancelled itself: that is never a failed feature.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from emsco_runtime._batch import plain
from emsco_runtime._calling import UNGUARDED, call_here, open_call, refused
from emsco_runtime._guard import Opened
from emsco_runtime._plan import Acquire, Call
from emsco_runtime._walk import NOT_DONE, Expired, Failed, NotDone, Walk
from emsco_runtime.pool import AcquirerPool, PoolFull

if TYPE_CHECKING:
    from emsco_runtime._scorer import Scorer
    from emsco_runtime.decision import Decision

__all__ = ["AsyncLimits", "drive_async", "in_order"]

_Result = TypeVar("_Result")
# After a deadline or a failure that ends the item, a coroutine that does not end when it is cancelled is not waited for longer.
_GRACE_S = 1.0


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
    pooled
        Run all plain acquirers in the pool.
    """

    deadline: float
    concurrency: int
    pool: AcquirerPool
    pooled: bool


async def drive_async(steps: Walk, scorer: Scorer, item: Any, limits: AsyncLimits) -> Decision:
    """Walk one item to its decision."""
    unhurried = limits.deadline == math.inf
    reply: Any = None
    try:
        while True:
            request = steps.send(reply)
            if not isinstance(request, Acquire):
                reply = scorer.score(request.stage, request.values)
            elif unhurried and len(request.calls) == 1 and _is_bare(request.calls[0], limits):
                # The common case, without a task or a coroutine of its own.
                call = request.calls[0]
                try:
                    outcome = call.function(item)
                    reply = [await outcome if call.is_async else plain(outcome)]
                except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature; a cancellation is none
                    reply = [Failed(error)]
            else:
                reply = await _acquire(request.calls, item, limits)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def _is_bare(call: Call, limits: AsyncLimits) -> bool:
    return call.guard is None and (call.is_async or not limits.pooled)


async def _bare(call: Call, item: Any) -> Any:
    try:
        return await call.function(item)
    except Exception as error:  # noqa: BLE001 - as above
        return Failed(error)


async def _acquire(calls: Sequence[Call], item: Any, limits: AsyncLimits) -> Any:
    loop = asyncio.get_running_loop()
    turns = asyncio.Semaphore(limits.concurrency) if len(calls) > limits.concurrency else None
    board = _Board(calls, loop.create_future())
    here: list[int] = []
    try:
        for place, call in enumerate(calls):
            if not _is_task(call, limits):
                here.append(place)
            elif turns is None and call.guard is None and call.is_async:
                board.watch(loop.create_task(_bare(call, item)), place)
            else:
                board.watch(loop.create_task(_in_turn(call, item, limits, turns)), place)
        if not _call_here(calls, here, item, board.outcomes) or not board.left:
            return board.outcomes
        return await _settled(board, loop, limits.deadline)
    finally:
        if board.left:
            await _cancel(board.tasks)


class _Board:
    """Where the tasks of a stage put down their outcomes; wakes whoever waits when all are there, or one ends the item.

    An outcome costs the same however many tasks there are, unlike with `asyncio.wait` for the first that completes.
    """

    __slots__ = ("_calls", "left", "outcomes", "tasks", "waiter")

    def __init__(self, calls: Sequence[Call], waiter: asyncio.Future[asyncio.Task[Any] | NotDone | None]) -> None:
        self._calls = calls
        self.left = 0
        self.outcomes: list[Any] = [NOT_DONE] * len(calls)
        self.tasks: dict[asyncio.Task[Any], int] = {}
        self.waiter = waiter

    def watch(self, task: asyncio.Task[Any], place: int) -> None:
        """Wait for this task too."""
        self.tasks[task] = place
        self.left += 1
        task.add_done_callback(self._came)

    def expire(self) -> None:
        """Wake whoever waits, since the deadline has come."""
        if not self.waiter.done():
            self.waiter.set_result(NOT_DONE)

    def _came(self, task: asyncio.Task[Any]) -> None:
        self.left -= 1
        # Asked in any case: asyncio complains of errors that nobody looked at.
        broken = task.cancelled() or task.exception() is not None
        if self.waiter.done():
            return
        if broken:
            self.waiter.set_result(task)
            return
        place = self.tasks[task]
        outcome = self.outcomes[place] = task.result()
        if not self.left or (isinstance(outcome, Failed) and self._calls[place].policy != "default"):
            self.waiter.set_result(None)


async def _settled(board: _Board, loop: asyncio.AbstractEventLoop, deadline: float) -> Any:
    """Wait for the outcomes of a stage, until the deadline at most."""
    left = deadline - time.perf_counter()
    if left <= 0:
        return Expired(board.outcomes)
    alarm = None if left == math.inf else loop.call_later(left, board.expire)
    try:
        woken = await board.waiter
    finally:
        if alarm is not None:
            alarm.cancel()
    if isinstance(woken, asyncio.Task):
        # Cancelled by itself, or broken by what is no failure of a feature: it passes through.
        woken.result()
    return Expired(board.outcomes) if woken is NOT_DONE else board.outcomes


def _is_task(call: Call, limits: AsyncLimits) -> bool:
    if call.is_async or limits.pooled or limits.deadline != math.inf:
        return True
    return call.guard is not None and call.guard.timeout_s is not None


def _call_here(calls: Sequence[Call], places: Iterable[int], item: Any, outcomes: list[Any]) -> bool:
    """Make plain calls in this thread and in order; False if one failed that ends the item."""
    for place in places:
        outcome = outcomes[place] = call_here(calls[place], item)
        if isinstance(outcome, Failed) and calls[place].policy != "default":
            return False
    return True


async def _in_turn(call: Call, item: Any, limits: AsyncLimits, turns: asyncio.Semaphore | None) -> Any:
    if turns is None:
        return await _attempt(call, item, limits)
    async with turns:
        return await _attempt(call, item, limits)


async def _attempt(call: Call, item: Any, limits: AsyncLimits) -> Any:
    """Make one call through its guard."""
    opened = open_call(call, item)
    if not isinstance(opened, Opened):
        return opened
    guard = call.guard or UNGUARDED
    try:
        outcome = await _answer(call, item, guard.timeout_s, limits)
    except PoolFull as error:
        return refused(call, opened, error)
    except _Late:
        guard.broke(opened)
        return Failed(guard.late())
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
        guard.broke(opened)
        return Failed(error)
    except BaseException:
        # Cancelled, for the most part.
        guard.left(opened)
        raise
    guard.took(opened, outcome)
    return outcome


class _Late(Exception):
    """The call took longer than its time-out."""


async def _answer(call: Call, item: Any, timeout_s: float | None, limits: AsyncLimits) -> Any:
    if not call.is_async:
        return await _from_pool(call, item, timeout_s, limits.pool)
    if timeout_s is None:
        return await call.function(item)
    try:
        async with asyncio.timeout(timeout_s) as limit:
            return await call.function(item)
    except TimeoutError as error:
        if limit.expired():
            raise _Late from error
        raise


async def _from_pool(call: Call, item: Any, timeout_s: float | None, pool: AcquirerPool) -> Any:
    job = pool.submit(call.function, item)
    # Not asyncio.wrap_future: it never ends when the call raised StopIteration, and complains of errors that nobody waits for.
    ended = asyncio.Event()
    job.add_done_callback(_Waker(asyncio.get_running_loop(), ended))
    try:
        while not job.done():
            now = time.perf_counter()
            left = None if timeout_s is None else timeout_s - (0.0 if job.started is None else now - job.started)
            if left is not None and left <= 0:
                raise _Late
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await ended.wait()
        return plain(job.result())
    finally:
        pool.abandon(job)


@dataclass(frozen=True, slots=True)
class _Waker:
    """Tells a loop, from another thread, that a call has ended."""

    loop: asyncio.AbstractEventLoop
    ended: asyncio.Event

    def __call__(self, _: object) -> None:
        # The loop may be closed by the time that an abandoned call ends.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.ended.set)


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel what is outstanding, and give it a moment to clean up."""
    outstanding = [task for task in tasks if not task.done()]
    for task in outstanding:
        task.cancel()
    if outstanding:
        await asyncio.wait(outstanding, timeout=_GRACE_S)
    for task in tasks:
        # Another error has been raised already; asyncio would complain that nobody looked at this one.
        if task.done() and not task.cancelled():
            task.exception()


async def in_order(work: Callable[[int], Coroutine[Any, Any, _Result]], count: int, concurrency: int) -> list[_Result]:
    """Run `work` for 0 to `count` - 1, so many at the same time, and return the results in order.

    The first that raises ends all others, and is raised.
    """
    results: dict[int, _Result] = {}
    numbers = iter(range(count))

    async def serve() -> None:
        for number in numbers:
            results[number] = await work(number)

    tasks = [asyncio.ensure_future(serve()) for _ in range(min(concurrency, count))]
    try:
        for task in asyncio.as_completed(tasks):
            await task
    finally:
        await _cancel(tasks)
    return [results[number] for number in range(count)]
