"""Sweeps: many thresholds in one call, and the paper's comparison of the algorithm's own settings. All share their fits."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from emsco_train.data.problem import Problem
from emsco_train.data.thresholds import Threshold
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.errors import DesignError
from emsco_train.search.searches import Method, OnGeneration, OnStep, Outcome, run_evolve, run_search, worker_count
from emsco_train.search.settings import Settings
from emsco_train.search.workbench import Workbench
from emsco_train.support.numbers import check_time_limit

__all__ = ["ThresholdSweep", "Trial", "settings_score", "sweep_settings", "sweep_thresholds"]

_TUNABLE = ("population", "mutation", "crossover", "beta", "elite")


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdSweep:
    """The searches at several thresholds.

    Parameters
    ----------
    front
        The designs of all thresholds; fitness compares designs of the same threshold.
    outcomes
        One per threshold, in order; those that were reached, if Ctrl-C came.
    fits
        Feature sets fitted, for all thresholds together.
    stopped
        "interrupted" if Ctrl-C came, "time" if some search was cut short by the time limit, else "complete".
    """

    front: Front
    outcomes: tuple[Outcome, ...]
    fits: int
    stopped: Literal["complete", "time", "interrupted"] = "complete"


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One combination of settings, tried with several seeds.

    Parameters
    ----------
    settings
        The combination.
    scores
        The best score of each seed's front, by `settings_score`.
    mean
        Their mean: what combinations are compared by.
    seconds
        Time that all seeds took.
    """

    settings: Settings
    scores: tuple[float, ...]
    mean: float
    seconds: float


def sweep_thresholds(
    problem: Problem,
    thresholds: Sequence[Threshold],
    settings: Settings | None = None,
    *,
    method: Method = "auto",
    seed: int = 0,
    jobs: int | None = 1,
    on_generation: OnGeneration | None = None,
    on_progress: OnStep | None = None,
    time_limit: float | None = None,
) -> ThresholdSweep:
    """Search at several thresholds; each feature set is fitted once for all of them.

    Parameters
    ----------
    problem, settings, method, seed, jobs, on_generation, on_progress
        As in `run_search`; the problem's own threshold does not count.
    thresholds
        Numbers, or mappings label -> number.
    time_limit
        Seconds for all of them: each may take an equal share of what those before it have left.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C comes before the first search has a front. Later, the sweep ends there and keeps what it has.
    """
    if not thresholds:
        raise DesignError("thresholds: at least one is due, got none")
    started, limit = time.monotonic(), check_time_limit(time_limit)
    bench = Workbench(problem, thresholds, jobs=worker_count(jobs))
    outcomes: list[Outcome] = []
    interrupted = False
    for index in range(len(thresholds)):
        left = None if limit is None else max(0.0, limit - (time.monotonic() - started)) / (len(thresholds) - index)
        try:
            outcome = run_search(
                problem,
                settings,
                method=method,
                seed=seed,
                jobs=jobs,
                on_generation=on_generation,
                on_progress=on_progress,
                time_limit=left,
                workbench=bench,
                threshold=index,
            )
        except KeyboardInterrupt:
            if not outcomes:
                raise
            interrupted = True
            break
        outcomes.append(outcome)
        interrupted = outcome.stopped == "interrupted"
        if interrupted:
            break
    front = bench.front(design for outcome in outcomes for design in outcome.front)
    timed_out = any(outcome.stopped == "time" for outcome in outcomes)
    stopped: Literal["complete", "time", "interrupted"] = "interrupted" if interrupted else "time" if timed_out else "complete"
    return ThresholdSweep(front, tuple(outcomes), bench.bits.fits, stopped)


def sweep_settings(
    problem: Problem,
    grid: Mapping[str, Sequence[Any]],
    settings: Settings | None = None,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    jobs: int | None = 1,
) -> list[Trial]:
    """Compare settings of the genetic algorithm, as the paper tunes them; the best combination comes first.

    Parameters
    ----------
    problem
        The problem.
    grid
        Setting -> values to try: any of population, mutation, crossover, beta and elite. All combinations are tried.
    settings
        What the others are.
    seeds
        Each combination is tried with each of them.
    jobs
        Threads for the fits; None for all cores.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C comes before the first combination is done. Later, those that are done are returned.
    """
    unknown = [name for name in grid if name not in _TUNABLE]
    if unknown or not grid or not seeds:
        detail = f"got {unknown}" if unknown else "got none" if not grid else "no seeds"
        raise DesignError(f"grid: values of {', '.join(_TUNABLE)} are due, and at least one seed; {detail}")
    bench = Workbench(problem, jobs=worker_count(jobs))
    # Made before any is tried, so that a value that cannot be is told at once.
    combinations = [
        replace(settings or Settings(), **dict(zip(grid, values, strict=True))) for values in itertools.product(*grid.values())
    ]
    trials: list[Trial] = []
    try:
        for chosen in combinations:
            started = time.monotonic()
            scores = tuple(_best_score(problem, bench, chosen, seed) for seed in seeds)
            trials.append(Trial(chosen, scores, math.fsum(scores) / len(scores), time.monotonic() - started))
    except KeyboardInterrupt:
        if not trials:
            raise
    return sorted(trials, key=lambda trial: -trial.mean)


def settings_score(design: Design, full_cost: float) -> float:
    """Return the paper's score of a design that does not depend on a population: inverse cost is 1 - cost / cost of everything.

    Examples
    --------
    >>> design = Design.of((0, 1), ["a", "b"], (0.9, 0.9), coverage=0.6, accuracy=0.8, cost=2.0)
    >>> round(settings_score(design, full_cost=4.0), 3)
    1.118
    """
    return math.hypot(design.coverage, design.accuracy, 1 - design.cost / full_cost)


def _best_score(problem: Problem, bench: Workbench, settings: Settings, seed: int) -> float:
    outcome = run_evolve(problem, settings, seed=seed, workbench=bench)
    if outcome.stopped == "interrupted":
        # Half a run is no figure to compare settings by.
        raise KeyboardInterrupt
    return max((settings_score(design, problem.full_cost) for design in outcome.front), default=0.0)
