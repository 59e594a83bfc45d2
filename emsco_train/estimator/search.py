"""The estimator's search: the two searches with progress told, and a front found on a sample measured on all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np

from emsco_train.data.problem import Problem
from emsco_train.errors import DesignError, SelectionError
from emsco_train.exact.front import Progress
from emsco_train.genetic.evolution import Generation
from emsco_train.genetic.pareto import non_dominated, representatives, violations
from emsco_train.searches import Method, Outcome, is_affordable, run_evolve, run_exhaustive, worker_count
from emsco_train.settings import Settings
from emsco_train.workbench import Workbench

__all__ = ["SearchPlan", "pinned_positions", "search_by_plan"]

_MOST_SECONDS = 3600.0
_ALL_CORES = -1


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """How to search.

    Parameters
    ----------
    method
        "auto", "evolve" or "exhaustive".
    settings
        Of the searches.
    seed
        Of the genetic algorithm and of the sample.
    jobs
        Threads; None or -1 for all cores.
    time_limit
        Seconds, or None: the genetic algorithm stops after them, the exact search is not begun if it would take longer.
    max_rows
        Most train rows, and most validation rows, to search on; None for all.
    verbose
        Print progress if above 0.
    """

    method: Method
    settings: Settings
    seed: int
    jobs: int | None
    time_limit: float | None
    max_rows: int | None
    verbose: int


def search_by_plan(problem: Problem, plan: SearchPlan) -> Outcome:
    """Search a problem; what was found on a sample of its rows is fitted and measured again on all of them.

    Parameters
    ----------
    problem
        The whole problem.
    plan
        How to search.

    Raises
    ------
    SelectionError
        If no design that was found satisfies the constraints.
    """
    jobs = worker_count(None if plan.jobs == _ALL_CORES else plan.jobs)
    part = problem if plan.max_rows is None else problem.sampled(plan.max_rows, plan.seed)
    outcome = _searched(part, plan, jobs)
    if part is not problem:
        outcome = _measured(outcome, Workbench(problem, jobs=jobs), plan.settings)
    if not len(outcome.front):
        limits = plan.settings.constraints
        told = f"max_cost={limits.max_cost}, min_coverage={limits.min_coverage}, min_accuracy={limits.min_accuracy}"
        raise SelectionError(f"no design that was found satisfies {told}: relax one of them, or search longer")
    return outcome


def pinned_positions(pinned: object, names: Sequence[str]) -> tuple[int, ...]:
    """Return the positions of features given by name or by position.

    Parameters
    ----------
    pinned
        A sequence of names, positions, or both.
    names
        The features in column order.

    Examples
    --------
    >>> pinned_positions(["size", 0], ["age", "size"])
    (1, 0)
    """
    if isinstance(pinned, str) or not hasattr(pinned, "__iter__"):
        raise DesignError(f"pinned is {pinned!r}: a list of feature names or positions is due")
    found = []
    for one in pinned:
        if isinstance(one, Integral) and not isinstance(one, bool):
            found.append(int(one))
        elif one in names:
            found.append(list(names).index(one))
        else:
            raise DesignError(f"pinned holds {one!r}, which is no feature (features: {', '.join(names)})")
    return tuple(found)


def _searched(problem: Problem, plan: SearchPlan, jobs: int) -> Outcome:
    if plan.method not in ("auto", "evolve", "exhaustive"):
        raise DesignError(f"search is {plan.method!r}: 'auto', 'evolve' or 'exhaustive' is due")
    if plan.method == "exhaustive" or (plan.method == "auto" and is_affordable(problem, plan.settings, jobs)):
        told = _ProgressLines() if plan.verbose > 0 else None
        seconds = _MOST_SECONDS if plan.time_limit is None else plan.time_limit
        return run_exhaustive(problem, plan.settings, max_seconds=seconds, jobs=jobs, on_progress=told)
    tell = _tell_generation if plan.verbose > 0 else None
    return run_evolve(problem, plan.settings, seed=plan.seed, jobs=jobs, on_generation=tell, time_limit=plan.time_limit)


def _measured(outcome: Outcome, bench: Workbench, settings: Settings) -> Outcome:
    """Fit and measure the designs of a front on all rows; keep those that are feasible and that no other dominates."""
    population = np.array([design.chromosome for design in outcome.front], dtype=np.int8)
    if len(population):
        population = population[np.lexsort(population.T[::-1])]
        objectives = bench.evaluator()(population)
        kept = np.flatnonzero(violations(objectives, settings.constraints) == 0)
        kept = kept[non_dominated(objectives.take(kept))] if len(kept) else kept
        # How many designs of the whole search are tied on all rows is not known; among these, it is.
        stand, ties = representatives(population, objectives, kept) if len(kept) else (kept, kept)
        front = bench.front(bench.designs(population[stand], ties.tolist()))
        outcome = replace(outcome, front=front, fits=outcome.fits + bench.bits.fits)
    return outcome


def _tell_generation(generation: Generation) -> None:
    told = f"generation {generation.number}: {generation.front} designs on the front, best {generation.performance:.4f}"
    print(f"{told}, {generation.evaluations} evaluated, {generation.elapsed_s:.1f} s")  # noqa: T201 - verbose asks for it


class _ProgressLines:
    """One line for each tenth of an exact search."""

    def __init__(self) -> None:
        self._tenths = -1

    def __call__(self, progress: Progress) -> None:
        tenths = 10 * progress.done // max(progress.designs, 1)
        if tenths > self._tenths:
            self._tenths = tenths
            told = f"exact search: {10 * tenths} % of {progress.designs} designs, {progress.vectors} on the front so far"
            print(told)  # noqa: T201 - verbose asks for it
