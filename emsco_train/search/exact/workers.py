"""Runs the compiled walk over all parts of the space, on threads (it releases Python's lock), each with memory of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np

from emsco_runtime.support.interrupts import defer_interrupts
from emsco_train.search.exact.enumeration import walk_designs
from emsco_train.search.exact.enumeration_state import CostLimits, FindBuffer, empty_stack
from emsco_train.search.exact.set_bits import SetLayout, Units
from emsco_train.search.exact.workload import Part, count_continuations

__all__ = ["Enumeration", "PartResult", "run_parts"]

# Finds that a worker has room for at first.
_INITIAL_SLOTS = 2**14


@dataclass(frozen=True, slots=True, eq=False)
class Enumeration:
    """The designs to visit, and how: `listing` keeps every find instead of their number; `prune` skips hopeless prefixes."""

    layout: SetLayout
    max_stages: int
    pinned: int = 0
    listing: bool = False
    prune: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class PartResult:
    """The finds of one part of the walk; all of them, unless `truncated`: then the worker had no room for more.

    Parameters
    ----------
    part
        The part.
    vectors, counts
        Accepted, right, cost [finds, 3], and the number of designs of this part with that vector [finds].
    chains
        The cumulative sets of the design that represents them [finds, stages].
    designs, scored
        Designs accounted for, and how many of them were scored one by one.
    """

    part: Part
    vectors: Units
    counts: Units
    chains: Units
    designs: int
    scored: int
    truncated: bool


class _Worker:
    """Working memory of one thread."""

    def __init__(self, enumeration: Enumeration) -> None:
        self._enumeration = enumeration
        height = enumeration.layout.max_accepted - enumeration.layout.min_accepted + 1
        self._slots = np.full(height * (enumeration.layout.max_wrong + 1), -1, dtype=np.int32)
        self._stack = empty_stack(enumeration.layout, enumeration.max_stages)
        self._buffer = self._allocate(_INITIAL_SLOTS)

    def _allocate(self, capacity: int) -> FindBuffer:
        cell, cost, ties = np.zeros((3, capacity), dtype=np.int64)
        chain = np.zeros((capacity, self._enumeration.max_stages), dtype=np.int64)
        return FindBuffer(self._slots, cell, cost, ties, chain, counters=np.zeros(4, dtype=np.int64))

    def run(self, part: Part, limits: CostLimits, stop: Units) -> PartResult:
        """Walk one part."""
        chosen, layout, buffer = self._enumeration, self._enumeration.layout, self._buffer
        buffer.counters[:] = 0
        table = count_continuations(layout.features, part.stages, closed=layout.closed)
        options = (chosen.prune, chosen.listing)
        walk_designs(layout, limits, self._stack, buffer, part.starts, table, chosen.pinned, options, stop)
        used, designs, scored, truncated = buffer.counters.tolist()
        self._slots[buffer.cell[:used]] = -1
        more, wrong = np.divmod(buffer.cell[:used], limits.stride)
        accepted = more + limits.min_accepted
        vectors = np.stack([accepted, accepted - wrong, buffer.cost[:used]], axis=1)
        chains = buffer.chain[:used, : len(table)].copy()
        if layout.closed:
            chains = np.concatenate([chains, np.full((used, 1), 2**layout.features - 1, dtype=np.int64)], axis=1)
        counts = buffer.ties[:used].copy()
        if truncated:
            self._buffer = self._allocate(4 * len(buffer.cell))
        return PartResult(part, vectors, counts, chains, designs, scored, bool(truncated))


def run_parts(
    enumeration: Enumeration,
    parts: Iterable[Part],
    jobs: int,
    limits: Callable[[], CostLimits],
    take: Callable[[PartResult], None],
) -> None:
    """Walk all parts, each under the latest limits, and hand each result to `take`, in the order in which they end.

    A truncated part is walked again, with more room. Whatever ends the walk, no thread outlives it. Ctrl-C is raised once all
    threads have stopped, which is at once.
    """
    stop = np.zeros(1, dtype=np.int64)
    with defer_interrupts(stop):
        _run_in_threads(enumeration, deque(parts), jobs, limits, take, stop)


def _run_in_threads(
    enumeration: Enumeration,
    todo: deque[Part],
    jobs: int,
    limits: Callable[[], CostLimits],
    take: Callable[[PartResult], None],
    stop: Units,
) -> None:
    idle = [_Worker(enumeration) for _ in range(jobs)]
    running: dict[Future[PartResult], _Worker] = {}
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="emsco-exhaustive")
    try:
        while (todo or running) and not stop[0]:
            while todo and idle:
                worker = idle.pop()
                running[pool.submit(worker.run, todo.popleft(), limits(), stop)] = worker
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                idle.append(running.pop(future))
                result = future.result()
                # After the signal to stop, the result may be incomplete.
                if stop[0]:
                    break
                if result.truncated:
                    todo.appendleft(result.part)
                take(result)
    finally:
        stop[0] = 1
        pool.shutdown(wait=True, cancel_futures=True)
