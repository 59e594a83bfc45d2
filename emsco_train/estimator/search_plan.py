"""The estimator's search: what its parameters ask for."""

from __future__ import annotations

from typing import Any

from emsco_train.data.problem import Problem
from emsco_train.errors import SelectionError
from emsco_train.estimator.input_validation import resolve_workers
from emsco_train.search.missed_limits import check_pinned_cost, describe_missed_limits
from emsco_train.search.progress import Progress
from emsco_train.search.search_rows import choose_search_rows
from emsco_train.search.searches import Outcome
from emsco_train.search.settings import Constraints, Settings, limit_stages, pinned_positions
from emsco_train.search.sweep import search_thresholds
from emsco_train.support.numbers import check_time_limit

__all__ = ["search_by_parameters"]


def search_by_parameters(model: Any, problem: Problem, seed: int) -> Outcome:
    """Search a problem as the parameters of an `EmscoClassifier` say; the seed is what its random state gave.

    Raises
    ------
    SelectionError
        If no design that was found satisfies the constraints.
    """
    limits = Constraints(max_cost=model.max_cost, min_coverage=model.min_coverage, min_accuracy=model.min_accuracy)
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
        keep_all=model.keep_all,
        units=model.units,
        pinned=pinned_positions(model.pinned, problem.names),
        constraints=limits,
        objective=model.objective,
        polish=model.polish,
    )
    check_pinned_cost(settings, problem)
    rows = sum(map(len, problem.splits()))
    outcomes = search_thresholds(
        problem,
        None,
        limit_stages(settings, len(problem.names), rows),
        method=model.search,
        seed=seed,
        jobs=resolve_workers(model.n_jobs),
        max_rows=choose_search_rows(problem, model.max_search_rows, model.search),
        time_limit=model.time_limit,
        upgrade=model.upgrade,
        progress=lambda _: Progress(time_limit=check_time_limit(model.time_limit)) if model.verbose > 0 else None,
    )
    outcome = next(outcomes)
    if not len(outcome.front):
        misses = describe_missed_limits(limits, [outcome.missed])
        remedy = "relax one of them" if outcome.stopped == "complete" else "relax one of them, or search longer"
        raise SelectionError(f"no design that was found satisfies the limits: {misses}: {remedy}")
    return outcome
