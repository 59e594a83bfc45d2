"""Searches that share their fits: at several thresholds, on a sample of the rows, and the paper's comparison of settings.

Those of a sweep do not depend on each other. With `workers` they run in the processes of joblib, each with fits of its own: under
``joblib.parallel_config(backend=...)`` in those of Dask, Ray or Spark. The results are the same.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np

from emsco_train.data.problem import Problem
from emsco_train.data.stage_settings import Upgrade, check_upgrade
from emsco_train.data.thresholds import Threshold
from emsco_train.designs.chromosome import Population
from emsco_train.designs.counts import Counts
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.errors import DesignError
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.compilation import load_search
from emsco_train.search.genetic.checkpoint import Checkpoints
from emsco_train.search.genetic.evolution import OnGeneration
from emsco_train.search.genetic.pareto import non_dominated, representatives, violations
from emsco_train.search.pace import OnStep, TimeLimit
from emsco_train.search.progress import Progress
from emsco_train.search.searches import Outcome, name_time_limit, run_evolve, run_search
from emsco_train.search.settings import Method, Settings
from emsco_train.search.upgrade import upgrade_front
from emsco_train.search.workbench import Workbench
from emsco_train.support.numbers import worker_count

__all__ = [
    "ThresholdSweep",
    "Trial",
    "join_fronts",
    "remeasure_front",
    "search_thresholds",
    "settings_score",
    "sweep_seeds",
    "sweep_settings",
    "sweep_thresholds",
]

_Result = TypeVar("_Result")

_TUNABLE = ("population", "mutation", "crossover", "beta", "elite")


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdSweep:
    """The searches at several thresholds.

    Parameters
    ----------
    front
        The designs of all thresholds; fitness compares designs of the same threshold.
    outcomes
        One per threshold, in order; after Ctrl-C, those until then.
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
    scores, mean
        The best score of each seed's front, by `settings_score`; combinations are compared by their mean.
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
    workers: int | None = None,
) -> ThresholdSweep:
    """Search at several thresholds; each feature set is fitted once for all of them.

    Parameters
    ----------
    problem, settings, method, seed, jobs, on_generation, on_progress
        As in `run_search`; the problem's own threshold is ignored.
    thresholds
        Numbers, or mappings label -> number.
    time_limit
        Seconds for all of them: each may take an equal share of what those before it have left over. With `workers`, seconds for
        each of them.
    workers
        Search at this many thresholds at the same time, in processes of joblib, where the functions are not called; -1 for all
        cores. None: one after the other in this process.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C comes before the first search has a front. Later, the sweep ends there and returns what it has.
    """
    if not thresholds:
        raise DesignError("thresholds: expected at least one, got none")
    if workers is not None:
        problems = [problem.with_threshold(threshold) for threshold in thresholds]
        outcomes = _search_apart(problems, [seed], settings, method, jobs, time_limit, workers)
        return _make_sweep(problem, outcomes, len(thresholds), sum(outcome.fits for outcome in outcomes))
    searches = search_thresholds(
        problem,
        thresholds,
        settings or Settings(),
        method=method,
        seed=seed,
        jobs=jobs,
        time_limit=time_limit,
        share_time=True,
        on_generation=on_generation,
        on_progress=on_progress,
    )
    outcomes = tuple(searches)
    return _make_sweep(problem, outcomes, len(thresholds), outcomes[-1].fits)


def _make_sweep(problem: Problem, outcomes: tuple[Outcome, ...], expected: int, fits: int) -> ThresholdSweep:
    reasons = {outcome.stopped for outcome in outcomes}
    interrupted = "interrupted" in reasons or len(outcomes) < expected
    stopped: Literal["complete", "time", "interrupted"] = (
        "interrupted" if interrupted else "time" if "time" in reasons else "complete"
    )
    return ThresholdSweep(join_fronts(problem, outcomes), outcomes, fits, stopped)


def sweep_seeds(
    problem: Problem,
    seeds: Sequence[int],
    settings: Settings | None = None,
    *,
    method: Method = "auto",
    jobs: int | None = 1,
    time_limit: float | None = None,
    workers: int = 1,
) -> tuple[Outcome, ...]:
    """Run the same search with several seeds, in processes of joblib, and return an outcome for each; `join_fronts` joins them.

    Parameters
    ----------
    problem, settings, method, jobs, time_limit
        As in `run_search`.
    seeds
        One for each search.
    workers
        Searches at the same time; -1 for all cores. 1: in this process.
    """
    if not seeds:
        raise DesignError("seeds: expected at least one, got none")
    return _search_apart([problem], seeds, settings, method, jobs, time_limit, workers)


