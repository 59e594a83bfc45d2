"""Runs the compiled walk over all parts of the space, on threads (it does not hold Python's lock) with a bench each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np

from emsco_train._interrupts import interrupts_held
from emsco_train.exact.bits import Landscape, Units
from emsco_train.exact.kernel import walk
from emsco_train.exact.plan import Part, ways
from emsco_train.exact.state import Finds, Limits, empty_stack
from emsco_train.exact.table import Catch

__all__ = ["Harvest", "Space", "sweep"]


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """The designs to visit, and how.

    Parameters
    ----------
    land
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
        Finds that a bench has room for at first.
    """

    land: Landscape
    max_stages: int
    pinned: int = 0
    listing: bool = False
    prune: bool = True
    slots: int = 2**14


@dataclass(frozen=True, slots=True, eq=False)
class Harvest:
    """What one part of the walk gave: its designs were accounted for, or, if `cut`, there was no room for all finds.

    Parameters
    ----------
    part
        The part.
    catch
        The finds.
    designs, scored
        How many designs are accounted for, and how many of them were scored one by one.
    cut
        Whether the walk stopped early for want of room.
    """

    part: Part
    catch: Catch
    designs: int
    scored: int
    cut: bool


class _Bench:
    """Working memory of one thread."""

    def __init__(self, space: Space) -> None:
        self._space = space
        height = space.land.widest - space.land.fewest + 1
        self._slots = np.full(height * (space.land.wrongest + 1), -1, dtype=np.int32)
        self._stack = empty_stack(space.land, space.max_stages)
        self._room = space.slots
        self._finds = self._make_room()

    def _make_room(self) -> Finds:
        cell, cost, ties = np.zeros((3, self._room), dtype=np.int64)
        chain = np.zeros((self._room, self._space.max_stages), dtype=np.int64)
        return Finds(self._slots, cell, cost, ties, chain, tally=np.zeros(4, dtype=np.int64))

    def work(self, part: Part, limits: Limits, stop: Units) -> Harvest:
        """Walk one part."""
        space, finds = self._space, self._finds
        finds.tally[:] = 0
        table = ways(space.land.features, part.stages, closed=space.land.closed)
        walk(
            space.land,
            limits,
            self._stack,
            finds,
            part.starts,
            table,
            space.pinned,
            (space.prune, space.listing),
            stop,
        )
        used, designs, scored, cut = finds.tally.tolist()
        self._slots[finds.cell[:used]] = -1
        catch = _catch(finds, used, limits, space.land, len(table))
        if cut:
            self._room *= 4
            self._finds = self._make_room()
        return Harvest(part, catch, designs, scored, bool(cut))


def _catch(finds: Finds, used: int, limits: Limits, land: Landscape, free: int) -> Catch:
    more, wrong = np.divmod(finds.cell[:used], limits.stride)
    accepted = more + limits.fewest
    vectors = np.stack([accepted, accepted - wrong, finds.cost[:used]], axis=1)
    chains = finds.chain[:used, :free]
    if land.closed:
        full = np.full((used, 1), 2**land.features - 1, dtype=np.int64)
        chains = np.concatenate([chains, full], axis=1)
    return Catch(vectors, finds.ties[:used].copy(), chains.copy())


def sweep(space: Space, parts: Iterable[Part], jobs: int, limits: Callable[[], Limits], take: Callable[[Harvest], None]) -> None:
    """Walk all parts, each under the latest limits, and hand each harvest to `take`, in the order in which they end.

    A part that was cut short comes again, with more room. Whatever ends the sweep, no thread goes on after it. Ctrl-C comes out
    of it once they have stopped, which is at once.
    """
    stop = np.zeros(1, dtype=np.int64)
    with interrupts_held(stop):
        _in_threads(space, deque(parts), jobs, limits, take, stop)


def _in_threads(
    space: Space, todo: deque[Part], jobs: int, limits: Callable[[], Limits], take: Callable[[Harvest], None], stop: Units
) -> None:
    benches = [_Bench(space) for _ in range(jobs)]
    running: dict[Future[Harvest], _Bench] = {}
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="emsco-exhaustive")
    try:
        while (todo or running) and not stop[0]:
            while todo and benches:
                bench = benches.pop()
                running[pool.submit(bench.work, todo.popleft(), limits(), stop)] = bench
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                benches.append(running.pop(future))
                harvest = future.result()
                # Where all are to stop, it may be a part of its part.
                if stop[0]:
                    break
                if harvest.cut:
                    todo.appendleft(harvest.part)
                take(harvest)
    finally:
        stop[0] = 1
        pool.shutdown(wait=True, cancel_futures=True)
