"""`CostOrdered`, the paper's CO-T: one stage for each class of prices, the cheap ones first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emsco_train.baselines.fitted import FittedCascade
from emsco_train.baselines.method import check_problem
from emsco_train.data.problem import Problem

__all__ = ["CostOrdered", "order_by_cost"]


@dataclass(frozen=True, slots=True)
class CostOrdered:
    """A stage for each price that a feature has, in increasing order; what the last stage does not accept is rejected.

    Where there are more prices than `max_stages`, neighbouring prices share a stage. A feature of cost groups has the price that
    it has alone.
    """

    max_stages: int = 10

    def fit(self, problem: Problem) -> FittedCascade:
        """Fit the stages on the train rows; there is nothing to choose."""
        check_problem(problem)
        return FittedCascade.of(problem, order_by_cost(problem, self.max_stages))


def order_by_cost(problem: Problem, max_stages: int) -> list[list[str]]:
    """Return the features of each stage."""
    price = {name: problem.meter.cost([name]) for name in problem.names}
    different = sorted(set(price.values()))
    classes = np.array_split(np.array(different), min(max_stages, len(different)))
    return [[name for name in problem.names if price[name] in set(each.tolist())] for each in classes]