def _search_apart(
    problems: Sequence[Problem],
    seeds: Sequence[int],
    settings: Settings | None,
    method: Method,
    jobs: int | None,
    time_limit: float | None,
    workers: int,
) -> tuple[Outcome, ...]:
    """Search each problem with each seed, as joblib is configured; nothing is shared, so that the place changes nothing."""
    tasks = (
        partial(run_search, problem, settings, method=method, seed=seed, jobs=jobs, time_limit=time_limit)
        for problem in problems
        for seed in seeds
    )
    return tuple(_run_apart(tasks, workers))


def search_thresholds(
    problem: Problem,
    thresholds: Sequence[Threshold] | None,
    settings: Settings,
    *,
    method: Method,
    seed: int,
    jobs: int | None,
    max_rows: int | None = None,
    time_limit: float | None = None,
    share_time: bool = False,
    start: Population | None = None,
    on_generation: OnGeneration | None = None,
    on_progress: OnStep | None = None,
    progress: Callable[[int], Progress | None] = lambda _: None,
    checkpoints: Callable[[int], Checkpoints | None] = lambda _: None,
    fitters: ProblemFitters | None = None,
    upgrade: Upgrade | None = None,
) -> Iterator[Outcome]:
    """Search at each threshold, None for the problem's own, and yield the outcomes; each feature set is fitted once for all.

    With `max_rows`, designs are searched on a sample of that many train and validation rows, then fitted and measured on all.
    Every search begins with the designs of `start`, besides its own. The time limit is for each threshold, unless they share it:
    then each may take an equal share of what is left. `progress` and `checkpoints` give those of a threshold by its position;
    progress is shown instead of calling `on_generation` and `on_progress`. `fitters` are those of the problem, for who fits the
    same sets again. With `upgrade`, designs of each front are fitted again with stages of that kind, see `upgrade_front`, and the
    search takes half of a time limit. Ctrl-C ends the iteration; KeyboardInterrupt is raised only if there is no outcome yet.
    """
    limit, workers = TimeLimit.of(time_limit), worker_count(jobs)
    part = problem if max_rows is None else problem.sampled(max_rows, seed)
    count = 1 if thresholds is None else len(thresholds)
    fitters = fitters or ProblemFitters(problem)
    if problem.settings.is_logistic:
        # No part of the time limit.
        load_search()
        limit = TimeLimit.of(time_limit)
    bench = whole = better = None
    check_upgrade(upgrade, problem.settings)
    share = 1.0 if upgrade is None else 0.5
    for position in range(count):
        shown = progress(position)
        # After the progress has started its clock: it prepares the rows, which takes a while on a large table.
        with name_time_limit(problem, limit), fitters.stop.set_after(limit.fit_seconds()):
            own = fitters if part is problem else ProblemFitters(part, fitters.stop)
            bench = bench or Workbench(part, thresholds, jobs=workers, fitters=own)
            whole = whole or (bench if part is problem else Workbench(problem, thresholds, jobs=workers, fitters=fitters))
        left = limit.remaining()
        allowed = left / (count - position) if share_time and left is not None else limit.seconds
        started = time.monotonic()
        # What the preparation took is not added to the time of the first search.
        stopping = fitters.stop.set_after(limit.fit_seconds() if position == 0 else None)
        try:
            with name_time_limit(problem, limit), stopping:
                outcome = run_search(
                    part,
                    settings,
                    method=method,
                    seed=seed,
                    jobs=workers,
                    on_generation=on_generation if shown is None else shown.on_generation,
                    on_progress=on_progress if shown is None else shown.on_progress,
                    checkpoints=checkpoints(position),
                    time_limit=None if allowed is None else share * allowed,
                    workbench=bench,
                    threshold=position,
                    start=start,
                )
            if whole is not bench:
                outcome = remeasure_front(outcome, whole, settings, position)
        except KeyboardInterrupt:
            # An exact search has no part to keep, but those at the thresholds before it are complete.
            if position == 0:
                raise
            return
        finally:
            if shown is not None:
                shown.close()
        if upgrade is not None and outcome.stopped != "interrupted":
            other = fitters.upgraded(upgrade)
            better = better or Workbench(other.problem, thresholds, jobs=workers, fitters=other)
            outcome = upgrade_front(
                outcome,
                whole,
                better,
                settings,
                position,
                seconds=None if allowed is None else max(0.0, allowed - (time.monotonic() - started)),
                on_step=on_progress if shown is None else shown.on_progress,
            )
        if shown is not None:
            shown.ended(outcome)
        yield outcome
        if outcome.stopped == "interrupted":
            return


