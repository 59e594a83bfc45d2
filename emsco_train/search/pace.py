"""Long work in short batches: a time limit and Ctrl-C take effect soon, what was done until then is kept, progress is reported.

The sizes of batches follow the clock. Results do not: a design's objectives depend on the design alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from emsco_train.designs.chromosome import Population
from emsco_train.search.scoring.objectives import Evaluator, Objectives
from emsco_train.support.numbers import check_time_limit
from emsco_train.support.stop_flag import FitStopped

__all__ = [
    "FIT_GRACE_S",
    "AdaptiveBatches",
    "BatchedEvaluator",
    "EvaluationInterrupted",
    "InterruptReason",
    "OnStep",
    "Step",
    "TimeLimit",
]

InterruptReason: TypeAlias = Literal["time", "interrupted"]
Result = TypeVar("Result")

# Few, since one may take long; four times as many follow.
_FIRST_BATCH = 4
# Seconds that a batch should take: short enough to be interrupted, long enough that the overhead of a batch does not count.
_TARGET_S = 0.25
# The first batch may also compile; one measurement must not be trusted too far.
_MAX_CHANGE = 4.0
# How long after a time limit the fits under way may go on, so that what is nearly done is not lost.
FIT_GRACE_S = 1.5


@dataclass(frozen=True, slots=True)
class Step:
    """How far a piece of long work is.

    Parameters
    ----------
    phase
        "seeds" (steps of greedy paths), "first" (designs of the first generation, or of the one that a run resumes from),
        "polish" (designs of the local search), "upgrade" (designs fitted again with other stages), "fits" (feature sets for the
        exact search), or "designs" (of the exact search).
    done, total
        How much of it is done, and how much there is at most.
    front
        Designs on the front so far; None where there is no front yet.
    """

    phase: Literal["seeds", "first", "polish", "upgrade", "fits", "designs"]
    done: int
    total: int
    front: int | None = None


OnStep: TypeAlias = Callable[[Step], object]


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """A limit in seconds, None for no limit, that runs since `started` on `time.monotonic`.

    Examples
    --------
    >>> TimeLimit.of(None).remaining() is None, TimeLimit.of(0).remaining(), TimeLimit.of(3600).remaining() > 3000
    (True, 0.0, True)
    """

    started: float
    seconds: float | None

    @classmethod
    def of(cls, time_limit: object) -> TimeLimit:
        """Start now; raise if the limit is not a number of seconds."""
        return cls(time.monotonic(), check_time_limit(time_limit))

    def remaining(self) -> float | None:
        """Return the seconds that are left; None for no limit."""
        return None if self.seconds is None else max(0.0, self.seconds - (time.monotonic() - self.started))

    def fit_seconds(self) -> float | None:
        """Return the seconds that are left for the fits under way, which are then ended; None for no limit."""
        left = self.remaining()
        return None if left is None else left + FIT_GRACE_S


class EvaluationInterrupted(Exception):
    """Time was over, or the user pressed Ctrl-C, before all designs were evaluated; holds those that were, if any."""

    def __init__(self, reason: InterruptReason, population: Population, objectives: Objectives | None) -> None:
        super().__init__(reason)
        self.reason: InterruptReason = reason
        self.population = population
        self.objectives = objectives


class AdaptiveBatches:
    """Cuts work into batches that take about `seconds` each, a quarter of a second by default.

    `first` is the size of the first one; None: four. Later ones are no smaller than `least`: a thread each, say.

    Examples
    --------
    >>> ticks = iter([0.0, 0.1, 0.1, 0.2, 0.2, 0.3])
    >>> [part for part, done in AdaptiveBatches(lambda: next(ticks)).run(30, lambda part: None)]
    [slice(0, 4, None), slice(4, 14, None), slice(14, 30, None)]
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, seconds: float = _TARGET_S, first: int | None = None, least: int = 1
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._size = float(first or _FIRST_BATCH)
        self._least = float(least)

    def run(self, count: int, work: Callable[[slice], Result]) -> Iterator[tuple[slice, Result]]:
        """Do the work on `count` things batch by batch, and yield each batch with its result.

        How long the work takes decides the size of the next batch; what the caller does in between does not count.
        """
        begin = 0
        while begin < count:
            part = slice(begin, min(count, begin + int(self._size)))
            started = self._clock()
            result = work(part)
            self._adapt(part.stop - part.start, self._clock() - started)
            yield part, result
            begin = part.stop

    def _adapt(self, count: int, seconds: float) -> None:
        change = self._seconds / max(seconds, 1e-9)
        wanted = count * min(max(change, 1 / _MAX_CHANGE), _MAX_CHANGE)
        # A small last batch says little against a larger size.
        self._size = max(self._least, self._size, wanted) if seconds <= self._seconds else max(self._least, wanted)


class BatchedEvaluator:
    """An evaluator that looks at the clock between batches.

    The deadline is on `time.monotonic`, None for no limit. One batch is evaluated however late it is, so that there is a result.
    """

    def __init__(self, evaluator: Evaluator, deadline: float | None) -> None:
        self._evaluator = evaluator
        self._deadline = deadline
        # One whose rows are far away may ask for longer batches, which wait less often.
        self._batches = AdaptiveBatches(seconds=getattr(evaluator, "batch_seconds", _TARGET_S))

    def __call__(self, population: Population, on_batch: Callable[[int], object] | None = None) -> Objectives:
        """Return the objectives of compressed chromosomes, or raise `EvaluationInterrupted` with those there are.

        `on_batch` is called after each batch with the number of chromosomes done.
        """
        scored: list[Objectives] = []
        try:
            for part, objectives in self._batches.run(len(population), lambda part: self._evaluator(population[part])):
                scored.append(objectives)
                if on_batch is not None:
                    on_batch(part.stop)
                if part.stop < len(population) and self.is_out_of_time():
                    raise _interruption("time", population, scored)
        except KeyboardInterrupt:
            raise _interruption("interrupted", population, scored) from None
        except FitStopped:
            raise _interruption("time", population, scored) from None
        return _concatenate(scored) or self._evaluator(population)

    def is_out_of_time(self) -> bool:
        """Return whether the time is over."""
        return self._deadline is not None and time.monotonic() >= self._deadline


def _interruption(reason: InterruptReason, population: Population, scored: list[Objectives]) -> EvaluationInterrupted:
    # Counted from what was scored: Ctrl-C may come between any two lines.
    return EvaluationInterrupted(reason, population[: sum(map(len, scored))], _concatenate(scored))


def _concatenate(scored: list[Objectives]) -> Objectives | None:
    return scored[0].join(scored[1:]) if scored else None
