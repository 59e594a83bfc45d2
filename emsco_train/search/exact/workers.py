"""Runs the compiled walk over all parts of the space, on threads (it does not hold Python's lock) with a bench each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np

from emsco_train.search.exact.enumeration import walk_designs
from emsco_train.search.exact.enumeration_state import CostLimits, FindBuffer, empty_stack
from emsco_train.search.exact.known_front import FoundDesigns
from emsco_train.search.exact.set_bits import SetLayout, Units
from emsco_train.search.exact.workload import Part, count_continuations
from emsco_train.support.interrupts import defer_interrupts

__all__ = ["Enumeration", "PartResult", "run_parts"]


@dataclass(frozen=True, slots=True, eq=False)
class Enumeration:
    """The designs to visit, and how.

    Parameters
    ----------
    layout
        The sets.
    max_stages
        Most stages of a design.
    pinned
        Mask of the features that the first stage must have.
    listing
        Whether every find is wanted, or the number of finds of each vector.
    prune
        Whether prefixes without hope are left out.
    slots
        FindBuffer that a bench has room for at first.
    """

    layout: SetLayout
    max_stages: int
    pinned: int = 0
    listing: bool = False
    prune: bool = True
    slots: int = 2**14


@dataclass(frozen=True, slots=True, eq=False)
class PartResult:
    """What one part of the walk gave: its designs were accounted for, or, if `truncated`, there was no room for all finds.

    Parameters
    ----------
    part
        The part.
    found
        The finds.
    designs, scored
        How many designs are accounted for, and how many of them were scored one by one.
    truncated
        Whether the walk stopped early for want of room.
    """

    part: Part
    found: FoundDesigns
    designs: int
    scored: int
    truncated: bool


class _Worker:
    """Working memory of one thread."""

    def __init__(self, enumeration: Enumeration) -> None:
        self._space = enumeration
        height = enumeration.layout.max_accepted - enumeration.layout.min_accepted + 1
        self._slots = np.full(height * (enumeration.layout.max_wrong + 1), -1, dtype=np.int32)
        self._stack = empty_stack(enumeration.layout, enumeration.max_stages)
        self._capacity = enumeration.slots
        self._finds = self._allocate()

    def _allocate(self) -> FindBuffer:
        cell, cost, ties = np.zeros((3, self._capacity), dtype=np.int64)
        chain = np.zeros((self._capacity, self._space.max_stages), dtype=np.int64)
        return FindBuffer(self._slots, cell, cost, ties, chain, counters=np.zeros(4, dtype=np.int64))

    def run(self, part: Part, limits: CostLimits, stop: Units) -> PartResult:
        """Walk one part."""
        enumeration, buffer = self._space, self._finds
        buffer.counters[:] = 0
        table = count_continuations(enumeration.layout.features, part.stages, closed=enumeration.layout.closed)
        walk_designs(
            enumeration.layout,
            limits,
            self._stack,
            buffer,
            part.starts,
            table,
            enumeration.pinned,
            (enumeration.prune, enumeration.listing),
            stop,
        )
        used, designs, scored, truncated = buffer.counters.tolist()
        self._slots[buffer.cell[:used]] = -1
        found = _collect_finds(buffer, used, limits, enumeration.layout, len(table))
        if truncated:
            self._capacity *= 4
            self._finds = self._allocate()
        return PartResult(part, found, designs, scored, bool(truncated))


def _collect_finds(buffer: FindBuffer, used: int, limits: CostLimits, layout: SetLayout, free: int) -> FoundDesigns:
    more, wrong = np.divmod(buffer.cell[:used], limits.stride)
    accepted = more + limits.min_accepted
    vectors = np.stack([accepted, accepted - wrong, buffer.cost[:used]], axis=1)
    chains = buffer.chain[:used, :free]
    if layout.closed:
        full = np.full((used, 1), 2**layout.features - 1, dtype=np.int64)
        chains = np.concatenate([chains, full], axis=1)
    return FoundDesigns(vectors, buffer.ties[:used].copy(), chains.copy())


def run_parts(
    enumeration: Enumeration,
    parts: Iterable[Part],
    jobs: int,
    limits: Callable[[], CostLimits],
    take: Callable[[PartResult], None],
) -> None:
    """Walk all parts, each under the latest limits, and hand each harvest to `take`, in the order in which they end.

    A part that was cut short comes again, with more room. Whatever ends the sweep, no thread goes on after it. Ctrl-C comes out
    of it once they have stopped, which is at once.
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
                # Where all are to stop, it may be a part of its part.
                if stop[0]:
                    break
                if result.truncated:
                    todo.appendleft(result.part)
                take(result)
    finally:
        stop[0] = 1
        pool.shutdown(wait=True, cancel_futures=True)
