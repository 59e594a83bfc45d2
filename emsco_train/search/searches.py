"""The two searches of a problem, and the choice between them: genetic where it must be, exact where it can be.

What a time limit and Ctrl-C do is the same rule everywhere: keep what is true, and say so. The genetic algorithm and its polish
keep the front so far. A part of an exact search is no front, since what was not yet visited may dominate it: out of time, it is
an error, and Ctrl-C goes on to the caller.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from emsco_train.data.problem import Problem
from emsco_train.designs.front import Front
from emsco_train.errors import DesignError
from emsco_train.search.exact_search import MAX_SECONDS, ExactLimits, is_affordable, search_exactly
from emsco_train.search.genetic.checkpoint import Checkpoints
from emsco_train.search.genetic.evolution import Evolution, OnGeneration, StopReason, evolve_population
from emsco_train.search.genetic.polish import PolishResult, PolishStopReason, polish_population
from emsco_train.search.pace import OnStep, Step, TimeLimit
from emsco_train.search.settings import Constraints, Method, Settings
from emsco_train.search.workbench import Workbench
from emsco_train.support.numbers import check_seed, worker_count

__all__ = [
    "Method",
    "OnGeneration",
    "OnStep",
    "Outcome",
    "Step",
    "evolve",
    "exhaustive",
    "is_affordable",
    "run_evolve",
    "run_exhaustive",
    "run_search",
    "worker_count",
]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a search found, and how.

    Parameters
    ----------
    front
        The designs.
    method
        "evolve" or "exhaustive".
    stopped
        Why it ended: "complete" for the exact search, else as in `Evolution`. "time" and "interrupted" also where it was the
        polish that was cut short: the front is then the best so far.
    designs
        Designs evaluated (or covered, by the exact search).
    fits
        Feature sets fitted.
    polished
        How the polish ended, as in `PolishResult`; "skipped" if it was asked for but the generations were cut short before it;
        None if it was not asked for.
    """

    front: Front
    method: Method
    stopped: StopReason | Literal["complete"]
    designs: int
    fits: int
    polished: PolishStopReason | Literal["skipped"] | None = None


def evolve(
    problem: Problem,
    settings: Settings | None = None,
    *,
    seed: int = 0,
    on_generation: OnGeneration | None = None,
    on_progress: OnStep | None = None,
    checkpoints: Checkpoints | None = None,
    time_limit: float | None = None,
    jobs: int | None = None,
) -> Front:
    """Return the front that the genetic algorithm finds; see `run_evolve` for the parameters and for more than the front."""
    return run_evolve(
        problem,
        settings,
        seed=seed,
        jobs=jobs,
        on_generation=on_generation,
        on_progress=on_progress,
        checkpoints=checkpoints,
        time_limit=time_limit,
    ).front


def exhaustive(
    problem: Problem,
    *,
    max_stages: int | None = None,
    allow_exclusion: bool = False,
    pinned: tuple[int, ...] = (),
    constraints: Constraints | None = None,
    ties: Literal["count", "all"] = "count",
    max_designs: int = 100_000,
    on_progress: OnStep | None = None,
    time_limit: float | None = None,
    jobs: int | None = None,
) -> Front:
    """Return the complete front: every non-dominated objective vector, its representative design and how many are tied on it.

    Parameters
    ----------
    problem
        The problem.
    max_stages, allow_exclusion, pinned, constraints
        As in `Settings`.
    ties, max_designs, on_progress, time_limit, jobs
        As in `run_exhaustive`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> problem = Problem.of(X, X[:, 0] + X[:, 1] + rng.normal(size=300) > 0, costs=[3, 1, 1], threshold=0.8)
    >>> len(exhaustive(problem, max_stages=1))
    1
    """
    settings = Settings(
        max_stages=max_stages, allow_exclusion=allow_exclusion, pinned=pinned, constraints=constraints or Constraints()
    )
    return run_exhaustive(
        problem, settings, ties=ties, max_designs=max_designs, on_progress=on_progress, time_limit=time_limit, jobs=jobs
    ).front


