"""What a chosen design is likely to do on new rows, where no rows were kept back: its figures without the luck of being chosen.

The best of many designs is partly the luckiest on the rows that it was chosen by. How optimistic their figures are is seen by
repeating the choice: rows are drawn with replacement, the choice is made on the drawn ones, and what it chooses is counted on the
rows that were not drawn. (Tsamardinos, Greasidou and Borboudakis, 2018, "Bootstrapping the out-of-sample predictions for
efficient and accurate cross-validation".) What each design does with each row is known from the search, or, where designs were
measured again, from their mean over other divisions into folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.bundle.manifest import LikelyFigures
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.data.label_counts import count_by_label
from emsco_train.data.problem import Problem
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.designs.selection import Requirements
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.other_folds import find_near, make_design_workbenches

__all__ = ["estimate_likely_figures"]

# The mean over this many draws is settled to about a tenth of the spread of one.
_DRAWS = 100
# More cells take more memory than they are worth: on many rows these figures are hardly optimistic.
_MAX_CELLS = 2**24


@dataclass(frozen=True, slots=True, eq=False)
class _Outcomes:
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


def estimate_likely_figures(
    problem: Problem,
    front: Front,
    requirements: Requirements,
    *,
    jobs: int = 1,
    fitters: ProblemFitters | None = None,
    divisions: Sequence[ProblemFitters] = (),
) -> LikelyFigures | None:
    """Return what the choice by these requirements from these designs is likely to give; `fitters` as in `ladder_front`.

    `divisions` are those of a `RemeasuredFront`, by whose figures the choice is made. None where nothing is required, where there
    are too many rows for it to matter, and where no draw has a design to choose.
    """
    # Those that nearly meet the requirements are enough, and the fewer are fitted on other divisions the better.
    designs = tuple(find_near(front, requirements)) if divisions else tuple(front)
    measured_by = tuple(divisions) or (fitters or ProblemFitters(problem),)
    rows = measured_by[0].problem.validation
    if not requirements.any() or not designs or len(designs) * len(rows) * len(measured_by) > _MAX_CELLS:
        return None
    places = [np.arange(len(rows))]
    if divisions:
        places = _find_common_rows(divisions)
        rows = rows.take(places[0])
    outcomes = _mean_outcomes([_collect_outcomes(designs, jobs, made) for made in measured_by], places)
    # A stream of its own: the same choice from the same run has the same figures.
    rng = np.random.default_rng((problem.settings.seed, 3))
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    found = np.zeros(4)
    for _ in range(_DRAWS):
        drawn = _draw_rows(len(rows), rows.groups, rng)
        inside, outside = weights * drawn, weights * (drawn == 0)
        # Floors per label are kept or missed by the drawn rows, too.
        drawn_units = drawn if rows.units is None else drawn * rows.units
        candidates = designs
        if requirements.label_floors:
            candidates = tuple(
                replace(design, labels=count_by_label(answer, rows.target, problem.labels, drawn_units))
                for design, answer in zip(designs, outcomes.answer, strict=True)
            )
        chosen = _choose_again(candidates, outcomes, inside, requirements, front.full_cost)
        if chosen is not None:
            accepted, right, cost = outcomes.sums(outside)
            found += [accepted[chosen], right[chosen], cost[chosen], outside.sum()]
    rows_accepted, rows_right, total_cost, total = found.tolist()
    if not rows_accepted:
        return None
    return LikelyFigures(coverage=rows_accepted / total, accuracy=rows_right / rows_accepted, cost=total_cost / total)


def _find_common_rows(divisions: Sequence[ProblemFitters]) -> list[Ints]:
    """Return, for each division, where among its validation rows those are that all of them score, in the order of the pool.

    Few rows are scored by some alone: those of a label that is in one fold.
    """
    pools = [
        np.concatenate([part.fold.scored for part in division.problem.parts if part.fold is not None]) for division in divisions
    ]
    common = reduce(np.intersect1d, pools)
    return [np.argsort(pool)[np.searchsorted(np.sort(pool), common)] for pool in pools]


def _mean_outcomes(found: Sequence[_Outcomes], places: Sequence[Ints]) -> _Outcomes:
    """Return the mean over divisions, row by row, of the rows at these places of each; labels are those of the first."""
    accepted, right, cost = (
        np.mean([one[:, place] for one, place in zip(figures, places, strict=True)], axis=0)
        for figures in zip(*((one.accepted, one.right, one.cost) for one in found), strict=True)
    )
    return _Outcomes(accepted, right, cost, found[0].answer[:, places[0]])


def _collect_outcomes(designs: Sequence[Design], jobs: int, fitters: ProblemFitters) -> _Outcomes:
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
    return _Outcomes(accepted, right, cost, answers)


def _draw_rows(rows: int, groups: Ints | None, rng: np.random.Generator) -> Ints:
    """Return how often each row is drawn; rows of a group are drawn together."""
    if groups is None:
        return np.bincount(rng.integers(rows, size=rows), minlength=rows)
    names, member = np.unique(groups, return_inverse=True)
    return np.asarray(np.bincount(rng.integers(len(names), size=len(names)), minlength=len(names))[member])


def _choose_again(
    designs: Sequence[Design], outcomes: _Outcomes, weights: Floats, requirements: Requirements, full_cost: float
) -> int | None:
    """Return the position of the design that is chosen where rows count so much each; None: no design satisfies."""
    total = weights.sum()
    accepted, right, cost = outcomes.sums(weights)
    coverage, mean_cost = np.minimum(accepted / total, 1.0), cost / total
    accuracy = np.minimum(np.divide(right, accepted, out=np.zeros(len(accepted)), where=accepted > 0), 1.0)
    # Bounds are never better than the figures: where these miss a limit, bounds are not needed.
    short = sum(requirements.shortfalls(mean_cost, coverage, accuracy), np.zeros(len(designs)))
    near = np.flatnonzero(short == 0)
    by_cost = near[np.argsort(mean_cost[near], kind="stable")].tolist()
    candidates = (
        _with_figures(designs[position], float(coverage[position]), float(accuracy[position]), float(mean_cost[position]))
        for position in by_cost
    )
    chosen = requirements.find_best(candidates, full_cost)
    return None if chosen is None else next(position for position in by_cost if designs[position].id == chosen.id)


def _with_figures(design: Design, coverage: float, accuracy: float, cost: float) -> Design:
    """Return a design with other figures, on as many rows as before."""
    precision = design.precision
    if precision is not None and design.coverage:
        precision = replace(precision, accepted=precision.accepted * coverage / design.coverage)
    return replace(design, coverage=coverage, accuracy=accuracy, cost=cost, precision=precision)
