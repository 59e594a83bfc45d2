"""Long work in short batches: a time limit and Ctrl-C are heeded soon, what was done until then is kept, and progress is told.

The sizes of batches follow the clock. Results do not: a design's objectives depend on the design alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from emsco_train.designs.chromosome import Population
from emsco_train.scoring.objectives import Evaluator, Objectives
from emsco_train.settings import checked_time_limit

__all__ = ["Cut", "CutReason", "OnStep", "Pace", "PacedEvaluator", "Step", "TimeLimit"]

CutReason: TypeAlias = Literal["time", "interrupted"]
Result = TypeVar("Result")

_FIRST = 16
# Seconds that a batch is meant to take: short enough to be interrupted, long enough that its own price does not count.
_MEANT_S = 0.25
# The first batch may also compile; one measurement must not be trusted too far.
_MOST_CHANGE = 4.0


@dataclass(frozen=True, slots=True)
class Step:
    """How far a piece of long work is.

    Parameters
    ----------
    phase
        "first" (designs of the first generation, or of the one that is taken up again), "polish" (designs of the local search),
        "fits" (feature sets for the exact search), or "designs" (of the exact search).
    done, total
        How much of it is done, and how much there is at most.
    front
        Designs on the front so far; None where there is no front yet.
    """

    phase: Literal["first", "polish", "fits", "designs"]
    done: int
    total: int
    front: int | None = None


OnStep: TypeAlias = Callable[[Step], object]


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """A time limit, and since when it runs.

    Parameters
    ----------
    started
        On `time.monotonic`.
    seconds
        How many there are; None for no limit.

    Examples
    --------
    >>> TimeLimit.of(None).left() is None, TimeLimit.of(0).left(), TimeLimit.of(3600).left() > 3000
    (True, 0.0, True)
    """

    started: float
    seconds: float | None

    @classmethod
    def of(cls, time_limit: object) -> TimeLimit:
        """Begin now; raise for what is no number of seconds."""
        return cls(time.monotonic(), checked_time_limit(time_limit))

    def left(self) -> float | None:
        """Return the seconds that are left; None for no limit."""
        return None if self.seconds is None else max(0.0, self.seconds - (time.monotonic() - self.started))


class Cut(Exception):
    """Time is over, or the user pressed Ctrl-C, before all designs were evaluated.

    Parameters
    ----------
    reason
        Which of the two.
    population, objectives
        What was evaluated until then; None where nothing was.
    """

    def __init__(self, reason: CutReason, population: Population, objectives: Objectives | None) -> None:
        super().__init__(reason)
        self.reason: CutReason = reason
        self.population = population
        self.objectives = objectives


class Pace:
    """Cuts work into batches that take about a quarter of a second each.

    Parameters
    ----------
    clock
        Tells seconds.

    Examples
    --------
    >>> ticks = iter([0.0, 0.1, 0.1, 0.2, 0.2, 0.3])
    >>> [part for part, done in Pace(lambda: next(ticks)).each(100, lambda part: None)]
    [slice(0, 16, None), slice(16, 56, None), slice(56, 100, None)]
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._size = float(_FIRST)

    def each(self, count: int, work: Callable[[slice], Result]) -> Iterator[tuple[slice, Result]]:
        """Do the work on so many things batch by batch, and yield each batch with its result.

        Parameters
        ----------
        count
            Of the things.
        work
            Does those of a batch. How long it takes sizes the next one; what the caller does in between does not.
        """
        begin = 0
        while begin < count:
            part = slice(begin, min(count, begin + max(1, int(self._size))))
            started = self._clock()
            result = work(part)
            self._note(part.stop - part.start, self._clock() - started)
            yield part, result
            begin = part.stop

    def _note(self, count: int, seconds: float) -> None:
        change = _MEANT_S / max(seconds, 1e-9)
        wanted = count * min(max(change, 1 / _MOST_CHANGE), _MOST_CHANGE)
        # A small last batch says little against a larger size.
        self._size = max(self._size, wanted) if seconds <= _MEANT_S else max(1.0, wanted)


class PacedEvaluator:
    """An evaluator that looks at the clock between batches.

    Parameters
    ----------
    evaluator
        Does the work.
    deadline
        On `time.monotonic`; None for no limit. One batch is evaluated however late it is, so that there is something to keep.
    """

    def __init__(self, evaluator: Evaluator, deadline: float | None) -> None:
        self._evaluator = evaluator
        self._deadline = deadline
        self._pace = Pace()
        self.n = evaluator.n
        self.rows = evaluator.rows

    def __call__(self, population: Population) -> Objectives:
        """Return the objectives of compressed chromosomes, or raise `Cut` with those there are."""
        return self.told(population, None)

    def told(self, population: Population, tell: Callable[[int], object] | None) -> Objectives:
        """Do the same, and tell after each batch how many are done."""
        scored: list[Objectives] = []
        try:
            for part, objectives in self._pace.each(len(population), lambda part: self._evaluator(population[part])):
                scored.append(objectives)
                if tell is not None:
                    tell(part.stop)
                if part.stop < len(population) and self.over():
                    raise _cut("time", population, scored)
        except KeyboardInterrupt:
            raise _cut("interrupted", population, scored) from None
        return _joined(scored) or self._evaluator(population)

    def over(self) -> bool:
        """Return whether the time is over."""
        return self._deadline is not None and time.monotonic() >= self._deadline


def _cut(reason: CutReason, population: Population, scored: list[Objectives]) -> Cut:
    # Counted from what was scored: Ctrl-C may come between any two lines.
    return Cut(reason, population[: sum(map(len, scored))], _joined(scored))


def _joined(scored: list[Objectives]) -> Objectives | None:
    return scored[0].join(scored[1:]) if scored else None
