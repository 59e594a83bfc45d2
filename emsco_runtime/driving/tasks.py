"""Tasks of an event loop: cancelled without waiting, or with a grace period; and many at once, with their results in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from emsco_runtime.support.fork import ForkSafe

__all__ = ["cancel_and_wait", "cancel_in_background", "cancelled_tasks", "gather_in_order"]

_log = logging.getLogger("emsco_runtime.asynchronous")
_Result = TypeVar("_Result")
# A decision that is cancelled waits this long for its calls to clean up.
_GRACE_S = 1.0
# Iterations of the event loop in which a cancelled call ends that has nothing to clean up.
_LOOP_TURNS = 4


class _CancelledTasks(ForkSafe):
    """Cancelled tasks that still clean up: asyncio itself keeps no reference to them, and logs errors that are not retrieved."""

    def __init__(self) -> None:
        self._start()

    def reset_after_fork(self) -> None:
        """Start without tasks: they belong to the loops of their process."""
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._tasks)

    def cancel(self, task: asyncio.Task[Any]) -> None:
        """Cancel a task, and do not wait for it."""
        if task.cancel():
            self._tasks.add(task)
            task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.debug("a call that was cancelled raised while it cleaned up", exc_info=error)


cancelled_tasks = _CancelledTasks()


def _cancel_outstanding(tasks: Iterable[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    outstanding = [task for task in tasks if not task.done()]
    for task in outstanding:
        cancelled_tasks.cancel(task)
    return outstanding


async def cancel_in_background(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel outstanding tasks; those that end at once have ended when this returns, the others end in the background."""
    outstanding = _cancel_outstanding(tasks)
    for _ in range(_LOOP_TURNS):
        if all(task.done() for task in outstanding):
            return
        await asyncio.sleep(0)


async def cancel_and_wait(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel outstanding tasks, and give them a moment to clean up."""
    outstanding = _cancel_outstanding(tasks)
    if outstanding:
        await asyncio.wait(outstanding, timeout=_GRACE_S)
    for task in tasks:
        # Another error has been raised already; asyncio logs those that are not retrieved.
        if task.done() and not task.cancelled():
            task.exception()


async def gather_in_order(work: Callable[[int], Coroutine[Any, Any, _Result]], count: int, concurrency: int) -> list[_Result]:
    """Run `work` for 0 to `count` - 1, at most `concurrency` at the same time, and return the results in order.

    The first error ends all others, and is raised.
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
        await cancel_and_wait(tasks)
    return [results[number] for number in range(count)]
