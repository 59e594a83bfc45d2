"""What designs do with each validation row: for comparisons row by row, and for choices repeated on drawn rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.arrays import Floats
from emsco_train.designs.design import Design
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.other_folds import make_design_workbenches

__all__ = ["RowOutcomes", "collect_outcomes"]


@dataclass(frozen=True, slots=True, eq=False)
class RowOutcomes:
    """What each design does with each row [designs, rows], as numbers: sums over rows are then matrix products.

    `answer` is the position of the label that the row gets, -1 for none.
    """

    accepted: Floats
    right: Floats
    cost: Floats
    answer: NDArray[np.int16]

    def sums(self, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """Return accepted rows, right ones and cost of each design, on rows that count so much each."""
        return self.accepted @ weights, self.right @ weights, self.cost @ weights


def collect_outcomes(designs: Sequence[Design], jobs: int, fitters: ProblemFitters) -> RowOutcomes:
    """Return what designs do with the validation rows, each scored by models that have not seen it."""
    problem = fitters.problem
    shape = (len(designs), len(problem.validation))
    accepted, right, cost = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    answers, target = np.zeros(shape, dtype=np.int16), problem.validation.target
    for bench in make_design_workbenches(designs, jobs, fitters):
        for place, level in enumerate(bench.thresholds):
            evaluator = bench.evaluator(place)
            kind = (bench.problem.upgrade, level)
            own = [index for index, design in enumerate(designs) if (design.upgrade, design.stage_thresholds) == kind]
            population = np.array([designs[index].chromosome for index in own], dtype=np.int8)
            # Fits all sets at once, which is quicker than one design after the other.
            evaluator.exits(population)
            for index, chromosome in zip(own, population, strict=True):
                exit_stage, answers[index] = evaluator.row_exits(chromosome, target)
                accepted[index], right[index] = exit_stage >= 0, answers[index] == target
                costs = [stage.total for stage in problem.meter.stage_costs(designs[index].stages)]
                # A rejected row, at stage -1, has paid for the last stage.
                cost[index] = np.array(costs)[exit_stage]
    return RowOutcomes(accepted, right, cost, answers)
