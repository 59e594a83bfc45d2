"""The exact search of a problem: whether it is affordable, the fits of all feature sets, and every design over their bits.

There is no partial result: designs that were not yet visited may dominate those that were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.bundle.summary import pluralize
from emsco_train.data.problem import Problem
from emsco_train.errors import DesignError
from emsco_train.search.exact.bit_counting import MAX_ENUMERATED_ROWS
from emsco_train.search.exact.set_bits import SetBits
from emsco_train.search.exact.workload import Workload, estimate_workload
from emsco_train.search.genetic.pareto import violations
from emsco_train.search.pace import AdaptiveBatches, OnStep, Step, TimeLimit
from emsco_train.search.scoring.objectives import Objectives
from emsco_train.search.settings import Settings
from emsco_train.search.workbench import Workbench

if TYPE_CHECKING:
    from emsco_train.search.exact.exact_front import EnumerationProgress, ExactFront

__all__ = ["MAX_SECONDS", "ExactLimits", "ExactResult", "is_affordable", "search_exactly"]

# "auto" searches exactly what is estimated to take no longer than this on one core, and has no more features.
_AFFORDABLE_S = 60.0
_AFFORDABLE_FEATURES = 14
# Without a limit of the user's, an exact search is estimated to take at most this.
MAX_SECONDS = 3600.0
# Memory of bits and tables.
_MAX_BYTES = 2**30
# What a fit takes on one core of a small server: at least, and for each train row and column; with more than two labels, as
# many times more as a third of their number squared.
_PER_FIT_S, _PER_CELL_S = 5e-5, 2.5e-8


@dataclass(frozen=True, slots=True)
class ExactLimits:
    """How an exact search is bounded.

    Parameters
    ----------
    ties, max_designs
        As in `run_exhaustive`.
    seconds
        Most that it may be estimated to take.
    jobs
        Threads.
    """

    ties: Literal["count", "all"] = "count"
    max_designs: int = 100_000
    seconds: float = MAX_SECONDS
    jobs: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class ExactResult:
    """The designs of an exact front.

    Parameters
    ----------
    population
        Their chromosomes; those that satisfy the constraints.
    ties
        How many designs are tied with each, itself included.
    designs
        Number of designs in the space.
    """

    population: NDArray[np.int8]
    ties: list[int]
    designs: int


def search_exactly(
    bench: Workbench, settings: Settings, threshold: int, limits: ExactLimits, *, limit: TimeLimit, on_progress: OnStep | None
) -> ExactResult:
    """Search every design of a workbench's problem; refuse what is too large before 2**n fits are made.

    Parameters
    ----------
    bench, threshold
        The workbench, and at which of its thresholds.
    settings
        Of which stages, exclusion, pins and constraints count.
    limits
        See there.
    limit
        What takes longer ends with an error.
    on_progress
        Told about fits and designs, or None.

    Raises
    ------
    DesignError
        If the search is too large, or out of time.
    """
    n = len(bench.problem.names)
    chosen = settings.resolved(n)
    jobs = _affordable_jobs(bench.problem, chosen, limits.jobs)
    work = _estimate_work(bench.problem, chosen, max(jobs, 1))
    if jobs == 0:
        rows = pluralize(len(bench.problem.validation), "validation row")
        detail = f"{rows} would take {work.bytes / 2**20:,.0f} MiB, {_MAX_BYTES / 2**20:,.0f} MiB are allowed"
        remedy = f"Search on a sample of fewer than {MAX_ENUMERATED_ROWS:,} rows (max_search_rows), or use `search='evolve'`"
        raise DesignError(f"the exact search is too large: {detail}. {remedy}")
    if work.seconds_estimate > limits.seconds:
        designs = pluralize(work.designs, "design")
        detail = f"{designs} would take about {work.seconds_estimate:,.3g} s, {limits.seconds:,.3g} s are allowed"
        longer = "max_seconds" if limit.seconds is None else "time_limit"
        raise DesignError(f"the exact search is too large: {detail}. Lower max_stages, raise {longer}, or use `search='evolve'`")
    from emsco_train.search.exact.exact_front import enumerate_front  # noqa: PLC0415 - loads compiled code that a genetic search never needs

    exact = enumerate_front(
        _collect_set_bits(bench, n, threshold, limit, on_progress),
        n,
        max_stages=_max_stages(chosen),
        allow_exclusion=chosen.allow_exclusion,
        pinned=sum(1 << position for position in chosen.pinned),
        jobs=jobs,
        ties=limits.ties,
        max_designs=limits.max_designs,
        max_seconds=limits.seconds,
        max_bytes=_MAX_BYTES,
        on_progress=_progress_callback(limit, on_progress),
    )
    population, ties = _feasible_designs(exact, chosen, bench, threshold)
    return ExactResult(population, ties, exact.designs)


def is_affordable(problem: Problem, settings: Settings, time_limit: float | None = None) -> bool:
    """Return whether "auto" searches this problem exactly: few features, and an estimate within a minute and the limit.

    Parameters
    ----------
    problem
        The problem.
    settings
        Of which stages and exclusion count.
    time_limit
        Seconds that the search may take; None for no limit.
    """
    n = len(problem.names)
    # Other classifiers are fitted one by one, each far dearer than a logistic regression.
    if n > _AFFORDABLE_FEATURES or problem.settings.classifier is not None:
        return False
    chosen = settings.resolved(n)
    # For one core whatever the jobs, so that these do not change which search is made, and so the front.
    if _affordable_jobs(problem, chosen, 1) == 0:
        return False
    allowed = _AFFORDABLE_S if time_limit is None else min(_AFFORDABLE_S, time_limit)
    return _estimate_work(problem, chosen, 1).seconds_estimate + _fit_seconds(problem) <= allowed


def _estimate_work(problem: Problem, settings: Settings, jobs: int) -> Workload:
    rows = len(problem.validation)
    return estimate_workload(len(problem.names), _max_stages(settings), rows, allow_exclusion=settings.allow_exclusion, jobs=jobs)


def _affordable_jobs(problem: Problem, settings: Settings, jobs: int) -> int:
    """Return how many of so many threads fit into the memory allowed, each with its table of limits; 0 if not even one does."""
    if len(problem.validation) >= MAX_ENUMERATED_ROWS:
        return 0
    fitting = (count for count in range(jobs, 0, -1) if _estimate_work(problem, settings, count).bytes <= _MAX_BYTES)
    return next(fitting, 0)


def _fit_seconds(problem: Problem) -> float:
    """Return about how long the fits of all feature sets take on one core, where they are logistic regressions."""
    rows, columns = problem.train.encoded.shape
    labels = len(problem.labels)
    per_fit = _PER_FIT_S + rows * columns * _PER_CELL_S * (1.0 if labels == 2 else labels**2 / 3)
    return float(2 ** len(problem.names) * per_fit)


def _max_stages(settings: Settings) -> int:
    return settings.max_stages or 1


def _check_time(limit: TimeLimit, done: str) -> None:
    """Raise when time is over, and say what was done until then."""
    if limit.remaining() == 0.0:
        detail = f"the exact search did not finish within time_limit, {limit.seconds:.3g} s: {done}"
        raise DesignError(f"{detail}. Raise time_limit, lower max_stages, or use `search='evolve'`, which keeps its front so far")


def _collect_set_bits(bench: Workbench, n: int, threshold: int, limit: TimeLimit, on_progress: OnStep | None) -> SetBits:
    """Fit every feature set and lay the bits out by mask."""
    masks = np.arange(1, 2**n)
    sets = ((masks[:, None] >> np.arange(n)) & 1).astype(np.bool_)
    for part, _ in AdaptiveBatches().run(len(sets), lambda part: bench.bits.locate(sets[part])):
        if on_progress is not None:
            on_progress(Step("fits", part.stop, len(sets)))
        _check_time(limit, f"{part.stop:,} of {pluralize(len(sets), 'feature set')} were fitted")
    rows = bench.bits.locate(sets)
    empty = np.zeros((1, bench.bits.words), dtype=np.uint64)
    confident = np.concatenate([empty, bench.bits.confident(threshold)[rows]])
    right = np.concatenate([empty, bench.bits.right(threshold)[rows]])
    cost = np.concatenate([[0], bench.units.cost(sets)])
    return SetBits(confident, right, cost, rows=bench.bits.items)


def _progress_callback(limit: TimeLimit, on_progress: OnStep | None) -> Callable[[EnumerationProgress], None]:
    """Return what the enumeration calls several times a second: what this raises ends it."""

    def report(progress: EnumerationProgress) -> None:
        if on_progress is not None:
            on_progress(Step("designs", progress.done, progress.designs, progress.vectors))
        if progress.done < progress.designs:
            _check_time(limit, f"{progress.done:,} of {pluralize(progress.designs, 'design')} were visited")

    return report


def _feasible_designs(
    exact: ExactFront, settings: Settings, bench: Workbench, threshold: int
) -> tuple[NDArray[np.int8], list[int]]:
    """Return the designs of the exact front that satisfy the constraints, with their ties."""
    offset = bench.evaluator(threshold).offset
    objectives = Objectives(exact.accepted, exact.right, exact.cost, exact.rows, offset, bench.units.scale)
    kept = np.flatnonzero(violations(objectives, settings.constraints) == 0)
    if exact.tied is None:
        return exact.chromosomes[kept], exact.ties[kept].tolist()
    tied = [exact.tied[index] for index in kept.tolist()]
    counts = [len(designs) for designs in tied for _ in range(len(designs))]
    return (np.concatenate(tied) if tied else exact.chromosomes[:0]), counts
