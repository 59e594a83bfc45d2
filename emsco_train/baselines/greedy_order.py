"""Greedy orders of features by gain per cost: an anytime cascade in the manner of SpeedBoost, and fixed sets within a budget.

The order is that of `GreedyPaths`: the feature that lowers the log loss of a logistic regression most for its price comes next. A
group of features that share a price may come as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from emsco_runtime.support.arrays import Mask
from emsco_train.baselines.fitted import FittedCascade
from emsco_train.baselines.method import check_problem, choose_by_validation
from emsco_train.costs.units import CostUnits
from emsco_train.data.problem import Problem
from emsco_train.data.stage_settings import StageSettings
from emsco_train.errors import DesignError
from emsco_train.models.cascade_model import CascadeFitter
from emsco_train.models.stage_model import StageFitter
from emsco_train.search.greedy import GreedyPaths, PathRule
from emsco_train.support.numbers import is_number

__all__ = ["GreedyOrder", "StaticSelection", "order_by_gain", "select_within"]


@dataclass(frozen=True, slots=True)
class GreedyOrder:
    """A stage for each step of the greedy order, up to a last one that validation rows choose.

    SpeedBoost (Grubb and Bagnell 2012) adds the weak learner with the largest gain per cost and can be stopped at any time; here
    the learners are logistic regressions on all features so far, a row stops once its stage is confident, and what the last stage
    does not accept is rejected.
    """

    def fit(self, problem: Problem) -> FittedCascade:
        """Fit cascades of 1, 2, 4, ... steps and of all, and choose one."""
        check_problem(problem)
        steps, fitter = order_by_gain(problem), CascadeFitter.of(problem)
        lengths = sorted({*(2**power for power in range(len(steps).bit_length())), len(steps)})
        return choose_by_validation(problem, (FittedCascade.of(problem, steps[:length], fitter) for length in lengths))


@dataclass(frozen=True, slots=True)
class StaticSelection:
    """One model on one set of features that costs at most `budget`, the same for all rows, with reject."""

    budget: float

    def __post_init__(self) -> None:
        """Check the budget."""
        if not is_number(self.budget) or self.budget <= 0:
            raise DesignError(f"budget is {self.budget!r}: expected a finite number above 0")

    def fit(self, problem: Problem) -> FittedCascade:
        """Take features in the greedy order, leaving out those that the budget has no room for."""
        check_problem(problem)
        return FittedCascade.of(problem, [select_within(problem, self.budget)])


def order_by_gain(problem: Problem) -> list[tuple[str, ...]]:
    """Return the features in the greedy order, step by step."""
    steps, before = [], np.zeros(len(problem.names), dtype=np.bool_)
    for present in _greedy_sets(problem):
        added = present & ~before
        steps.append(tuple(name for name, taken in zip(problem.names, added.tolist(), strict=True) if taken))
        before = present
    return steps


def select_within(problem: Problem, budget: float) -> list[str]:
    """Return the features of the greedy order that fit into a budget, one after the other."""
    chosen: list[str] = []
    for step in order_by_gain(problem):
        if problem.meter.cost([*chosen, *step]) <= budget:
            chosen.extend(step)
    if not chosen:
        least = min(problem.meter.cost([name]) for name in problem.names)
        raise DesignError(f"a budget of {budget:g} buys no step of the greedy order, and the cheapest feature costs {least:g}")
    return chosen


def _greedy_sets(problem: Problem) -> Iterator[Mask]:
    rows, labels = problem.train, len(problem.labels)
    settings = problem.settings if problem.settings.is_logistic else StageSettings()
    fitter = StageFitter(rows.encoded, rows.target, labels, None, settings, rows.encoder.one_hot_groups)
    paths = GreedyPaths.of(problem, CostUnits.of(problem.meter, problem.names), fitter)
    yield from paths.walk(np.zeros(len(problem.names), dtype=np.bool_), [PathRule(None, 1.0)])