def remeasure_front(outcome: Outcome, bench: Workbench, settings: Settings, threshold: int = 0) -> Outcome:
    """Fit and measure the designs of a front again, on the rows of a workbench; keep the feasible ones that none dominates."""
    population = np.array([design.chromosome for design in outcome.front], dtype=np.int8)
    if not len(population):
        return outcome
    population = population[np.lexsort(population.T[::-1])]
    before = bench.bits.fits
    objectives = bench.evaluator(threshold, settings.objective)(population)
    kept = np.flatnonzero(violations(objectives, settings.constraints) == 0)
    kept = kept[non_dominated(objectives.take(kept))] if len(kept) else kept
    # How many designs of the whole search are tied on all rows is not known; among these, it is.
    kept_rows, ties = representatives(population, objectives, kept) if len(kept) else (kept, kept)
    front = bench.front(bench.designs(population[kept_rows], ties.tolist(), threshold))
    missed = None if len(kept) else objectives
    return replace(outcome, front=front, fits=outcome.fits + bench.bits.fits - before, missed=missed)


def join_fronts(problem: Problem, outcomes: Iterable[Outcome]) -> Front:
    """Return the designs of several searches of a problem as one front."""
    return Front.of_problem(problem, (design for outcome in outcomes for design in outcome.front))


def sweep_settings(
    problem: Problem,
    grid: Mapping[str, Sequence[Any]],
    settings: Settings | None = None,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    jobs: int | None = 1,
    workers: int | None = None,
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
    workers
        Try this many combinations at the same time, as in `sweep_thresholds`.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C comes before the first combination is done. Later, those that are done are returned.
    """
    unknown = [name for name in grid if name not in _TUNABLE]
    if unknown or not grid or not seeds:
        detail = f"got {unknown}" if unknown else "got none" if not grid else "got no seeds"
        raise DesignError(f"grid: expected values of {', '.join(_TUNABLE)}, and at least one seed; {detail}")
    # Made before any is tried, so that an invalid value is reported at once.
    combinations = [
        replace(settings or Settings(), **dict(zip(grid, values, strict=True))) for values in itertools.product(*grid.values())
    ]
    trials: list[Trial] = []
    if workers is not None:
        trials = _run_apart((partial(_try_apart, problem, chosen, tuple(seeds), jobs) for chosen in combinations), workers)
        return sorted(trials, key=lambda trial: -trial.mean)
    bench = Workbench(problem, jobs=worker_count(jobs))
    try:
        for chosen in combinations:
            trials.append(_try_settings(problem, bench, chosen, seeds))
    except KeyboardInterrupt:
        if not trials:
            raise
    return sorted(trials, key=lambda trial: -trial.mean)


def _run_apart(tasks: Iterable[Callable[[], _Result]], workers: int) -> list[_Result]:
    """Run tasks in processes of joblib, and return what they return."""
    from sklearn.utils.parallel import Parallel, delayed  # noqa: PLC0415 - takes a second; one process never needs it

    return list(Parallel(n_jobs=workers)(delayed(task)() for task in tasks))


def settings_score(design: Design | Counts, full_cost: float) -> float:
    """Return the paper's score of a design that does not depend on a population: the cost counts as 1 - cost / full cost.

    Examples
    --------
    >>> design = Design.of((0, 1), ["a", "b"], (0.9, 0.9), coverage=0.6, accuracy=0.8, cost=2.0)
    >>> round(settings_score(design, full_cost=4.0), 3)
    1.118
    """
    return math.hypot(design.coverage, design.accuracy, 1 - design.cost / full_cost)


def _try_apart(problem: Problem, settings: Settings, seeds: Sequence[int], jobs: int | None) -> Trial:
    return _try_settings(problem, Workbench(problem, jobs=worker_count(jobs)), settings, seeds)


def _try_settings(problem: Problem, bench: Workbench, settings: Settings, seeds: Sequence[int]) -> Trial:
    started = time.monotonic()
    scores = tuple(_best_score(problem, bench, settings, seed) for seed in seeds)
    return Trial(settings, scores, math.fsum(scores) / len(scores), time.monotonic() - started)


def _best_score(problem: Problem, bench: Workbench, settings: Settings, seed: int) -> float:
    outcome = run_evolve(problem, settings, seed=seed, workbench=bench)
    if outcome.stopped == "interrupted":
        # Half a run is not a figure to compare settings by.
        raise KeyboardInterrupt
    return max((settings_score(design, problem.full_cost) for design in outcome.front), default=0.0)
