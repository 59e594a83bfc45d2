"""What designs do on rows that the search did not measure them on: figures, and how well their confidences are calibrated.

Feature sets are scored in order of their size, each once for all designs. A stage's set holds those of the stages before it: when
its turn comes, the rows that reach it are known, as one bit each. So the scores of a few sets are held at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np

from emsco_runtime.bundle.manifest import Label, LabelCounts
from emsco_runtime.bundle.summary import mean_cost
from emsco_runtime.support.arrays import Array, Ints, Mask
from emsco_train.data.label_counts import count_by_label, count_positions
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem
from emsco_train.designs.counts import Counts
from emsco_train.designs.design import Design
from emsco_train.guarantee.calibration import RankedScores, StageCalibration, calibrate, calibrate_ranked
from emsco_train.models.borderline import ThresholdLevels
from emsco_train.models.cascade_model import CascadeModel
from emsco_train.models.evaluation import Evaluation, evaluate_split, evaluate_validation
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.models.temperature import TemperatureScaling
from emsco_train.search.scoring.set_scorer import set_scorer, split_scorer
from emsco_train.support.phases import OnPhase, Phase, ignore_phase

__all__ = ["MeasuredDesign", "measure_designs", "measure_fitted_design"]

_FeatureSet: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MeasuredDesign:
    """A design, what it does on some rows, and how well the confidence of each stage is calibrated there.

    The figures are by weight where rows have weights, those of each label, too; calibration counts rows. `scalings` has the
    temperatures of each stage, if stages were to be calibrated.
    """

    design: Design
    figures: Counts
    calibration: tuple[StageCalibration, ...]
    scalings: tuple[TemperatureScaling, ...] = ()
    labels: tuple[LabelCounts, ...] = ()


def measure_designs(
    problem: Problem,
    split: Split,
    designs: Sequence[Design],
    fitters: ProblemFitters,
    *,
    jobs: int = 1,
    on_phase: OnPhase = ignore_phase,
) -> list[MeasuredDesign]:
    """Run the rows of a split through designs; each feature set is fitted and scored once for all of them.

    The validation rows are scored by the models that scored them in the search. The designs may have different thresholds. `jobs`
    is the number of threads; results do not depend on it.
    """
    chains = [_cumulative_sets(problem, design) for design in designs]
    sets = sorted(dict.fromkeys(itertools.chain.from_iterable(chains)), key=len)
    masks = np.array([[name in chosen for name in problem.names] for chosen in map(frozenset, sets)])
    levels = list(dict.fromkeys(design.thresholds for design in designs))
    is_validation = split is problem.validation
    if is_validation:
        scorer = set_scorer(problem, levels, jobs, fitters)
    else:
        scorer = split_scorer(problem, split, fitters.exported, levels, jobs)
    tallies = [_Tally(design, chain, split, problem.labels) for design, chain in zip(designs, chains, strict=True)]
    uses: dict[_FeatureSet, list[_Tally]] = {}
    for tally in tallies:
        for chosen in tally.chain:
            uses.setdefault(chosen, []).append(tally)
    compared = {level: ThresholdLevels(level) for level in levels}
    scored = (pair for part in scorer(masks) for pair in zip(part.label, part.confidence, strict=True))
    for done, (chosen, (label, confidence)) in enumerate(zip(sets, scored, strict=True)):
        on_phase(Phase(f"measuring {len(designs)} designs on the {split.name} rows: feature sets", done, len(sets)))
        right = np.asarray(label == split.target)
        stage = _ScoredStage(RankedScores.of(confidence, right), label, right)
        confident = {level: confidence >= compared[level].required_confidence(label) for level in levels}
        for tally in uses[chosen]:
            tally.add_stage(stage, confident[tally.design.thresholds])
    scalings = _find_scalings(problem, fitters, sets, masks, jobs, is_validation=is_validation)
    costs = {chosen: problem.meter.cost(chosen) for chosen in sets}
    return [tally.result(costs, scalings) for tally in tallies]


def measure_fitted_design(problem: Problem, split: Split, design: Design, model: CascadeModel) -> MeasuredDesign:
    """Run the rows of a split through a design that is fitted already on the train rows; the validation rows as in the search."""
    if split is problem.validation:
        evaluation = evaluate_validation(problem, design.stages, design.thresholds)
    else:
        evaluation = evaluate_split(problem, model, split)
    scalings = tuple(stage.fitted.scaling for stage in model.stages if stage.fitted.scaling is not None)
    labels = count_by_label(evaluation.label, split.target, problem.labels, split.units)
    return MeasuredDesign(design, _count(evaluation, split), calibrate(evaluation, split.target), scalings, labels)


def _count(evaluation: Evaluation, split: Split) -> Counts:
    if split.units is not None:
        return Counts.of_weighted(len(split), evaluation.count_units(split.target, split.units))
    accepted = evaluation.accepted
    right = accepted & (evaluation.label == split.target)
    return Counts(len(accepted), int(accepted.sum()), int(right.sum()), mean_cost(evaluation.cost.tolist()))


def _cumulative_sets(problem: Problem, design: Design) -> tuple[_FeatureSet, ...]:
    """Return the features of all stages so far for each stage, in column order."""
    place = {name: position for position, name in enumerate(problem.names)}
    return tuple(tuple(sorted(names, key=place.__getitem__)) for names in itertools.accumulate(design.stages))


def _find_scalings(
    problem: Problem, fitters: ProblemFitters, sets: Sequence[_FeatureSet], masks: Mask, jobs: int, *, is_validation: bool
) -> dict[_FeatureSet, TemperatureScaling]:
    """Return how each set was calibrated; nothing where that was not asked for."""
    if problem.settings.calibrate is None:
        return {}
    fitter = fitters.parts[0] if is_validation else fitters.exported
    columns = np.repeat(masks, [block.width for block in problem.encoder.blocks], axis=1)
    found = zip(sets, fitter.scalings(columns, jobs), strict=True)
    return {chosen: scaling for chosen, scaling in found if scaling is not None}


class _ScoredStage(NamedTuple):
    """The rows as the model of a feature set scores them: ranked by confidence; in their own order, labels and who is right."""

    ranked: RankedScores
    label: Ints
    right: Mask


class _Exits(NamedTuple):
    """How much leaves at a stage, in rows, or in units where rows have weights."""

    accepted: int
    right: int


class _Tally:
    """What is known so far of a design, whose stages are added one by one."""

    def __init__(self, design: Design, chain: tuple[_FeatureSet, ...], split: Split, labels: Sequence[Label]) -> None:
        self.design = design
        self.chain = chain
        self._split = split
        self._labels = labels
        self._by_label: list[tuple[LabelCounts, ...]] = []
        self._undecided: Array = np.packbits(np.ones(len(split), dtype=np.bool_))
        self._exits: list[_Exits] = []
        self._calibration: list[StageCalibration] = []

    def add_stage(self, stage: _ScoredStage, confident: Mask) -> None:
        """Let the rows that the next stage is confident about leave."""
        undecided = np.unpackbits(self._undecided, count=len(self._split)).view(np.bool_)
        leaving = undecided & confident
        self._undecided = np.packbits(undecided & ~confident)
        self._exits.append(_Exits(self._amount(leaving), self._amount(leaving & stage.right)))
        rows, units = np.flatnonzero(leaving), self._split.units
        taken = None if units is None else units.take(rows)
        self._by_label.append(count_by_label(stage.label.take(rows), self._split.target.take(rows), self._labels, taken))
        self._calibration.append(
            calibrate_ranked(
                len(self._exits),
                stage.ranked,
                reached=undecided.take(stage.ranked.order),
                accepted=leaving.take(stage.ranked.order),
                stages=len(self.chain),
            )
        )

    def result(self, costs: Mapping[_FeatureSet, float], scalings: Mapping[_FeatureSet, TemperatureScaling]) -> MeasuredDesign:
        """Return what the design did, after its last stage."""
        stage_costs = [costs[chosen] for chosen in self.chain]
        accepted, right = (sum(amounts) for amounts in zip(*self._exits, strict=True))
        undecided = np.unpackbits(self._undecided, count=len(self._split)).view(np.bool_)
        paid = [*((exits.accepted, cost) for exits, cost in zip(self._exits, stage_costs, strict=True))]
        mean = _mean([*paid, (self._amount(undecided), stage_costs[-1])])
        rows, units = len(self._split), self._split.units
        figures = Counts(rows, accepted, right, mean, None if units is None else int(units.sum()))
        used = tuple(scalings[chosen] for chosen in self.chain if chosen in scalings)
        return MeasuredDesign(self.design, figures, tuple(self._calibration), used, self._count_labels())

    def _count_labels(self) -> tuple[LabelCounts, ...]:
        """Return the counts of each label: those of the rows that left at the stages, of all rows of the label."""
        rows = count_positions(self._split.target, len(self._labels), self._split.units)
        return tuple(
            LabelCounts(
                label=label,
                rows=number,
                accepted=sum(part.accepted for part in parts),
                accepted_as=sum(part.accepted_as for part in parts),
                right=sum(part.right for part in parts),
            )
            for label, number, parts in zip(self._labels, rows, zip(*self._by_label, strict=True), strict=True)
        )

    def _amount(self, rows: Mask) -> int:
        units: Ints | None = self._split.units
        return int(np.count_nonzero(rows)) if units is None else int(units[rows].sum())


def _mean(paid: Sequence[tuple[int, float]]) -> float:
    """Return the mean of costs that so many rows paid, rounded as the sum over rows would be."""
    counted = [(count, cost) for count, cost in paid if count]
    total = sum((count * Fraction(cost) for count, cost in counted), Fraction(0))
    costs = [cost for _, cost in counted]
    # Rounding can put the mean of equal numbers a hair outside them.
    return min(max(float(total) / sum(count for count, _ in counted), min(costs)), max(costs))
