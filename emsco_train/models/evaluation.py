"""Evaluating a cascade the training way: whole columns at a time, every stage for every row.

What each stage says is told by its `FittedSet`: a row so near a threshold or a tie that the last bits decide is settled by the
single-row score of the graph, which is the reference everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.bundle.manifest import Expected, StageExits
from emsco_runtime.bundle.summary import summarise_costs
from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem
from emsco_train.models.cascade_model import CascadeModel
from emsco_train.models.fitted_set import StageDecisions

__all__ = ["REJECTED", "Evaluation", "evaluate", "evaluate_split", "run_stages"]

REJECTED = -1


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """What a cascade does with each row.

    Parameters
    ----------
    label
        Position of the accepted label; `REJECTED` where there is none.
    stage
        How many stages were scored.
    cost
        The bill.
    probabilities
        One matrix [rows, labels] per stage, for all rows, whether they got there or not.
    """

    label: Ints
    stage: Ints
    cost: Floats
    probabilities: tuple[Floats, ...]

    @property
    def accepted(self) -> Mask:
        """Which rows got a label."""
        return np.asarray(self.label != REJECTED)

    def expected(self, target: Ints, split: str) -> Expected:
        """Return the counts that the manifest carries.

        Parameters
        ----------
        target
            Position of each row's true label; -1 for one that training never saw.
        split
            Name of the rows.
        """
        accepted = self.accepted
        right = accepted & (self.label == target)
        exits = [
            StageExits(accepted=int((accepted & at).sum()), right=int((right & at).sum()))
            for at in (self.stage == number for number in range(1, len(self.probabilities) + 1))
        ]
        return Expected(
            split=split,
            rows=len(self.label),
            accepted=int(accepted.sum()),
            right=int(right.sum()),
            stages=tuple(exits),
            cost=summarise_costs(self.cost.tolist()),
        )


def evaluate(model: CascadeModel, codes: Floats) -> Evaluation:
    """Walk all rows through a cascade.

    Parameters
    ----------
    model
        The fitted design.
    codes
        Encoded rows [rows, features], as `encode_table` gives them for the model's features.
    """
    stages = [
        stage.fitted.decide_rows(codes[:, positions], model.thresholds)
        for stage, positions in zip(model.stages, model.input_positions(), strict=True)
    ]
    return run_stages(stages, model.stage_costs())


def evaluate_split(problem: Problem, model: CascadeModel, split: Split) -> Evaluation:
    """Walk the rows of a split through a cascade of the problem."""
    return evaluate(model, split.codes[:, problem.encoder.positions([feature.name for feature in model.features])])


def run_stages(stages: Sequence[StageDecisions], costs: Sequence[float]) -> Evaluation:
    """Let every row leave at the first stage that is confident about it.

    Parameters
    ----------
    stages
        What each stage of a design does with all rows.
    costs
        The bill of a row that leaves at each stage, or is rejected by the last.
    """
    rows = len(stages[0].label)
    label = np.full(rows, REJECTED, dtype=np.intp)
    stage = np.full(rows, len(stages), dtype=np.intp)
    undecided: Mask = np.ones(rows, dtype=np.bool_)
    for number, decisions in enumerate(stages, start=1):
        leaving = undecided & decisions.confident
        label[leaving] = decisions.label[leaving]
        stage[leaving] = number
        undecided &= ~decisions.confident
    return Evaluation(label, stage, np.array(costs)[stage - 1], tuple(decisions.probabilities for decisions in stages))
