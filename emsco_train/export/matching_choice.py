"""The choice of a design that matches everything at once: no less right, and no less often, than one stage of all features.

How much can be saved without losing anything? Floors cannot say: the figures of everything at once are as uncertain as those
of a design, and the cheapest design above them is the luckiest. But both decide the same rows, and most of these alike. So their
differences are compared row by row: what both owe to the rows is in neither. A design matches if it is at least as good by
one-sided bounds on the mean of the differences, and the cheapest that does is taken; at worst, that is everything at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.data.problem import Problem
from emsco_train.designs.design import Design
from emsco_train.designs.effective_size import mean_error
from emsco_train.designs.front import Front
from emsco_train.designs.selection import MatchEverything
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.ladder import ladder_designs
from emsco_train.search.other_folds import make_design_workbenches
from emsco_train.search.row_outcomes import collect_outcomes
from emsco_train.search.scoring.objectives import Objectives

__all__ = ["MatchingDesign", "find_matching_design"]

# Cells of designs and rows that are held at a time.
_MAX_CELLS = 2**23


@dataclass(frozen=True, slots=True)
class MatchingDesign:
    """The cheapest design that matches everything at once, which is the second one."""

    design: Design
    everything: Design

    def describe(self, split: str) -> str:
        """Return why the design was chosen; `split` names the rows that were compared."""
        if self.design is self.everything:
            return f"nothing cheaper matches everything at once on {split} rows, row by row"
        share = 100 * self.design.cost / self.everything.cost
        return f"the cheapest that matches everything at once on {split} rows, row by row, for {share:.3g} % of its cost"


def find_matching_design(
    problem: Problem, front: Front, match: MatchEverything, *, jobs: int = 1, fitters: ProblemFitters | None = None
) -> MatchingDesign:
    """Return the cheapest design, of those of a front at all thresholds of the ladder, that matches everything at once.

    That is one stage of all features at the problem's thresholds, of the kind that the front was upgraded to if it was.
    `fitters` are those of the problem, if they were made before.
    """
    made = fitters or ProblemFitters(problem)
    everything = _measure_everything(problem, front, jobs, made)

    def is_hopeful(objectives: Objectives) -> Mask:
        # By the figures, which bounds are never better than.
        no_worse = (objectives.coverage >= everything.coverage) & (objectives.accuracy >= everything.accuracy)
        return np.asarray(no_worse & (objectives.mean_cost < everything.cost))

    found = itertools.chain(front, ladder_designs(problem, front, is_hopeful, jobs=jobs, fitters=made))
    cheaper = [
        design
        for design in found
        if design.cost < everything.cost and design.coverage >= everything.coverage and design.accuracy >= everything.accuracy
    ]
    cheaper.sort(key=lambda design: (design.cost, -design.accuracy, -design.coverage, design.id))
    deviations = 0.0 if match.sure is None else NormalDist().inv_cdf(match.sure)
    step = max(1, _MAX_CELLS // len(problem.validation) - 1)
    for start in range(0, len(cheaper), step):
        part = cheaper[start : start + step]
        matching = _match(problem, everything, part, deviations, jobs, made)
        if matching:
            return MatchingDesign(matching[0], everything)
    return MatchingDesign(everything, everything)


def _measure_everything(problem: Problem, front: Front, jobs: int, fitters: ProblemFitters) -> Design:
    upgrade = next((design.upgrade for design in front if design.upgrade is not None), None)
    outline = Design.of(
        (0,) * len(problem.names), problem.names, problem.thresholds, coverage=0.0, accuracy=0.0, cost=0.0, upgrade=upgrade
    )
    [bench] = make_design_workbenches([outline], jobs, fitters)
    return bench.designs(np.zeros((1, len(problem.names)), dtype=np.int8), [1])[0]


def _match(
    problem: Problem, everything: Design, designs: Sequence[Design], deviations: float, jobs: int, fitters: ProblemFitters
) -> list[Design]:
    """Return those designs whose differences from everything at once are, by bounds at so many deviations, not below 0."""
    outcomes = collect_outcomes([everything, *designs], jobs, fitters)
    rows = problem.validation
    group = np.arange(len(rows)) if rows.groups is None else np.unique(rows.groups, return_inverse=True)[1]
    weight = np.ones(len(rows)) if rows.weights is None else rows.weights
    # What an answer is worth where those of everything at once are worth nothing on average: right ones more, wrong ones less.
    value = outcomes.right - everything.accuracy * outcomes.accepted
    return [
        design
        for design, gained, answered in zip(
            designs, value[1:] - value[0], outcomes.accepted[1:] - outcomes.accepted[0], strict=True
        )
        if all(_is_at_least_zero(differences, group, weight, deviations) for differences in (gained, answered))
    ]


def _is_at_least_zero(differences: Floats, group: Ints, weight: Floats, deviations: float) -> bool:
    """Return whether the mean of some differences is at least 0, by a bound so many standard deviations below it."""
    mean = float((weight * differences).sum()) / float(weight.sum())
    return mean >= deviations * mean_error(differences, group, weight)
