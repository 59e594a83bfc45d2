"""The choice of a design that decides as all features at once do, in one stage, in all but few rows.

How much can be saved without losing anything? Floors cannot say: the figures of all features at once are as uncertain as those of
a design, and the cheapest design above them is the luckiest of many. But how often the two decide differently can be counted
without a label, and so without that luck: a design that differs in at most half a percent of the items cannot be worse by more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.support.arrays import Ints, Mask
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem
from emsco_train.data.stage_settings import Upgrade
from emsco_train.designs.chromosome import Population
from emsco_train.designs.design import Design
from emsco_train.designs.effective_size import measure_precision
from emsco_train.designs.front import Front
from emsco_train.designs.selection import MatchEverything
from emsco_train.errors import SelectionError
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.ladder import ladder_populations
from emsco_train.search.other_folds import make_design_workbenches
from emsco_train.search.scoring.objectives import Objectives
from emsco_train.search.workbench import Workbench
from emsco_train.support.binomial import upper_bound

__all__ = ["AllFeaturesBaseline", "MatchingDesign", "evaluate_all_features", "find_matching_design"]

# Designs that differ in more than this many times the share that is allowed are not looked at.
_NEAR = 4.0
# A wrong answer costs at most as much as this many right ones are worth.
_MOST_ODDS = 1e4


@dataclass(frozen=True, slots=True)
class MatchingDesign:
    """The cheapest design that matches all features at once, the latter, and the share of rows that they decide differently."""

    design: Design
    everything: Design
    different: float

    def describe(self, match: MatchEverything, split: str) -> str:
        """Return why the design was chosen; `split` names the rows that were compared."""
        whole = self.everything
        figures = f"coverage {whole.coverage:.4g}, accuracy {whole.accuracy:.4g}, cost {whole.cost:.6g}"
        kind = f"{whole.upgrade} stages, " if whole.upgrade else ""
        return (
            f"the cheapest that decides at most {100 * match.share:g} % of the items differently from all features at once "
            f"({kind}threshold {whole.threshold_text}: {figures}); {100 * self.different:.3g} % of the {split} rows, for "
            f"{100 * self.design.cost / whole.cost:.3g} % of its cost"
        )


@dataclass(frozen=True, slots=True, eq=False)
class AllFeaturesBaseline:
    """One stage of all features, and the position of the label that each row gets from it; -1 for none."""

    design: Design
    answers: Ints
    rows: Split

    def measure(self, answers: Ints, sure: float | None) -> tuple[float, float]:
        """Return the share of rows whose answers are others, and its upper bound at the level `sure`."""
        differs: Mask = answers != self.answers
        share = float(np.average(differs, weights=self.rows.weights))
        if sure is None:
            return share, share
        # How many rows say as much, where they come in groups or have weights.
        precision = measure_precision(differs, differs, np.zeros(len(differs)), self.rows.groups, self.rows.weights)
        return share, upper_bound(share * precision.rows, precision.rows, sure)

    def may_match(self, objectives: Objectives, share: float) -> Mask:
        """Return which designs can match at all: cheaper ones whose answers, and right ones, are as many but for the share."""
        answered, right = objectives.accepted, objectives.right
        own = self.design.counts
        apart = [
            np.abs(found - expected) <= share * own.total for found, expected in ((answered, own.accepted), (right, own.right))
        ]
        return np.asarray(np.logical_and.reduce(apart) & (objectives.mean_cost < self.design.cost))


def find_matching_design(
    problem: Problem, front: Front, match: MatchEverything, *, jobs: int = 1, fitters: ProblemFitters | None = None
) -> MatchingDesign:
    """Return the cheapest design, of those of a front at all thresholds of the ladder, that matches all features at once.

    `fitters` are those of the problem, if they were made before.

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
    for bench, place, population in ladder_populations(problem, front, jobs=jobs, fitters=fitters):
        for found in _compare(reference, match, bench, place, population):
            if found.bound <= match.share and (best is None or found.cost < best.cost):
                best = found
            if nearest is None or found.bound < nearest.bound:
                nearest = found
    if best is None:
        raise _no_match(reference, match, nearest)
    return MatchingDesign(best.make(), everything, best.share)


