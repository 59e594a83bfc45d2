"""The two searches of a problem, and the choice between them: genetic where it must be, exact where it can be."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from emsco_train.data.problem import Problem
from emsco_train.designs.front import Front
from emsco_train.errors import DesignError
from emsco_train.exact.bits import SetBits
from emsco_train.exact.front import ExactFront, Progress, enumerate_front
from emsco_train.exact.plan import estimate
from emsco_train.genetic.checkpoint import Checkpoints
from emsco_train.genetic.evolution import OnGeneration, Stopped, evolve_population
from emsco_train.genetic.pareto import violations
from emsco_train.genetic.polish import polish_population
from emsco_train.scoring.objectives import Objectives
from emsco_train.settings import Constraints, Settings
from emsco_train.workbench import Workbench

__all__ = [
    "Method",
    "Outcome",
    "evolve",
    "exhaustive",
    "is_affordable",
    "run_evolve",
    "run_exhaustive",
    "run_search",
    "worker_count",
]

Method: TypeAlias = Literal["auto", "evolve", "exhaustive"]

# "auto" searches exactly what is estimated to take no longer than this, and has no more features (2**n sets are fitted).
_AFFORDABLE_S = 60.0
_AFFORDABLE_FEATURES = 14


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
        Why it ended: "complete" for the exact search, else as in `Evolution`.
    designs
        Designs evaluated (or covered, by the exact search).
    fits
        Feature sets fitted.
    """

    front: Front
    method: Method
    stopped: Stopped | Literal["complete"]
    designs: int
    fits: int


def evolve(
    problem: Problem,
    settings: Settings | None = None,
    *,
    seed: int = 0,
    on_generation: OnGeneration | None = None,
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
    on_progress: Callable[[Progress], None] | None = None,
    jobs: int | None = None,
) -> Front:
    """Return the complete front: every non-dominated objective vector, its representative design and how many are tied on it.

    Parameters
    ----------
    problem
        The problem.
    max_stages, allow_exclusion, pinned, constraints
        As in `Settings`.
    ties, max_designs, on_progress, jobs
        As in `run_exhaustive`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> problem = Problem.of(X, X[:, 0] + X[:, 1] + rng.normal(size=300) > 0, costs=[3, 1, 1], threshold=0.8)
    >>> len(exhaustive(problem, max_stages=1))
    1
    """
    settings = Settings(
        max_stages=max_stages, allow_exclusion=allow_exclusion, pinned=pinned, constraints=constraints or Constraints()
    )
    return run_exhaustive(problem, settings, ties=ties, max_designs=max_designs, on_progress=on_progress, jobs=jobs).front


def run_evolve(
    problem: Problem,
    settings: Settings | None = None,
    *,
    seed: int = 0,
    jobs: int | None = None,
    on_generation: OnGeneration | None = None,
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
    on_generation, checkpoints, time_limit
        As in `evolve_population`.
    workbench, threshold
        A workbench of this problem whose fits are to be shared, and which of its thresholds to search at.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 4))
    >>> problem = Problem.of(X, (X @ [2.0, 1.0, 0.5, 0.0] + rng.normal(size=300) > 0), costs=[5, 1, 1, 1], threshold=0.8)
    >>> outcome = run_evolve(problem, Settings(population=30, generations=10, max_stages=3))
    >>> outcome.stopped, outcome.fits <= 15, outcome.front.select().coverage > 0.5
    ('generations', True, True)
    """
    bench = workbench or Workbench(problem, jobs=worker_count(jobs))
    chosen = settings or Settings()
    found = evolve_population(
        bench.evaluator(threshold), chosen, seed=seed, on_generation=on_generation, checkpoints=checkpoints, time_limit=time_limit
    )
    chromosomes, ties, evaluations = found.chromosomes, found.ties, found.evaluations
    if chosen.polish and found.stopped != "interrupted":
        polished = polish_population(bench.evaluator(threshold), chosen, found.population, seed=seed)
        chromosomes, ties, evaluations = polished.chromosomes, polished.ties, evaluations + polished.evaluations
    front = bench.front(bench.designs(chromosomes, ties.tolist(), threshold))
    return Outcome(front, "evolve", found.stopped, evaluations, bench.bits.fits)


def run_exhaustive(
    problem: Problem,
    settings: Settings | None = None,
    *,
    ties: Literal["count", "all"] = "count",
    max_designs: int = 100_000,
    max_seconds: float = 3600.0,
    jobs: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
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
        A search that is estimated to take longer is refused.
    jobs
        Threads; None for all cores.
    on_progress
        Called several times a second with a `Progress`.
    workbench, threshold
        As in `run_evolve`.
    """
    workers = worker_count(jobs)
    bench = workbench or Workbench(problem, jobs=workers)
    chosen = (settings or Settings()).resolved(len(problem.names))
    n = len(problem.names)
    # Refuse before 2**n fits are made.
    work = estimate(n, _stages(chosen), len(problem.validation), allow_exclusion=chosen.allow_exclusion, jobs=workers)
    if work.seconds_estimate > max_seconds:
        told = f"{work.designs:,} designs would take about {work.seconds_estimate:,.0f} s, {max_seconds:,.0f} s are allowed"
        raise DesignError(f"the exact search is too large: {told}. Lower max_stages, raise max_seconds, or use search='evolve'")
    exact = enumerate_front(
        _set_bits(bench, n, threshold),
        n,
        max_stages=_stages(chosen),
        allow_exclusion=chosen.allow_exclusion,
        pinned=sum(1 << position for position in chosen.pinned),
        jobs=workers,
        ties=ties,
        max_designs=max_designs,
        max_seconds=max_seconds,
        on_progress=on_progress,
    )
    population, counts = _listed(exact, chosen, bench, threshold)
    front = bench.front(bench.designs(population, counts, threshold))
    return Outcome(front, "exhaustive", "complete", exact.designs, bench.bits.fits)