def run_evolve(
    problem: Problem,
    settings: Settings | None = None,
    *,
    seed: int = 0,
    jobs: int | None = None,
    on_generation: OnGeneration | None = None,
    on_progress: OnStep | None = None,
    checkpoints: Checkpoints | None = None,
    time_limit: float | None = None,
    workbench: Workbench | None = None,
    threshold: int = 0,
) -> Outcome:
    """Search designs with the genetic algorithm.

    Parameters
    ----------
    problem
        The problem.
    settings
        Of the algorithm; the paper's by default.
    seed
        Same seed, same data, same settings: the same front, whatever the number of jobs.
    jobs
        Threads for the fits; None for all cores.
    on_generation
        Called with a `Generation` after each one.
    on_progress
        Called with a `Step` several times a second, while the first generation is evaluated and during the polish.
    checkpoints
        Where to keep the state, and whether to begin from it. A run that is killed and resumed, however often, ends with the
        front of an unbroken one.
    time_limit
        Seconds for generations and polish together; the best front so far is returned, and `stopped` is "time".
    workbench, threshold
        A workbench of this problem whose fits are to be shared, and which of its thresholds to search at.

    Raises
    ------
    DesignError
        If settings, seed, jobs or time limit are no such things, or do not fit the problem.
    CheckpointError
        If the checkpoint is unreadable, or belongs to other data, settings or another seed.
    KeyboardInterrupt
        If Ctrl-C comes before any design was evaluated. Later, the best front so far is returned, and `stopped` is "interrupted".

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 4))
    >>> problem = Problem.of(X, (X @ [2.0, 1.0, 0.5, 0.0] + rng.normal(size=300) > 0), costs=[5, 1, 1, 1], threshold=0.8)
    >>> outcome = run_evolve(problem, Settings(population=30, generations=10, max_stages=3))
    >>> outcome.stopped, outcome.fits <= 15, outcome.front.select().coverage > 0.5
    ('generations', True, True)
    """
    limit = TimeLimit.of(time_limit)
    bench = workbench or Workbench(problem, jobs=worker_count(jobs))
    chosen = settings or Settings()
    found = evolve_population(
        bench.evaluator(threshold),
        chosen,
        seed=seed,
        on_generation=on_generation,
        on_step=on_progress,
        checkpoints=None if checkpoints is None else _bind_to_problem(checkpoints, problem, bench, threshold),
        time_limit=limit.remaining(),
    )
    if not chosen.polish:
        return _evolution_outcome(found, None, bench, threshold)
    return _run_polish(found, chosen, bench, threshold, seed=seed, limit=limit, on_progress=on_progress)


def run_exhaustive(
    problem: Problem,
    settings: Settings | None = None,
    *,
    ties: Literal["count", "all"] = "count",
    max_designs: int = 100_000,
    max_seconds: float = MAX_SECONDS,
    time_limit: float | None = None,
    jobs: int | None = None,
    on_progress: OnStep | None = None,
    workbench: Workbench | None = None,
    threshold: int = 0,
) -> Outcome:
    """Search designs exactly: every non-dominated one, and how many are tied with it.

    Parameters
    ----------
    problem
        The problem.
    settings
        Of which stages, exclusion, pins and constraints count.
    ties
        "count" gives one design per objective vector and the number tied on it; "all" lists every tied design.
    max_designs
        Most designs to list with ties="all"; more are refused.
    max_seconds
        A search that is estimated to take longer is refused. The estimate is of the designs, not of the fits before.
    time_limit
        In place of `max_seconds`, seconds that it may take: what is estimated to take longer is refused, and what does take
        longer ends with an error. There is no partial result: designs not yet visited may dominate what was found.
    jobs
        Threads; None for all cores.
    on_progress
        Called with a `Step` several times a second, in the calling thread. What it raises ends the search.
    workbench, threshold
        As in `run_evolve`.

    Raises
    ------
    DesignError
        If the search is too large or runs out of time, or if arguments do not fit.
    KeyboardInterrupt
        If Ctrl-C comes at any time: nothing is kept but the fits, in the workbench.
    """
    limit = TimeLimit.of(time_limit)
    workers = worker_count(jobs)
    bench = workbench or Workbench(problem, jobs=workers)
    allowed = max_seconds if limit.seconds is None else limit.seconds
    limits = ExactLimits(ties, max_designs, allowed, workers)
    return _run_exact(bench, settings or Settings(), threshold, limits, limit=limit, on_progress=on_progress)