def evaluate_all_features(
    problem: Problem, front: Front, *, jobs: int = 1, fitters: ProblemFitters | None = None
) -> AllFeaturesBaseline:
    """Return one stage of all features at the problem's thresholds.

    Where the front has upgraded designs, it is of the kind of stages whose answers are worth more.
    """
    fitters = fitters or ProblemFitters(problem)
    kinds = dict.fromkeys([None, *(design.upgrade for design in front)])
    return max((_evaluate_kind(problem, upgrade, jobs, fitters) for upgrade in kinds), key=_value)


@dataclass(frozen=True, slots=True, eq=False)
class _Compared:
    """A design, in the workbench that can make it, its cost, and how much of the rows it decides differently."""

    bench: Workbench
    place: int
    chromosome: Population
    cost: float
    share: float
    bound: float

    def make(self) -> Design:
        return self.bench.designs(self.chromosome, [1], self.place)[0]


def _compare(
    reference: AllFeaturesBaseline, match: MatchEverything, bench: Workbench, place: int, population: Population
) -> Iterator[_Compared]:
    """Yield those designs that may match, or are not far from it, the cheapest first; after one that does, no other."""
    evaluator = bench.evaluator(place)
    objectives = evaluator(population)
    cost = objectives.mean_cost
    near = np.flatnonzero(reference.may_match(objectives, _NEAR * match.share))
    for index in near[np.argsort(cost[near], kind="stable")].tolist():
        _, answers = evaluator.row_exits(population[index], reference.rows.target)
        found = _Compared(bench, place, population[[index]], float(cost[index]), *reference.measure(answers, match.sure))
        yield found
        if found.bound <= match.share:
            return


def _no_match(reference: AllFeaturesBaseline, match: MatchEverything, nearest: _Compared | None) -> SelectionError:
    everything = reference.design
    asked = (
        f"no design that costs less decides at most {100 * match.share:g} % of the items differently from all features at once"
    )
    if nearest is None:
        return SelectionError(f"{asked} (threshold {everything.threshold_text}), and none is near. Allow more, or ask for floors")
    design = nearest.make()
    level = "" if match.sure is None else f", by a bound at `sure={match.sure}` {100 * nearest.bound:.3g} %"
    rows = reference.rows
    return SelectionError(
        f"{asked} (threshold {everything.threshold_text}); nearest is {design.id}, which differs in "
        f"{100 * nearest.share:.3g} % of {pluralize(len(rows), f'{rows.name} row')}{level}, at cost {design.cost:.6g} "
        f"instead of {everything.cost:.6g}. Allow more, give more rows, or ask for floors",
        design.id,
    )


def _evaluate_kind(problem: Problem, upgrade: Upgrade | None, jobs: int, fitters: ProblemFitters) -> AllFeaturesBaseline:
    names = problem.names
    outline = Design.of((0,) * len(names), names, problem.thresholds, coverage=0.0, accuracy=0.0, cost=0.0, upgrade=upgrade)
    [bench] = make_design_workbenches([outline], jobs, fitters)
    one_stage = np.zeros((1, len(names)), dtype=np.int8)
    rows = bench.problem.validation
    return AllFeaturesBaseline(bench.designs(one_stage, [1])[0], bench.evaluator().row_exits(one_stage[0], rows.target)[1], rows)


def _value(reference: AllFeaturesBaseline) -> float:
    """Return what the answers are worth, where a threshold says how many right ones are lost again with a wrong one."""
    odds = [min(_MOST_ODDS, number / (1.0 - number)) if number < 1.0 else _MOST_ODDS for number in reference.design.thresholds]
    counts = reference.design.labels
    return float(sum(one.right - odd * (one.accepted_as - one.right) for one, odd in zip(counts, odds, strict=True)))
