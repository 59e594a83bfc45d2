"""The choice of a design that decides as all features at once do, in one stage, in all but few rows.

How much can be saved without losing anything? Floors cannot say: the figures of all features at once are as uncertain as those of
a design, and the cheapest design above them is the luckiest of many. How often the two decide differently is counted without
labels, and so with less luck. Rows that neither answers do not count: where little is answered, any two would agree on most rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.bundle.manifest import Label
from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem
from emsco_train.data.stage_settings import Upgrade
from emsco_train.designs.answer_worth import worth_of_answers
from emsco_train.designs.chromosome import Population
from emsco_train.designs.design import Design
from emsco_train.designs.effective_size import measure_precision
from emsco_train.designs.front import Front
from emsco_train.designs.selection import MatchEverything
from emsco_train.errors import SelectionError
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.completion import completed_populations
from emsco_train.search.ladder import make_designs
from emsco_train.search.other_folds import make_design_workbenches
from emsco_train.search.scoring.objectives import Objectives
from emsco_train.search.workbench import Workbench
from emsco_train.support.binomial import upper_bound

__all__ = ["AllFeaturesBaseline", "MatchingDesign", "evaluate_all_features", "find_matching_design"]

# Designs that differ in more than this many times the share that is allowed are not looked at.
_NEAR = 4.0
# Costs that are closer than this are equal: sums of the same prices may differ in the last digits.
_EQUAL_COST = 1e-9
# An error does not suggest to allow more than this.
_LARGEST_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class MatchingDesign:
    """The cheapest design that matches all features at once, the latter, and the share of answered rows decided differently."""

    design: Design
    everything: Design
    different: float

    def describe(self, match: MatchEverything, split: str) -> str:
        """Return why the design was chosen; `split` names the rows that were compared."""
        whole = self.everything
        figures = f"coverage {whole.coverage:.4g}, accuracy {whole.accuracy:.4g}, cost {whole.cost:.6g}"
        kind = f"{whole.upgrade} stages, " if whole.upgrade else ""
        return (
            f"the cheapest that decides at most {100 * match.share:g} % of the answered items differently from all features "
            f"at once ({kind}threshold {whole.threshold_text}: {figures}); {100 * self.different:.3g} % of the answered {split} "
            f"rows, for {100 * self.design.cost / whole.cost:.3g} % of its cost"
        )


@dataclass(frozen=True, slots=True, eq=False)
class AllFeaturesBaseline:
    """One stage of all features, and the position of the label that each row gets from it; -1 for none."""

    design: Design
    answers: Ints
    rows: Split

    @property
    def answered(self) -> int:
        """Return how many rows it answers, whatever their weights."""
        return int((self.answers >= 0).sum())

    def compare(self, answers: Ints, sure: float | None) -> _Difference:
        """Return how often other answers differ from these, with a bound at the level `sure`."""
        differs, answered = answers != self.answers, (answers >= 0) | (self.answers >= 0)
        weights = np.ones(len(answers)) if self.rows.weights is None else self.rows.weights
        share = float((weights * differs).sum() / (weights * answered).sum())
        bound = share
        if sure is not None:
            # How many rows say as much, where they come in groups or have weights.
            precision = measure_precision(answered, differs, np.zeros(len(differs)), self.rows.groups, self.rows.weights)
            bound = upper_bound(share * precision.accepted, precision.accepted, sure)
        return _Difference(share, bound, *self._find_worst_label(differs, weights))

    def may_match(self, objectives: Objectives, share: float) -> Mask:
        """Return which designs can match at all: cheaper ones whose answers, and right ones, are as many but for the share."""
        own = self.design.counts
        allowed = share * (own.accepted + objectives.accepted)
        apart = [
            np.abs(found - expected) <= allowed
            for found, expected in ((objectives.accepted, own.accepted), (objectives.right, own.right))
        ]
        is_cheaper = objectives.mean_cost < (1.0 - _EQUAL_COST) * self.design.cost
        return np.asarray(np.logical_and.reduce(apart) & is_cheaper)

    def _find_worst_label(self, differs: Mask, weights: Floats) -> tuple[float, int]:
        """Return the largest share that differs of the rows that get one label here, and the label's position.

        One row of a label may always differ.
        """
        answered = self.answers >= 0
        labels, differs, weights = self.answers[answered], differs[answered], weights[answered]
        rows, changed = np.bincount(labels, weights), np.bincount(labels, weights * differs)
        shares = np.divide(changed, rows, out=np.zeros(len(rows)), where=np.bincount(labels, differs) > 1)
        return float(shares.max()), int(shares.argmax())


@dataclass(frozen=True, slots=True)
class _Difference:
    """How often two designs decide differently.

    Parameters
    ----------
    share
        Of the rows that either of them answers.
    bound
        Upper bound of that.
    label_share
        The largest share of the rows that all features at once give one label: a rare label may be given up within a small share
        of all rows.
    label
        The position of that label.
    """

    share: float
    bound: float
    label_share: float
    label: int

    @property
    def largest(self) -> float:
        """Return what must not be more than the share that is allowed."""
        return max(self.bound, self.label_share)

    def describe(self, labels: Sequence[Label], sure: float | None) -> str:
        bound = "" if sure is None else f" (at most {100 * self.bound:.3g} % at level {sure:g})"
        of_label = ""
        if self.label_share > self.bound:
            of_label = f", and in {100 * self.label_share:.3g} % of those that are answered {labels[self.label]!r}"
        return f"{100 * self.share:.3g} % of the answered rows{bound}{of_label}"


def find_matching_design(
    problem: Problem, front: Front, match: MatchEverything, *, jobs: int = 1, fitters: ProblemFitters | None = None
) -> MatchingDesign:
    """Return the cheapest design that matches all features at once, of those of a front, as they are and completed.

    Of equally cheap ones it is the one that differs least. `fitters` are those of the problem, if they were made before.

    Raises
    ------
    SelectionError
        If no design that costs less matches, or if all features at once accept nothing.
    """
    fitters = fitters or ProblemFitters(problem)
    reference = evaluate_all_features(problem, front, jobs=jobs, fitters=fitters)
    everything = reference.design
    if not everything.coverage:
        raise SelectionError(
            f"all features at once accept no row at threshold {everything.threshold_text}, so that there is nothing to match. "
            "Search with a lower threshold, or ask for floors"
        )
    best: _Compared | None = None
    nearest: _Compared | None = None
    for bench, place, population in completed_populations(problem, front, jobs=jobs, fitters=fitters):
        most = reference.design.cost if best is None else best.cost
        for found in _compare(reference, match, bench, place, population, most):
            if found.difference.largest <= match.share and (best is None or found.is_better(best)):
                best = found
            if nearest is None or found.difference.largest < nearest.difference.largest:
                nearest = found
    if best is None:
        raise _no_match(reference, match, nearest, problem.labels)
    return MatchingDesign(best.make(), everything, best.difference.share)


def evaluate_all_features(
    problem: Problem, front: Front, *, jobs: int = 1, fitters: ProblemFitters | None = None
) -> AllFeaturesBaseline:
    """Return one stage of all features at the problem's thresholds.

    Where the front has upgraded designs, it is of the kind of stages whose answers are worth more; a kind without answers is not.
    """
    fitters = fitters or ProblemFitters(problem)
    kinds = dict.fromkeys([None, *(design.upgrade for design in front)])
    found = (_evaluate_kind(problem, upgrade, jobs, fitters) for upgrade in kinds)
    return max(found, key=lambda one: worth_of_answers(one.design.labels, one.design.thresholds))


@dataclass(frozen=True, slots=True, eq=False)
class _Compared:
    """A design, in the workbench that can make it, its cost, and how often it decides differently."""

    bench: Workbench
    place: int
    chromosome: Population
    cost: float
    difference: _Difference

    def is_better(self, other: _Compared) -> bool:
        """Return whether it is cheaper, or differs less at the same cost."""
        if math.isclose(self.cost, other.cost, rel_tol=_EQUAL_COST):
            return self.difference.largest < other.difference.largest
        return self.cost < other.cost

    def make(self) -> Design:
        return make_designs(self.bench, self.place, self.chromosome)[0]


def _compare(
    reference: AllFeaturesBaseline, match: MatchEverything, bench: Workbench, place: int, population: Population, most: float
) -> Iterator[_Compared]:
    """Yield the designs up to a cost that match or are not far from it, the cheapest first; after one that does, equal costs."""
    evaluator = bench.evaluator(place)
    objectives = evaluator(population)
    cost = objectives.mean_cost
    near = np.flatnonzero(reference.may_match(objectives, _NEAR * match.share))
    for index in near[np.argsort(cost[near], kind="stable")].tolist():
        if cost[index] > (1.0 + _EQUAL_COST) * most:
            return
        _, answers = evaluator.row_exits(population[index], reference.rows.target)
        found = _Compared(bench, place, population[[index]], float(cost[index]), reference.compare(answers, match.sure))
        yield found
        if found.difference.largest <= match.share:
            most = found.cost


def _no_match(
    reference: AllFeaturesBaseline, match: MatchEverything, nearest: _Compared | None, labels: Sequence[Label]
) -> SelectionError:
    everything, rows = reference.design, pluralize(reference.answered, f"{reference.rows.name} row")
    asked = (
        f"no cheaper design decides at most {100 * match.share:g} % of the answered items differently from all features at once "
        f"(threshold {everything.threshold_text}, {rows} answered)"
    )
    # Infinite for a share that is hardly more than 0.
    needed = 0.0 if match.sure is None else float(np.ceil(math.log1p(-match.sure) / math.log1p(-match.share)))
    if reference.answered < needed:
        asked += f"; to show so small a share takes {needed:.6g} answered rows, even if none differs"
    if nearest is None:
        return SelectionError(f"{asked}; none is near. Allow a larger share, or ask for floors")
    design, difference = nearest.make(), nearest.difference
    size = f"{pluralize(sum(map(len, design.stages)), 'feature')} in {pluralize(len(design.stages), 'stage')}"
    enough = math.ceil(1000 * difference.largest) / 1000
    more = f"allow more, such as `match_everything={enough:g}`, g" if enough <= _LARGEST_SHARE else "g"
    remedy = f"{more}ive more rows, or ask for floors"
    return SelectionError(
        f"{asked}; the nearest that answers about as many rows has {size}, threshold {design.threshold_text} and cost "
        f"{design.cost:.6g} instead of {everything.cost:.6g}, and differs in {difference.describe(labels, match.sure)}. "
        f"{remedy[0].upper()}{remedy[1:]}",
        design.id,
    )


def _evaluate_kind(problem: Problem, upgrade: Upgrade | None, jobs: int, fitters: ProblemFitters) -> AllFeaturesBaseline:
    names = problem.names
    outline = Design.of((0,) * len(names), names, problem.thresholds, coverage=0.0, accuracy=0.0, cost=0.0, upgrade=upgrade)
    [bench] = make_design_workbenches([outline], jobs, fitters)
    one_stage = np.zeros((1, len(names)), dtype=np.int8)
    rows = bench.problem.validation
    return AllFeaturesBaseline(bench.designs(one_stage, [1])[0], bench.evaluator().row_exits(one_stage[0], rows.target)[1], rows)
