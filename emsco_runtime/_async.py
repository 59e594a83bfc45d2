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
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from emsco_runtime._calling import UNGUARDED, call_here, plain
from emsco_runtime._encoding import ValueFault
from emsco_runtime._guard import Cached
from emsco_runtime._plan import Acquire, Call
from emsco_runtime._walk import NOT_DONE, Expired, Failed, Walk
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
                # The common case, without a task of its own.
                reply = [await _bare(request.calls[0], item)]
            else:
                reply = await _acquire(request.calls, item, limits)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def _is_bare(call: Call, limits: AsyncLimits) -> bool:
    return call.guard is None and (call.is_async or not limits.pooled)


async def _bare(call: Call, item: Any) -> Any:
    try:
        outcome = call.function(item)
        return await outcome if call.is_async else plain(outcome)
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature; a cancellation is none
        return Failed(error)


async def _acquire(calls: Sequence[Call], item: Any, limits: AsyncLimits) -> Any:
    outcomes: list[Any] = [NOT_DONE] * len(calls)
    tasks: dict[asyncio.Task[Any], int] = {}
    turns = asyncio.Semaphore(limits.concurrency) if len(calls) > limits.concurrency else None
    try:
        for place, call in enumerate(calls):
            if _is_task(call, limits):
                tasks[asyncio.ensure_future(_in_turn(call, item, limits, turns))] = place
        if not _call_plain(calls, item, limits, outcomes):
            return outcomes
        pending: set[asyncio.Task[Any]] = set(tasks)
        while pending:
            left = limits.deadline - time.perf_counter()
            if left <= 0:
                return Expired(outcomes)
            done, pending = await asyncio.wait(
                pending, timeout=None if left == math.inf else left, return_when=asyncio.FIRST_COMPLETED
            )
            if _collect(done, tasks, calls, outcomes):
                return outcomes
        return outcomes
    finally:
        await _cancel(tasks)


def _is_task(call: Call, limits: AsyncLimits) -> bool:
    if call.is_async or limits.pooled or limits.deadline != math.inf:
        return True
    return call.guard is not None and call.guard.timeout_s is not None


def _call_plain(calls: Sequence[Call], item: Any, limits: AsyncLimits, outcomes: list[Any]) -> bool:
    """Make the plain calls, here and in order; False if one failed that ends the item."""
    for place, call in enumerate(calls):
        if not _is_task(call, limits):
            outcomes[place] = call_here(call, item)
            if isinstance(outcomes[place], Failed) and call.policy != "default":
                return False
    return True


def _collect(
    done: set[asyncio.Task[Any]], tasks: Mapping[asyncio.Task[Any], int], calls: Sequence[Call], outcomes: list[Any]
) -> bool:
    """Note what came; True if one failed that ends the item."""
    ended = False
    for task in done:
        place = tasks[task]
        outcomes[place] = task.result()
        ended = ended or (isinstance(outcomes[place], Failed) and calls[place].policy != "default")
    return ended


async def _in_turn(call: Call, item: Any, limits: AsyncLimits, turns: asyncio.Semaphore | None) -> Any:
    if turns is None:
        return await _attempt(call, item, limits)
    async with turns:
        return await _attempt(call, item, limits)


async def _attempt(call: Call, item: Any, limits: AsyncLimits) -> Any:
    """Make one call through its guard."""
    guard = call.guard or UNGUARDED
    try:
        opened = guard.open(item)
    except Exception as error:  # noqa: BLE001 - a failure like any other
        return Failed(error)
    if isinstance(opened, Cached):
        return opened
    try:
        outcome = await _answer(call, item, guard.timeout_s, limits)
    except PoolFull as error:
        guard.left()
        return Failed(ValueFault("refused", f"the pool takes no more calls: {error}"))
    except _Late:
        guard.broke()
        return Failed(guard.late())
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
        guard.broke()
        return Failed(error)
    except BaseException:
        # Cancelled, for the most part.
        guard.left()
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
