"""The estimator's search: what its parameters ask for, progress told, and a front found on a sample measured on all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from emsco_train.data.problem import Problem
from emsco_train.errors import SelectionError
from emsco_train.search.progress import Progress
from emsco_train.search.remeasurement import remeasure_front
from emsco_train.search.searches import Method, Outcome, run_search, worker_count
from emsco_train.search.settings import Constraints, Settings, pinned_positions
from emsco_train.search.workbench import Workbench
from emsco_train.support.numbers import check_time_limit

__all__ = ["SearchPlan", "make_search_plan", "run_search_plan"]

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
        Seconds, or None: the genetic algorithm stops after them, the exact search is refused if it would take longer.
    max_rows
        Most train rows, and most validation rows, to search on; None for all.
    verbose
        Show progress on standard error if above 0.
    """

    method: Method
    settings: Settings
    seed: int
    jobs: int | None
    time_limit: float | None
    max_rows: int | None
    verbose: int


def make_search_plan(model: Any, names: Sequence[str], seed: int) -> SearchPlan:
    """Return what an estimator's parameters ask for, checked.

    Parameters
    ----------
    model
        The `EmscoClassifier`.
    names
        The features in column order.
    seed
        As its random state gave it.
    """
    settings = Settings(
        max_stages=model.max_stages,
        population=model.population,
        generations=model.generations,
        patience=model.patience,
        mutation=model.mutation,
        crossover=model.crossover,
        elite=model.elite,
        beta=model.beta,
        growth=model.growth,
        allow_exclusion=model.allow_exclusion,
        pinned=pinned_positions(model.pinned, names),
        constraints=Constraints(max_cost=model.max_cost, min_coverage=model.min_coverage, min_accuracy=model.min_accuracy),
        polish=model.polish,
    )
    return SearchPlan(
        method=model.search,
        settings=settings,
        seed=seed,
        jobs=model.n_jobs,
        time_limit=model.time_limit,
        max_rows=model.max_search_rows,
        verbose=model.verbose,
    )


def run_search_plan(problem: Problem, plan: SearchPlan) -> Outcome:
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
    outcome = _search_with_progress(part, plan, jobs)
    if part is not problem:
        outcome = remeasure_front(outcome, Workbench(problem, jobs=jobs), plan.settings)
    if not len(outcome.front):
        limits = plan.settings.constraints
        detail = f"max_cost={limits.max_cost}, min_coverage={limits.min_coverage}, min_accuracy={limits.min_accuracy}"
        raise SelectionError(f"no design that was found satisfies {detail}: relax one of them, or search longer")
    return outcome


def _search_with_progress(problem: Problem, plan: SearchPlan, jobs: int) -> Outcome:
    if plan.verbose <= 0:
        return _run_search(problem, plan, jobs, None)
    with Progress(time_limit=check_time_limit(plan.time_limit)) as progress:
        outcome = _run_search(problem, plan, jobs, progress)
        progress.ended(outcome)
        return outcome


def _run_search(problem: Problem, plan: SearchPlan, jobs: int, progress: Progress | None) -> Outcome:
    return run_search(
        problem,
        plan.settings,
        method=plan.method,
        seed=plan.seed,
        jobs=jobs,
        on_generation=None if progress is None else progress.on_generation,
        on_progress=None if progress is None else progress.on_progress,
        time_limit=plan.time_limit,
    )
