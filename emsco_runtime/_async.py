"""The driver for coroutines: the same walk, with the acquirers of a stage side by side.

Exact semantics:

- async acquirers of one stage run at the same time, at most `concurrency` of them; those of a later stage never before;
- plain acquirers run in the event loop's thread, one after the other and before the async ones, unless they have a time-out,
  there is a deadline, or the user gave the cascade a pool: then they run in the pool, beside the async ones;
- a time-out counts from the moment the call begins; a deadline counts from the call of `decide_async`;
- at its time-out, at the deadline, and after a failure that ends the item, what is outstanding is cancelled and not waited for:
  a coroutine that takes its time to clean up does so in the background, and what it raises then is logged (level debug);
- of a cached acquirer one call per key is under way: whoever comes meanwhile waits for it, as in `_pooled`;
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

from emsco_runtime._batch import plain
from emsco_runtime._calling import UNGUARDED, call_opened, landed, open_call, refused, to_run
from emsco_runtime._guard import Joined, Opened
from emsco_runtime._plan import Acquire, Call
from emsco_runtime._process import forks
from emsco_runtime._walk import NOT_DONE, Expired, Failed, NotDone, Walk
from emsco_runtime.pool import AcquirerPool, PoolCall, PoolFull, place_free

if TYPE_CHECKING:
    from emsco_runtime._flight import Flight
    from emsco_runtime._scorer import Scorer
    from emsco_runtime.decision import Decision

__all__ = ["AsyncLimits", "drive_async", "in_order"]

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")
# A decision that is cancelled waits so long for its calls to clean up.
_GRACE_S = 1.0
# Turns of the event loop in which a cancelled call ends that has nothing to clean up.
_TURNS = 4


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
        reply: Any = board.outcomes
        if _call_here(board, here, item, limits) and board.left:
            reply = await _settled(board, loop, limits.deadline)
    except BaseException:
        await _cancel(board.tasks)
        raise
    if board.left:
        await _leave(board.tasks)
    return reply


class _Board:
    """Where the tasks of a stage put down their outcomes; wakes whoever waits when all are there, or one ends the item.

    An outcome costs the same however many tasks there are, unlike with `asyncio.wait` for the first that completes.
    """

    __slots__ = ("calls", "left", "outcomes", "tasks", "waiter")

    def __init__(self, calls: Sequence[Call], waiter: asyncio.Future[asyncio.Task[Any] | NotDone | None]) -> None:
        self.calls = calls
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
        if not self.left or (isinstance(outcome, Failed) and self.calls[place].policy != "default"):
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


def _call_here(board: _Board, places: Iterable[int], item: Any, limits: AsyncLimits) -> bool:
    """Make plain calls in this thread and in order; False if one failed that ends the item."""
    for place in places:
        call = board.calls[place]
        opened = open_call(call, item)
        if isinstance(opened, Joined):
            # Somebody else makes it: waited for in a task, since the loop must go on.
            board.watch(asyncio.get_running_loop().create_task(_attempt(call, item, limits)), place)
            continue
        outcome = board.outcomes[place] = call_opened(call, opened, item) if isinstance(opened, Opened) else opened
        if isinstance(outcome, Failed) and call.policy != "default":
            return False
    return True


async def _in_turn(call: Call, item: Any, limits: AsyncLimits, turns: asyncio.Semaphore | None) -> Any:
    if turns is None:
        return await _attempt(call, item, limits)
    async with turns:
        return await _attempt(call, item, limits)


async def _attempt(call: Call, item: Any, limits: AsyncLimits) -> Any:
    """Make one call through its guard, or wait for the one that somebody else makes for the same key."""
    guard = call.guard or UNGUARDED
    opened = open_call(call, item)
    while isinstance(opened, Joined):
        try:
            await _ended(opened.flight, guard.timeout_s)
        except _Late:
            return Failed(guard.late())
        outcome = landed(call, opened)
        if outcome is not NOT_DONE:
            return outcome
        opened = open_call(call, item)
    if not isinstance(opened, Opened):
        return opened
    if _is_task(call, limits):
        return await _make(call, opened, item, limits)
    return call_opened(call, opened, item)


async def _make(call: Call, opened: Opened, item: Any, limits: AsyncLimits) -> Any:
    """Make a call that was begun, and note how it ended."""
    guard = call.guard or UNGUARDED
    # A coroutine has a task of its own, so that the guard need not wait until it has cleaned up.
    task = asyncio.get_running_loop().create_task(_coroutine(call, opened, item)) if call.is_async else None
    try:
        if task is None:
            outcome = await _from_pool(call, opened, item, limits.pool)
        else:
            outcome = await _in_time(task, guard.timeout_s)
    except PoolFull as error:
        return refused(call, opened, error)
    except _Late:
        late = guard.late()
        guard.broke(opened, late)
        return Failed(late)
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
        guard.broke(opened, error)
        return Failed(error)
    except BaseException:
        # Cancelled, for the most part.
        guard.left(opened)
        if task is not None:
            _leftovers.cancel(task)
            await asyncio.wait((task,))
        raise
    guard.took(opened, outcome)
    return outcome


class _Late(Exception):
    """The call took longer than its time-out."""


async def _coroutine(call: Call, opened: Opened, item: Any) -> Any:
    if opened.flight is None:
        return await call.function(item)
    return await opened.flight.run_async(call.function, item)


async def _in_time(task: asyncio.Task[Any], timeout_s: float | None) -> Any:
    await asyncio.wait((task,), timeout=timeout_s)
    if task.done():
        return task.result()
    _leftovers.cancel(task)
    raise _Late


async def _from_pool(call: Call, opened: Opened, item: Any, pool: AcquirerPool) -> Any:
    job = pool.submit(to_run(call, opened), item)
    try:
        await _ended(job, (call.guard or UNGUARDED).timeout_s)
        return job.result()
    finally:
        pool.abandon(job)


async def _ended(call: PoolCall | Flight, timeout_s: float | None) -> None:
    """Wait until a call in another thread, or of another task, has ended.

    Raises
    ------
    _Late
        If it takes longer than its time-out.
    """
    # Not asyncio.wrap_future: it never ends when the call raised StopIteration, and complains of errors that nobody waits for.
    ended = asyncio.Event()
    call.add_done_callback(_Waker(asyncio.get_running_loop(), ended))
    with place_free():
        while not call.done():
            now = time.perf_counter()
            left = None if timeout_s is None else timeout_s - (0.0 if call.started is None else now - call.started)
            if left is not None and left <= 0:
                raise _Late
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await ended.wait()


@dataclass(frozen=True, slots=True)
class _Waker:
    """Tells a loop, from another thread, that a call has ended."""

    loop: asyncio.AbstractEventLoop
    ended: asyncio.Event

    def __call__(self, _: object) -> None:
        # The loop may be closed by the time that an abandoned call ends.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.ended.set)


class _Leftovers:
    """Cancelled tasks that still clean up: held, since asyncio itself does not, and listened to, so that it has no complaint."""

    def __init__(self) -> None:
        self.begin_anew()
        forks.watch(self)

    def begin_anew(self) -> None:
        """Begin without tasks: they belong to the loops of their process."""
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._tasks)

    def cancel(self, task: asyncio.Task[Any]) -> None:
        """Cancel a task, and leave it to itself."""
        if task.cancel():
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.debug("a call that was cancelled raised while it cleaned up", exc_info=error)


_leftovers = _Leftovers()


async def _leave(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel what is outstanding; what ends at once has ended when this returns, the rest goes on in the background."""
    outstanding = [task for task in tasks if not task.done()]
    for task in outstanding:
        _leftovers.cancel(task)
    for _ in range(_TURNS):
        if all(task.done() for task in outstanding):
            return
        await asyncio.sleep(0)


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel what is outstanding, and give it a moment to clean up."""
    outstanding = [task for task in tasks if not task.done()]
    for task in outstanding:
        _leftovers.cancel(task)
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
