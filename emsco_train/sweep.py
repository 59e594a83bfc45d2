"""Sweeps: many thresholds in one call, and the paper's comparison of the algorithm's own settings. All share their fits."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from emsco_train.data.problem import Problem
from emsco_train.data.thresholds import Threshold
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.errors import DesignError
from emsco_train.searches import Method, Outcome, run_evolve, run_search
from emsco_train.settings import Settings
from emsco_train.workbench import Workbench

__all__ = ["ThresholdSweep", "Trial", "settings_score", "sweep_settings", "sweep_thresholds"]

_SWEPT = ("population", "mutation", "crossover", "beta", "elite")


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdSweep:
    """The searches at several thresholds.

    Parameters
    ----------
    front
        The designs of all thresholds; fitness compares designs of the same threshold.
    outcomes
        One per threshold, in order.
    fits
        Feature sets fitted, for all thresholds together.
    """

    front: Front
    outcomes: tuple[Outcome, ...]
    fits: int


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
    jobs: int = 1,
) -> ThresholdSweep:
    """Search at several thresholds; each feature set is fitted once for all of them.

    Parameters
    ----------
    problem, settings, method, seed, jobs
        As in `search`; the problem's own threshold does not count.
    thresholds
        Numbers, or mappings label -> number.
    """
    if not thresholds:
        raise DesignError("thresholds: at least one is due, got none")
    bench = Workbench(problem, thresholds, jobs=jobs)
    outcomes = tuple(
        run_search(problem, settings, method=method, seed=seed, jobs=jobs, workbench=bench, threshold=index)
        for index in range(len(thresholds))
    )
    return ThresholdSweep(bench.front(design for outcome in outcomes for design in outcome.front), outcomes, bench.bits.fits)


def sweep_settings(
    problem: Problem,
    grid: Mapping[str, Sequence[Any]],
    settings: Settings | None = None,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    jobs: int = 1,
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
        Threads for the fits.
    """
    strangers = [name for name in grid if name not in _SWEPT]
    if strangers or not grid or not seeds:
        told = f"got {strangers}" if strangers else "got none" if not grid else "no seeds"
        raise DesignError(f"grid: values of {', '.join(_SWEPT)} are due, and at least one seed; {told}")
    bench = Workbench(problem, jobs=jobs)
    trials = []
    for values in itertools.product(*grid.values()):
        chosen = replace(settings or Settings(), **dict(zip(grid, values, strict=True)))
        started = time.monotonic()
        scores = tuple(_best(problem, bench, chosen, seed) for seed in seeds)
        trials.append(Trial(chosen, scores, math.fsum(scores) / len(scores), time.monotonic() - started))
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


def _best(problem: Problem, bench: Workbench, settings: Settings, seed: int) -> float:
    front = run_evolve(problem, settings, seed=seed, workbench=bench).front
    return max((settings_score(design, problem.full_cost) for design in front), default=0.0)
