"""`TwoStage`: a cascade of two models in the manner of Willump (Kraft et al., MLSys 2020).

A small model on the features with the largest importance for their price answers the rows that it is sure of; the others go on to
the model of all features. How many features the small one gets, and how sure it has to be, is chosen so that a row costs least on
average while the accuracy of all answers stays within `tolerance` of the full model's, on validation rows.

Willump answers every row. Here, what no stage is confident about by the problem's thresholds is rejected, so that it can be
compared at equal coverage; a row leaves at the first stage if it reaches both levels. The importance of a feature is what
shuffling it adds to the log loss on validation rows, and both models are boosted trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.support.arrays import Floats
from emsco_train.baselines.bill import Bill
from emsco_train.baselines.method import check_problem
from emsco_train.data.problem import Problem
from emsco_train.models.evaluation import run_stages
from emsco_train.models.fitted_set import FittedSet, SetFitter
from emsco_train.models.importance import measure_importance

__all__ = ["FittedTwoStage", "TwoStage"]

_SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_LEVELS = tuple(np.round(np.arange(0.5, 1.0, 0.02), 2).tolist())
_LEAST_PRICE = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class FittedTwoStage:
    """Two fitted sets, what a row pays that leaves at each, and the confidence that the first needs at least."""

    problem: Problem
    stages: tuple[FittedSet, ...]
    costs: tuple[float, ...]
    level: float

    def decide(self, codes: Floats, thresholds: Sequence[float]) -> Bill:
        """Let rows leave at the first stage that is sure enough."""
        first = [max(self.level, threshold) for threshold in thresholds]
        levels = [thresholds] if len(self.stages) == 1 else [first, thresholds]
        decisions = [
            fitted.decide_rows(codes[:, fitted.positions], level) for fitted, level in zip(self.stages, levels, strict=True)
        ]
        found = run_stages(decisions, self.costs)
        return Bill(found.label, found.cost, self.problem.labels)


@dataclass(frozen=True, slots=True)
class TwoStage:
    """A small model, then the full one.

    Parameters
    ----------
    tolerance
        How much accuracy of all answers may be lost against the full model.
    shares
        What the small model may cost, as shares of the cost of all features, to choose from.
    """

    tolerance: float = 0.001
    shares: tuple[float, ...] = _SHARES

    def fit(self, problem: Problem) -> FittedTwoStage:
        """Fit the full model and small ones, and choose."""
        check_problem(problem)
        boosted = problem.upgraded("boosted")
        fitter = SetFitter.of(boosted)
        full = fitter.fit(problem.names)
        validation = boosted.validation
        matrix = full.probabilities(validation.codes[:, full.positions])
        floor = float((matrix.argmax(axis=1) == validation.target).mean()) - self.tolerance
        best = FittedTwoStage(problem, (full,), (problem.full_cost,), 0.0)
        best_cost = problem.full_cost
        rng = np.random.default_rng(problem.settings.seed)
        for names in _cheap_sets(problem, measure_importance(full, validation, rng), self.shares):
            small, cost = fitter.fit(names), problem.meter.cost(names)
            scores = small.probabilities(validation.codes[:, small.positions])
            for level in _LEVELS:
                leaves = scores.max(axis=1) >= level
                right = np.where(leaves, scores.argmax(axis=1), matrix.argmax(axis=1)) == validation.target
                mean = cost + float((~leaves).mean()) * (problem.full_cost - cost)
                if right.mean() >= floor and mean < best_cost:
                    best = FittedTwoStage(problem, (small, full), (cost, problem.full_cost), level)
                    best_cost = mean
        return best


def _cheap_sets(problem: Problem, importance: Floats, shares: Sequence[float]) -> Iterator[tuple[str, ...]]:
    """Yield the features with the largest importance for their price that each share of the full cost buys."""
    price = np.array([problem.meter.cost([name]) for name in problem.names])
    order = np.argsort(-importance / np.maximum(price, _LEAST_PRICE * problem.full_cost), kind="stable")
    seen: set[tuple[str, ...]] = set()
    for share in shares:
        chosen: list[str] = []
        for position in order.tolist():
            if problem.meter.cost([*chosen, problem.names[position]]) <= share * problem.full_cost:
                chosen.append(problem.names[position])
        if chosen and tuple(chosen) not in seen:
            seen.add(tuple(chosen))
            yield tuple(chosen)
