"""Evaluating a cascade the training way: whole columns at a time, every stage for every row.

Logistic stages are scored by the fitted model itself, so that comparing with the runtime compares two computations. Other
classifiers are scored through their graph (contract: training scores through the same graph), row by row. A row so near a
threshold or a tie that the last bits decide is settled by the graph's single-row score, which is the reference everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emsco_runtime._arrays import Floats, Ints, Mask
from emsco_runtime._rule import accept, accept_rows
from emsco_runtime._scorer import Scorer
from emsco_runtime.manifest import Expected, StageExits
from emsco_runtime.summary import summarise_costs
from emsco_train.logistic.fits import LogisticModel
from emsco_train.stages.cascade_model import CascadeModel

__all__ = ["REJECTED", "Evaluation", "evaluate"]

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
    scorer = model.scorer()
    rows = len(codes)
    label = np.full(rows, REJECTED, dtype=np.intp)
    stage = np.full(rows, len(model.stages), dtype=np.intp)
    waiting: Mask = np.ones(rows, dtype=np.bool_)
    matrices: list[Floats] = []
    for index in range(len(model.stages)):
        matrix = _score(model, scorer, index, codes)
        top, confident = _settled(model, scorer, index, codes, matrix)
        leaving = waiting & confident
        label[leaving] = top[leaving]
        stage[leaving] = index + 1
        waiting &= ~confident
        matrices.append(matrix)
    cost = np.array(model.stage_costs())[stage - 1]
    return Evaluation(label, stage, cost, tuple(matrices))


def _score(model: CascadeModel, scorer: Scorer, index: int, codes: Floats) -> Floats:
    stage = model.stages[index]
    part = codes[:, : len(stage.inputs)]
    if isinstance(stage.model, LogisticModel):
        return stage.model.probabilities(model.encoder.select(stage.inputs).transform(part))
    return np.array([scorer.score(index, row) for row in part.tolist()])


def _settled(model: CascadeModel, scorer: Scorer, index: int, codes: Floats, matrix: Floats) -> tuple[Ints, Mask]:
    """Return top label and acceptance per row, by the reference score where it is close."""
    top, _, confident, near = accept_rows(matrix, model.thresholds)
    width = len(model.stages[index].inputs)
    for row in np.flatnonzero(near).tolist():
        scores = scorer.score(index, codes[row, :width].tolist())
        top[row], confident[row] = accept(scores, model.thresholds)
    return top, confident
