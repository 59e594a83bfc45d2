"""The threshold ladder: the designs of a front at other thresholds. The fits are the same; only the comparison changes.

A search is made at the thresholds that the user named. Which threshold suits a floor or a guarantee is known only when that is
asked for, and a design's coverage and accuracy follow its threshold far more closely than its stages. So a choice may move along
the ladder: the log-odds of every label's threshold are shifted by the same steps up and down.

At every step designs are tried with one threshold for all stages, and with a higher one before the last stage. With one threshold
an early stage answers with the confidence that is good enough for the last one, although the later ones know better. With two it
answers what it is sure of, and a design whose last stage has many features can be as right as one that acquires them always.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from emsco_runtime.bundle.manifest import Label
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.data.problem import Problem
from emsco_train.data.thresholds import StageThresholds
from emsco_train.designs.chromosome import Population
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.designs.label_floors import LabelFloor
from emsco_train.designs.selection import Requirements
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.genetic.pareto import first_minima, objective_points
from emsco_train.search.recombination import distinct_sets, drop_idle_stages
from emsco_train.search.scoring.bit_cache import MIN_SETS
from emsco_train.search.workbench import Workbench

__all__ = ["ladder_front", "ladder_thresholds", "make_designs", "make_workbenches", "raise_early"]

# Steps in log-odds. From 0.9: 0.61, 0.67, 0.72, ..., 0.993, 0.9945.
_STEPS = tuple(step / 4 for step in range(-7, 13))
# A ladder that ends above the first of these goes on by coarser steps, until it is below the second: a search at 0.995 or more is
# often made by users who do not know yet that next to nothing is so sure.
_HIGH_END, _LOW_END = 0.8, 0.6
_COARSE_STEP = 0.5
# How much higher, in log-odds, thresholds before the last stage are tried. From 0.9: 0.9852.
_EARLY_STEP = 2.0
_HIGHEST_EARLY = 0.9999
# How much lower the thresholds of labels with a floor on their recall are tried.
_RARE_STEPS = (0.0, 0.75, 1.5, 2.25, 3.0)
# Higher thresholds accept next to nothing, and are not tried unless they were given. Those below one in as many as there are
# labels do not select.
_HIGHEST = 0.999
_MAX_BYTES = 2**29


def ladder_thresholds(thresholds: Sequence[float], rare: Sequence[int] = ()) -> list[tuple[float, ...]]:
    """Return the thresholds of a ladder around those of a design, ascending, these included.

    Those of the labels at the positions `rare` are lowered further, by several steps of their own. A label that is answered next
    to never, such as one with a threshold of 1, does not hold the others back.

    Examples
    --------
    >>> [level[0] for level in ladder_thresholds((0.9, 0.9))][:4]
    [0.61, 0.6676, 0.7206, 0.768]
    >>> [level[0] for level in ladder_thresholds((0.995, 0.995))][:4]
    [0.5108, 0.6326, 0.7395, 0.8239]
    >>> ladder_thresholds((0.9, 1.0))[-1]
    (0.9945, 1.0)
    """
    levels, lowest = {tuple(thresholds)}, 1.0 / len(thresholds)
    for step, own in itertools.product((*_further_steps(thresholds), *_STEPS), _RARE_STEPS if rare else (0.0,)):
        steps = [step - own if place in rare else step for place in range(len(thresholds))]
        level = tuple(map(_shift_below_highest, thresholds, steps))
        is_low = all(number <= max(_HIGHEST, given) for number, given in zip(level, thresholds, strict=True))
        if (step or own) and min(level) >= lowest and is_low:
            levels.add(level)
    return sorted(levels)


def _further_steps(thresholds: Sequence[float]) -> list[float]:
    """Return coarse steps below the others for thresholds that are high; none where all are 1, which cannot be shifted."""
    steps: list[float] = []
    lowest = min(_shift(threshold, _STEPS[0]) for threshold in thresholds)
    if lowest <= _HIGH_END or min(thresholds) >= 1.0:
        return steps
    while lowest >= _LOW_END:
        steps.append(_STEPS[0] - _COARSE_STEP * (len(steps) + 1))
        lowest = min(_shift(threshold, steps[-1]) for threshold in thresholds)
    return steps


def raise_early(thresholds: Sequence[float], step: float) -> StageThresholds | None:
    """Return thresholds that are higher before the last stage, by a step in log-odds; None if next to nothing is so sure.

    Examples
    --------
    >>> raise_early((0.9, 0.8), 2.0)
    StageThresholds(last=(0.9, 0.8), early=(0.9852, 0.9673))
    """
    # Digits are few: the shifted number may be rounded to one that is lower.
    early = tuple(max(number, _shift(number, step)) for number in thresholds)
    # A threshold of 1 stays as it is, and so allows any for the other labels.
    is_reached = max((number for number in early if number < 1.0), default=1.0) <= _HIGHEST_EARLY
    return StageThresholds(last=tuple(thresholds), early=early) if is_reached else None


def _add_early(levels: Iterable[tuple[float, ...]]) -> list[StageThresholds]:
    """Return the thresholds of a ladder for all stages, and with higher ones before the last stage."""
    pairs = ((StageThresholds.constant(level), raise_early(level, _EARLY_STEP)) for level in levels)
    return sorted({thresholds for pair in pairs for thresholds in pair if thresholds is not None})


def ladder_front(
    problem: Problem,
    front: Front,
    requirements: Requirements | None = None,
    *,
    jobs: int = 1,
    fitters: ProblemFitters | None = None,
) -> Front:
    """Return the designs of a front together with the same ones at other thresholds, without those that others dominate.

    Other thresholds are those of the ladder, for all stages or, with higher ones before it, for the last.
    Figures are on the validation rows, as in the search. The designs of the front itself are all kept. Where requirements have a
    floor on the recall of labels, the thresholds of these labels are shifted also by themselves, and a design is kept if no other
    dominates it in all of coverage, accuracy, cost and the figures of labels that have a floor. `fitters` are those of the
    problem, if they were made before.
    """
    if not len(front):
        return front
    wanted = requirements or Requirements()
    rare = [place for place, label in enumerate(problem.labels) if str(label) in wanted.recall_labels]
    fitters = fitters or ProblemFitters(problem)
    known = {design.id for design in front}
    tuned = {
        design.id: design
        for variants in _make_variants(front, rare, jobs, fitters)
        for design in variants.undominated_designs(wanted)
        if design.id not in known
    }
    return Front.of_problem(problem, [*front, *_undominated(list(tuned.values()), wanted)])


def make_designs(bench: Workbench, place: int, population: Population, *, label_sizes: bool = True) -> list[Design]:
    """Return designs at the thresholds of a place, without stages before the last that accept no row there.

    The next stage acquires what these did: all rows get the same answers at the same cost, from fewer models.
    """
    level = bench.thresholds[place]
    # What is left of some designs is one stage, which has no thresholds before the last.
    alone = StageThresholds.constant(level.last)
    merged = drop_idle_stages(population, bench.evaluator(place), keep_all=True)
    single = (merged.max(axis=1) == 0) & (level != alone)
    if alone not in bench.thresholds:
        merged[single], single[:] = population[single], False
    parts = [(merged[~single], place), (merged[single], bench.thresholds.index(alone) if single.any() else place)]
    return [design for chosen, own in parts for design in bench.designs(chosen, [1] * len(chosen), own, label_sizes=label_sizes)]


def _make_variants(front: Front, rare: Sequence[int], jobs: int, fitters: ProblemFitters) -> Iterator[_ThresholdVariants]:
    """Yield the designs of each kind of stages at other thresholds."""
    levels = _add_early({level for design in front for level in ladder_thresholds(design.thresholds, rare)})
    for upgrade in dict.fromkeys(design.upgrade for design in front):
        yield _ThresholdVariants(
            [design for design in front if design.upgrade == upgrade], levels, jobs, fitters.upgraded(upgrade)
        )


class _ThresholdVariants:
    """Designs of one kind of stages, and the thresholds of a ladder, each with the workbench that has its bits."""

    def __init__(self, designs: Sequence[Design], levels: Sequence[StageThresholds], jobs: int, fitters: ProblemFitters) -> None:
        self._problem = fitters.problem
        self._designs = designs
        self._levels = levels
        self._population = np.array(sorted({design.chromosome for design in designs}), dtype=np.int8)
        sets = len(distinct_sets(self._population))
        if 2 * sets * _set_bytes(self._problem) > _MAX_BYTES:
            # Bits for two thresholds at a time do not fit into memory.
            self._levels = [level for level in levels if level.early == level.last]
        self._benches: Callable[[], Iterator[Workbench]] = partial(
            make_workbenches, self._problem, self._levels, sets, jobs, fitters
        )
        if len(_distinct_levels(self._levels)) * sets * _set_bytes(self._problem) <= _MAX_BYTES:
            # All at once, so that no set is scored twice.
            self._benches = partial(iter, list(self._benches()))

    def undominated_designs(self, wanted: Requirements) -> Iterator[Design]:
        """Yield the designs at all levels that they are not known at, without those that others dominate."""
        known = {(design.chromosome, design.stage_thresholds) for design in self._designs}
        # There are forty times as many designs as on the front: those that others dominate are left out before they are made.
        positions = self._undominated_positions(self.untried_positions(known), wanted)
        for bench, place, chosen in self.populations(positions):
            yield from make_designs(bench, place, chosen, label_sizes=bool(wanted.label_floors))

    def untried_positions(self, known: Collection[tuple[tuple[int, ...], StageThresholds]]) -> dict[StageThresholds, list[int]]:
        """Return the positions of the designs to try at each of the thresholds: all that are not known there."""
        # A design of one stage has none before the last.
        return {
            level: [
                place
                for place, genes in enumerate(map(tuple, self._population.tolist()))
                if (genes, level) not in known and (max(genes) > 0 or level.early == level.last)
            ]
            for level in self._levels
        }

    def populations(self, positions: Mapping[StageThresholds, list[int]]) -> Iterator[tuple[Workbench, int, Population]]:
        """Yield, for each of the thresholds, its workbench, its position there, and the designs to try."""
        for bench in self._benches():
            for position, level in enumerate(bench.thresholds):
                if positions[level]:
                    yield bench, position, self._population[positions[level]]

    def _undominated_positions(
        self, positions: Mapping[StageThresholds, list[int]], wanted: Requirements
    ) -> dict[StageThresholds, list[int]]:
        """Return the positions of the designs at each of the thresholds that none at any of these dominates."""
        labels, found, shares = self._problem.labels, [], []
        for bench, place, chosen in self.populations(positions):
            evaluator = bench.evaluator(place)
            found.append(evaluator(chosen))
            if wanted.label_floors:
                answers = evaluator.answers(chosen, len(labels))
                shares.append(_floored_shares(wanted.label_floors, labels, answers, bench.label_rows))
        if not found:
            return {level: [] for level in positions}
        points = objective_points(found[0].join(found[1:]))
        if shares:
            points = np.hstack([points, -np.concatenate(shares)])
        kept = iter(first_minima(points).tolist())
        return {level: [place for place in chosen if next(kept)] for level, chosen in positions.items()}


def _floored_shares(floors: Sequence[LabelFloor], labels: Sequence[Label], answers: Ints, label_rows: Sequence[int]) -> Floats:
    """Return the figures of labels that have a floor [designs, floors], of answers as `DesignEvaluator.answers` counts them."""
    _, accepted_as, right = np.moveaxis(answers, 1, 0)
    names = [str(label) for label in labels]
    columns = []
    for floor in floors:
        place = names.index(str(floor.label))
        of = label_rows[place] if floor.figure == "recall" else accepted_as[:, place]
        columns.append(right[:, place] / np.maximum(1, of))
    return np.column_stack(columns)


def _shift_below_highest(threshold: float, step: float) -> float:
    """Return a shifted threshold; one that is above the highest already is only lowered."""
    shifted = _shift(threshold, step)
    return min(shifted, threshold) if threshold > _HIGHEST else shifted


def _shift(threshold: float, step: float) -> float:
    """Return a threshold whose log-odds are higher by a step; 1 stays 1."""
    if threshold >= 1.0:
        return 1.0
    shifted = 1.0 / (1.0 + math.exp(-(math.log(threshold / (1.0 - threshold)) + step)))
    # Few digits: a threshold is read by people, and is part of a design's id.
    return round(shifted, 4)


def make_workbenches(
    problem: Problem, levels: Sequence[StageThresholds], sets: int, jobs: int, fitters: ProblemFitters
) -> Iterator[Workbench]:
    """Yield workbenches for all levels, each for as many as fit into memory, where `sets` feature sets are scored."""
    # The fits are the same at every level; the rows are scored again for each workbench.
    count = max(1, _MAX_BYTES // (sets * _set_bytes(problem)))
    part: list[StageThresholds] = []
    for level in levels:
        if part and len(_distinct_levels([*part, level])) > count:
            yield Workbench(problem, part, jobs=jobs, min_sets=min(MIN_SETS, sets), fitters=fitters)
            part = []
        part.append(level)
    if part:
        yield Workbench(problem, part, jobs=jobs, min_sets=min(MIN_SETS, sets), fitters=fitters)


def _distinct_levels(levels: Sequence[StageThresholds]) -> set[tuple[float, ...]]:
    """Return the thresholds that some levels have at any stage: a workbench keeps bits for each."""
    return {thresholds for level in levels for thresholds in (level.last, level.early)}


def _set_bytes(problem: Problem) -> int:
    """Return how much a workbench keeps of a feature set at each of the thresholds."""
    return 16 * -(-len(problem.validation) // 64)


def _undominated(designs: Sequence[Design], requirements: Requirements) -> list[Design]:
    if not designs:
        return []
    points = np.array(
        [
            [-design.coverage, -design.accuracy, design.cost, *(-figure for figure in requirements.label_figures(design))]
            for design in designs
        ]
    )
    return [design for design, kept in zip(designs, first_minima(points).tolist(), strict=True) if kept]