def run_search(
    problem: Problem,
    settings: Settings | None = None,
    *,
    method: Method = "auto",
    seed: int = 0,
    jobs: int | None = None,
    on_generation: OnGeneration | None = None,
    on_progress: OnStep | None = None,
    checkpoints: Checkpoints | None = None,
    time_limit: float | None = None,
    workbench: Workbench | None = None,
    threshold: int = 0,
) -> Outcome:
    """Search designs, exactly where that is affordable.

    Parameters
    ----------
    method
        "evolve", "exhaustive", or "auto": exact if it is estimated to take under a minute on one core and less than the time
        limit, else genetic. The choice depends on problem, settings and time limit alone, not on the machine or on the jobs.
    problem, settings, seed, jobs, workbench, threshold
        As in `run_evolve`.
    on_generation
        Called with a `Generation` after each one, by the genetic search.
    on_progress
        Called with a `Step` several times a second, by both.
    checkpoints
        As in `run_evolve`. The exact search keeps none and begins anew; that of another run is refused here too.
    time_limit
        Seconds. The genetic search returns its front so far, see `run_evolve`; the exact one has none, see `run_exhaustive`.

    Raises
    ------
    DesignError, CheckpointError, KeyboardInterrupt
        As `run_evolve` and `run_exhaustive` do.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 4))
    >>> problem = Problem.of(X, (X @ [2.0, 1.0, 0.5, 0.0] + rng.normal(size=300) > 0), costs=[5, 1, 1, 1], threshold=0.8)
    >>> phases = []
    >>> outcome = run_search(problem, on_progress=lambda step: phases.append(step.phase))
    >>> outcome.method, outcome.stopped, sorted(set(phases))
    ('exhaustive', 'complete', ['designs', 'fits'])
    """
    if method not in ("auto", "evolve", "exhaustive"):
        raise DesignError(f"search is {method!r}: 'auto', 'evolve' or 'exhaustive' is due")
    limit = TimeLimit.of(time_limit)
    chosen, whole = settings or Settings(), check_seed(seed)
    bench = workbench or Workbench(problem, jobs=worker_count(jobs))
    if method == "exhaustive" or (method == "auto" and is_affordable(problem, chosen, limit.seconds)):
        if checkpoints is not None:
            _bind_to_problem(checkpoints, problem, bench, threshold).load(chosen.resolved(len(problem.names)).digest(), whole)
        limits = ExactLimits(seconds=MAX_SECONDS if limit.seconds is None else limit.seconds, jobs=worker_count(jobs))
        return _run_exact(bench, chosen, threshold, limits, limit=limit, on_progress=on_progress)
    return run_evolve(
        problem,
        chosen,
        seed=whole,
        jobs=jobs,
        on_generation=on_generation,
        on_progress=on_progress,
        checkpoints=checkpoints,
        time_limit=limit.remaining(),
        workbench=bench,
        threshold=threshold,
    )


def _run_exact(
    bench: Workbench, settings: Settings, threshold: int, limits: ExactLimits, *, limit: TimeLimit, on_progress: OnStep | None
) -> Outcome:
    found = search_exactly(bench, settings, threshold, limits, limit=limit, on_progress=on_progress)
    front = bench.front(bench.designs(found.population, found.ties, threshold))
    return Outcome(front, "exhaustive", "complete", found.designs, bench.bits.fits)


def _bind_to_problem(checkpoints: Checkpoints, problem: Problem, bench: Workbench, threshold: int) -> Checkpoints:
    """Return checkpoints that name the problem that they belong to, at the threshold of the search."""
    if checkpoints.problem:
        return checkpoints
    return replace(checkpoints, problem=replace(problem, thresholds=bench.thresholds[threshold]).digest())


def _evolution_outcome(
    found: Evolution, polished: Literal["skipped", "interrupted"] | None, bench: Workbench, threshold: int
) -> Outcome:
    """Return the outcome of the generations alone."""
    front = bench.front(bench.designs(found.chromosomes, found.ties.tolist(), threshold))
    stopped: StopReason = "interrupted" if polished == "interrupted" else found.stopped
    return Outcome(front, "evolve", stopped, found.evaluations, bench.bits.fits, polished)


def _run_polish(
    found: Evolution,
    settings: Settings,
    bench: Workbench,
    threshold: int,
    *,
    seed: int,
    limit: TimeLimit,
    on_progress: OnStep | None,
) -> Outcome:
    """Return the outcome of generations and polish; what the generations found is never lost, whatever stops the polish."""
    if found.stopped in ("interrupted", "time"):
        return _evolution_outcome(found, "skipped", bench, threshold)
    remaining = limit.remaining()
    evaluator = bench.evaluator(threshold)
    try:
        done = polish_population(evaluator, settings, found.population, seed=seed, time_limit=remaining, on_step=on_progress)
    except KeyboardInterrupt:
        return _evolution_outcome(found, "interrupted", bench, threshold)
    front = bench.front(bench.designs(done.chromosomes, done.ties.tolist(), threshold))
    evaluations = found.evaluations + done.evaluations
    return Outcome(front, "evolve", _stop_reason(found, done, settings, remaining), evaluations, bench.bits.fits, done.stopped)


def _stop_reason(found: Evolution, done: PolishResult, settings: Settings, remaining: float | None) -> StopReason:
    """Return why the whole search ended; seconds that the polish has of its own are no time limit."""
    own = settings.polish_seconds
    if done.stopped == "interrupted" or (done.stopped == "time" and remaining is not None and (own is None or remaining < own)):
        return done.stopped
    return found.stopped