def run_search(
    problem: Problem,
    settings: Settings | None = None,
    *,
    method: Method = "auto",
    seed: int = 0,
    jobs: int | None = None,
    workbench: Workbench | None = None,
    threshold: int = 0,
) -> Outcome:
    """Search designs, exactly where that is affordable.

    Parameters
    ----------
    method
        "evolve", "exhaustive", or "auto": exact if it is estimated to take under a minute, else genetic.
    problem, settings, seed, jobs, workbench, threshold
        As in `run_evolve`.
    """
    if method not in ("auto", "evolve", "exhaustive"):
        raise DesignError(f"search is {method!r}: 'auto', 'evolve' or 'exhaustive' is due")
    bench = workbench or Workbench(problem, jobs=worker_count(jobs))
    if method == "exhaustive" or (method == "auto" and is_affordable(problem, settings or Settings(), worker_count(jobs))):
        return run_exhaustive(problem, settings, jobs=jobs, workbench=bench, threshold=threshold)
    return run_evolve(problem, settings, seed=seed, jobs=jobs, workbench=bench, threshold=threshold)


def is_affordable(problem: Problem, settings: Settings, jobs: int) -> bool:
    """Return whether "auto" searches this problem exactly: few features, and an estimate of at most a minute."""
    n = len(problem.names)
    # Other classifiers are fitted one by one, each far dearer than a logistic regression.
    if n > _AFFORDABLE_FEATURES or problem.settings.classifier is not None:
        return False
    chosen = settings.resolved(n)
    work = estimate(n, _stages(chosen), len(problem.validation), allow_exclusion=chosen.allow_exclusion, jobs=jobs)
    return work.seconds_estimate <= _AFFORDABLE_S


def _stages(settings: Settings) -> int:
    return settings.max_stages or 1


def worker_count(jobs: object) -> int:
    """Return a number of threads; None stands for all cores."""
    if jobs is None:
        return os.cpu_count() or 1
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise DesignError(f"jobs is {jobs!r}: a whole number from 1, or None for all cores, is due")
    return jobs


def _set_bits(bench: Workbench, n: int, threshold: int) -> SetBits:
    """Fit every feature set and lay the bits out by mask."""
    masks = np.arange(1, 2**n)
    sets = ((masks[:, None] >> np.arange(n)) & 1).astype(np.bool_)
    rows = bench.bits.rows(sets)
    empty = np.zeros((1, bench.bits.words), dtype=np.uint64)
    confident = np.concatenate([empty, bench.bits.confident(threshold)[rows]])
    right = np.concatenate([empty, bench.bits.right(threshold)[rows]])
    cost = np.concatenate([[0], bench.units.cost(sets)])
    return SetBits(confident, right, cost, rows=bench.bits.items)


def _listed(exact: ExactFront, settings: Settings, bench: Workbench, threshold: int) -> tuple[NDArray[np.int8], list[int]]:
    """Return the designs of the exact front that satisfy the constraints, with their ties."""
    offset = bench.evaluator(threshold).offset
    objectives = Objectives(exact.accepted, exact.right, exact.cost, exact.rows, offset, bench.units.scale)
    kept = np.flatnonzero(violations(objectives, settings.constraints) == 0)
    if exact.tied is None:
        return exact.chromosomes[kept], exact.ties[kept].tolist()
    tied = [exact.tied[index] for index in kept.tolist()]
    counts = [len(designs) for designs in tied for _ in range(len(designs))]
    return (np.concatenate(tied) if tied else exact.chromosomes[:0]), counts
