"""Evaluating a cascade the training way: whole columns at a time, every stage for every row.

Each stage decides by its `FittedSet`: a row so near a threshold or a tie that the last bits decide is settled by the single-row
score of the graph, which is the reference everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.bundle.manifest import Expected, Label, StageExits, WeightedCounts
from emsco_runtime.bundle.summary import summarise_costs
from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.data.label_counts import count_by_label
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem
from emsco_train.data.thresholds import StageThresholds
from emsco_train.models.cascade_model import CascadeFitter, CascadeModel
from emsco_train.models.fitted_set import StageDecisions

__all__ = ["REJECTED", "Evaluation", "evaluate", "evaluate_split", "evaluate_validation", "run_stages"]

REJECTED = -1


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """What a cascade does with each row: position of the accepted label or `REJECTED`, number of stages scored, and cost.

    `probabilities` has one matrix [rows, labels] per stage, for all rows, whether they reach it or not.
    """

    label: Ints
    stage: Ints
    cost: Floats
    probabilities: tuple[Floats, ...]

    @property
    def accepted(self) -> Mask:
        """Which rows got a label."""
        return np.asarray(self.label != REJECTED)

    def expected(self, target: Ints, split: str, units: Ints | None = None, labels: Sequence[Label] = ()) -> Expected:
        """Return the counts of the manifest, for true labels at these positions; -1 is a label that training never saw.

        `units` are how much each row counts, if not all the same, as in `Split.units`. With `labels`, rows are counted by label,
        too.
        """
        accepted = self.accepted
        right = accepted & (self.label == target)
        exits = [np.bincount(self.stage[rows], minlength=len(self.probabilities) + 1)[1:].tolist() for rows in (accepted, right)]
        return Expected(
            split=split,
            rows=len(self.label),
            accepted=int(accepted.sum()),
            right=int(right.sum()),
            stages=tuple(StageExits(accepted=leaving, right=correct) for leaving, correct in zip(*exits, strict=True)),
            cost=summarise_costs(self.cost.tolist()),
            weighted=None if units is None else self.count_units(target, units),
            labels=count_by_label(self.label, target, labels) if labels else (),
        )

    def count_units(self, target: Ints, units: Ints) -> WeightedCounts:
        """Return the counts where each row counts as many units as `units` says."""
        right = self.accepted & (self.label == target)
        total, counted = int(units.sum()), self.cost[units > 0]
        mean_cost = math.fsum((units * self.cost).tolist()) / total
        return WeightedCounts(
            units=total,
            accepted=int(units[self.accepted].sum()),
            right=int(units[right].sum()),
            # Rounding can put the mean of equal numbers a hair outside them.
            mean_cost=min(max(mean_cost, float(counted.min())), float(counted.max())),
        )


def evaluate(model: CascadeModel, codes: Floats) -> Evaluation:
    """Evaluate a fitted design on rows [rows, features], as `encode_table` gives them for the model's features."""
    stages = [
        stage.fitted.decide_rows(codes[:, positions], thresholds)
        for stage, positions, thresholds in zip(model.stages, model.input_positions(), model.stage_thresholds, strict=True)
    ]
    return run_stages(stages, model.stage_costs())


def evaluate_split(problem: Problem, model: CascadeModel, split: Split) -> Evaluation:
    """Evaluate a fitted design of a problem on the rows of a split."""
    return evaluate(model, split.codes[:, problem.encoder.positions([feature.name for feature in model.features])])


def evaluate_validation(
    problem: Problem,
    stages: Sequence[tuple[str, ...]],
    thresholds: StageThresholds,
    fitters: Sequence[CascadeFitter] | None = None,
) -> Evaluation:
    """Evaluate a design on the validation rows, each scored by a model that has not seen it, as the search does.

    `fitters` are those of the problem's parts, if they were made before, as for many designs.
    """
    evaluations = []
    for part, fitter in zip(problem.parts, fitters or CascadeFitter.of_parts(problem), strict=True):
        model = fitter.fit(stages, thresholds)
        evaluations.append(evaluate_split(problem, model, part.scored))
    matrices = zip(*(evaluation.probabilities for evaluation in evaluations), strict=True)
    return Evaluation(
        np.concatenate([evaluation.label for evaluation in evaluations]),
        np.concatenate([evaluation.stage for evaluation in evaluations]),
        np.concatenate([evaluation.cost for evaluation in evaluations]),
        tuple(np.concatenate(stage) for stage in matrices),
    )


def run_stages(stages: Sequence[StageDecisions], costs: Sequence[float]) -> Evaluation:
    """Let every row leave at the first stage that is confident about it; `costs` are those of a row that leaves at each stage."""
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
