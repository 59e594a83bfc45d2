"""Work on many things in threads, with the results in the order of the things, and few of either held at a time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from emsco_runtime.support.interrupts import defer_interrupts

__all__ = ["available_cores", "run_ordered"]

Thing = TypeVar("Thing")
Result = TypeVar("Result")

# Things that wait for a thread, so that none of the threads waits for the next thing.
_WAITING_PER_WORKER = 1


def available_cores() -> int:
    """Return how many cores this process may use."""
    # Not everywhere are processes bound to cores.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_ordered(work: Callable[[Thing], Result], things: Iterable[Thing], *, workers: int) -> Iterator[Result]:
    """Do the work on each thing, some of it at the same time, and yield the results in order.

    The first error, in this order, is raised. Things are taken as they are needed, in the calling thread.

    Examples
    --------
    >>> list(run_ordered(lambda number: number * number, range(5), workers=2))
    [0, 1, 4, 9, 16]
    """
    if workers == 1:
        yield from map(work, things)
        return
    with ThreadPoolExecutor(workers) as pool:
        pending: deque[Future[Result]] = deque()
        try:
            for thing in things:
                # Taking a thing may wait for a pipe, and can be interrupted; the pool cannot.
                with defer_interrupts(np.zeros(1, dtype=np.int64)):
                    pending.append(pool.submit(work, thing))
                if len(pending) > workers * (1 + _WAITING_PER_WORKER):
                    yield _wait_for(pending.popleft())
            while pending:
                yield _wait_for(pending.popleft())
        finally:
            for future in pending:
                future.cancel()


def _wait_for(future: Future[Result]) -> Result:
    with defer_interrupts(np.zeros(1, dtype=np.int64)):
        return future.result()
