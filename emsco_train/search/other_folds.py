"""Measuring designs again, on other divisions of the rows into folds than the one that they were found by.

A search keeps the designs that are best on its folds, and part of that is luck: a row is scored by a model of the other folds,
and with other folds some rows come out differently. The mean over several divisions has less of this luck, and none that the
search has picked. Their folds are finer, so that their models are nearly as good as exported ones, which are fitted on all rows.
The luck of the rows themselves stays. `benchmarks/choices.py` shows what the choice gains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from emsco_runtime.bundle.manifest import LabelCounts
from emsco_train.data.problem import Problem
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.designs.precision import LabelSizes, Precision
from emsco_train.designs.selection import Requirements
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.ladder import make_workbenches
from emsco_train.search.recombination import distinct_sets
from emsco_train.search.workbench import Workbench

__all__ = ["RemeasuredFront", "find_near", "make_design_workbenches", "make_divisions", "measure_on_other_folds"]

# More divisions than this add little; on many rows there is less luck to take out, and fits take longer.
_MOST_DIVISIONS = 2
_MOST_ROWS = 10_000
# Few designs that miss a floor by more than this are chosen on drawn rows.
_NEAR = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class RemeasuredFront:
    """A front in which the designs that meet some requirements have their mean figures on other divisions.

    `divisions` are the problems, and their fitters; empty where nothing was measured again: there are no folds or too many rows,
    the folds are by time, or fits are slow, as those of trees are.
    """

    front: Front
    divisions: tuple[ProblemFitters, ...] = ()


def measure_on_other_folds(
    problem: Problem,
    front: Front,
    requirements: Requirements,
    *,
    jobs: int = 1,
    divisions: Sequence[ProblemFitters] | None = None,
) -> RemeasuredFront:
    """Measure those designs of a front again that meet some requirements: a design is to meet them on other folds, too.

    The others keep their figures, by which they miss the requirements. `divisions` are those of `make_divisions`, if they were
    made before.
    """
    meeting = [design for design in front if requirements.meets(design)]
    if not meeting or any(design.upgrade for design in front):
        return RemeasuredFront(front)
    made = make_divisions(problem) if divisions is None else tuple(divisions)
    if not made:
        return RemeasuredFront(front)
    measured = zip(*(_measure(meeting, division, jobs) for division in made), strict=True)
    again = {found[0].id: _mean_of(found) for found in measured}
    return RemeasuredFront(Front.of_problem(problem, [again.get(design.id, design) for design in front]), made)


def make_divisions(problem: Problem) -> tuple[ProblemFitters, ...]:
    """Return the problem on other divisions, and their fitters; none where designs are not measured again."""
    count = min(_MOST_DIVISIONS, _MOST_ROWS // len(problem.train))
    if not count or not problem.settings.is_logistic or not problem.has_other_folds:
        return ()
    return tuple(ProblemFitters(problem.with_other_folds(number, finer=True)) for number in _number_divisions(problem, count))


def _number_divisions(problem: Problem, count: int) -> Iterable[int]:
    """Return the numbers of different divisions; the one with the number 0 is left for the figures of the bundle."""
    # Of few rows or groups, a number may draw no division that is another one, or one that was drawn before.
    found = {problem.division_of_folds(number, finer=True): number for number in range(count, -1, -1)}
    return sorted(number for division, number in found.items() if division is not None and number)


def find_near(front: Front, requirements: Requirements) -> list[Design]:
    """Return the designs of a front that meet some requirements by their figures, or nearly do."""
    loose = requirements.loosen(_NEAR)
    return [design for design in front if loose.meets(design)]


def make_design_workbenches(designs: Sequence[Design], jobs: int, fitters: ProblemFitters) -> Iterator[Workbench]:
    """Yield workbenches for all kinds of stages and all thresholds of some designs."""
    for upgrade in dict.fromkeys(design.upgrade for design in designs):
        own = [design for design in designs if design.upgrade == upgrade]
        levels, made = sorted({design.stage_thresholds for design in own}), fitters.upgraded(upgrade)
        everything = np.array(sorted({design.chromosome for design in own}), dtype=np.int8)
        yield from make_workbenches(made.problem, levels, len(distinct_sets(everything)), jobs, made)


def _measure(designs: Sequence[Design], fitters: ProblemFitters, jobs: int) -> list[Design]:
    found: dict[str, Design] = {}
    for bench in make_design_workbenches(designs, jobs, fitters):
        for place, level in enumerate(bench.thresholds):
            own = [design for design in designs if design.stage_thresholds == level]
            population = np.array([design.chromosome for design in own], dtype=np.int8)
            found |= {design.id: design for design in bench.designs(population, [design.ties for design in own], place)}
    return [found[design.id] for design in designs]


def _mean_of(found: Sequence[Design]) -> Design:
    """Return a design with the mean of its figures, which say as much as those of one division: the rows are the same."""
    accepted = sum(design.coverage for design in found)
    right = sum(design.coverage * design.accuracy for design in found)
    return replace(
        found[0],
        coverage=min(1.0, accepted / len(found)),
        accuracy=min(1.0, right / accepted) if accepted else 0.0,
        cost=fmean(design.cost for design in found),
        precision=_mean_precision([design.full_precision for design in found]),
        # Their sums have the same shares, and how much they say is in the precision.
        labels=tuple(map(_sum_counts, zip(*(design.labels for design in found), strict=True))),
    )


def _mean_precision(found: Sequence[Precision]) -> Precision:
    sizes = zip(*(precision.labels for precision in found), strict=True)
    return Precision(
        rows=fmean(precision.rows for precision in found),
        accepted=fmean(precision.accepted for precision in found),
        cost_error=fmean(precision.cost_error for precision in found),
        labels=tuple(LabelSizes(fmean(size.rows for size in own), fmean(size.accepted_as for size in own)) for own in sizes),
    )


def _sum_counts(found: Sequence[LabelCounts]) -> LabelCounts:
    return LabelCounts(
        label=found[0].label,
        rows=sum(counts.rows for counts in found),
        accepted=sum(counts.accepted for counts in found),
        accepted_as=sum(counts.accepted_as for counts in found),
        right=sum(counts.right for counts in found),
    )
