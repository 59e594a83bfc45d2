"""What designs do on rows that the search did not measure them on: figures, and how well their confidences are calibrated.

Feature sets are scored in order of their size, each once for all designs. A stage's set holds those of the stages before it: when
its turn comes, the rows that reach it are known, as one bit each. So the scores of a few sets are held at a time. Designs that
begin with the same stages share what these do.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from emsco_runtime.bundle.manifest import LabelCounts
from emsco_runtime.support.arrays import Array, Ints, Mask
from emsco_runtime.support.ordered_work import run_ordered
from emsco_train.costs.total import total_cost
from emsco_train.data.label_counts import count_by_label, count_positions, join_label_counts
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem
from emsco_train.designs.counts import Counts
from emsco_train.designs.design import Design
from emsco_train.guarantee.calibration import RankedScores, StageCalibration, add_warning, calibrate, calibrate_ranked
from emsco_train.models.borderline import ThresholdLevels
from emsco_train.models.cascade_model import CascadeModel
from emsco_train.models.evaluation import evaluate_split, evaluate_validation
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
    found: dict[str, MeasuredDesign] = {}
    for upgrade in dict.fromkeys(design.upgrade for design in designs):
        own = [design for design in designs if design.upgrade == upgrade]
        own_fitters = fitters.upgraded(upgrade)
        rows = own_fitters.problem.validation if split is problem.validation else split
        found |= {one.design.id: one for one in _measure_kind(own_fitters.problem, rows, own, own_fitters, jobs, on_phase)}
    return [found[design.id] for design in designs]


def _measure_kind(
    problem: Problem, split: Split, designs: Sequence[Design], fitters: ProblemFitters, jobs: int, on_phase: OnPhase
) -> list[MeasuredDesign]:
    """Run the rows of a split through designs whose stages are all of the problem's kind."""
    chains = [_cumulative_sets(problem, design) for design in designs]
    sets = sorted(dict.fromkeys(itertools.chain.from_iterable(chains)), key=len)
    masks = np.array([[name in chosen for name in problem.names] for chosen in map(frozenset, sets)])
    thresholds = [design.stage_thresholds.for_stages(len(design.stages)) for design in designs]
    levels = list(dict.fromkeys(itertools.chain.from_iterable(thresholds)))
    is_validation = split is problem.validation
    if is_validation:
        scorer = set_scorer(problem, levels, jobs, fitters)
    else:
        scorer = split_scorer(problem, split, fitters.exported, levels, jobs)
    tree = _PrefixTree(split)
    leaves = [tree.add(each, chain) for each, chain in zip(thresholds, chains, strict=True)]
    compared = {level: ThresholdLevels(level) for level in levels}
    scored = (pair for part in scorer(masks) for pair in zip(part.label, part.confidence, strict=True))
    for done, (chosen, (label, confidence)) in enumerate(zip(sets, scored, strict=True)):
        on_phase(Phase(f"measuring {len(designs)} designs on the {split.name} rows: feature sets", done, len(sets)))
        right = np.asarray(label == split.target)
        stage = _ScoredStage(RankedScores.of(confidence, right), label, right)
        confident = {level: confidence >= compared[level].required_confidence(label) for level in levels}
        count = partial(_count_prefix, stage=stage, confident=confident)
        for _ in run_ordered(count, tree.ending_with(chosen), workers=jobs):
            pass
    scalings = _find_scalings(problem, fitters, sets, masks, jobs, is_validation=is_validation)
    costs = {chosen: problem.meter.cost(chosen) for chosen in sets}
    by_label = count_positions(split.target, len(problem.labels), split.units)
    return [
        _summarise(problem, split, design, leaf.path(), [costs[one] for one in chain], by_label, _used_scalings(chain, scalings))
        for design, leaf, chain in zip(designs, leaves, chains, strict=True)
    ]


def measure_fitted_design(problem: Problem, split: Split, design: Design, model: CascadeModel) -> MeasuredDesign:
    """Run the rows of a split through a design that is fitted already on the train rows; the validation rows as in the search."""
    if split is problem.validation:
        evaluation = evaluate_validation(problem.upgraded(design.upgrade), design.stages, design.stage_thresholds)
    else:
        evaluation = evaluate_split(problem, model, split)
    scalings = tuple(stage.fitted.scaling for stage in model.stages if stage.fitted.scaling is not None)
    labels = count_by_label(evaluation.label, split.target, problem.labels, split.units)
    figures = Counts.of_expected(evaluation.expected(split.target, split.name, split.units))
    return MeasuredDesign(design, figures, calibrate(evaluation, split.target), scalings, labels)


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
    columns = np.repeat(masks, problem.encoder.widths, axis=1)
    found = zip(sets, fitter.scalings(columns, jobs), strict=True)
    return {chosen: scaling for chosen, scaling in found if scaling is not None}


class _ScoredStage(NamedTuple):
    """The rows as the model of a feature set scores them: ranked by confidence; in their own order, labels and who is right."""

    ranked: RankedScores
    label: Ints
    right: Mask


class _StageTally(NamedTuple):
    """What a stage of designs does: its calibration, and how much leaves, in rows, or in units where rows have weights.

    By the label that rows have, by the one that they get, and where both are one [3, labels].
    """

    calibration: StageCalibration
    leaving: Ints


class _Prefix:
    """The first stages of some designs, by their feature sets and thresholds, and what the last of them does once it is known.

    `thresholds` are those of the last of these stages.
    """

    def __init__(self, split: Split, thresholds: tuple[float, ...], before: _Prefix | None) -> None:
        self.split = split
        self.thresholds = thresholds
        self.before = before
        self.is_continued = False
        self.tally: _StageTally | None = None
        # A bit for each row, while prefixes that continue this one need them.
        self.undecided: Array | None = None

    @property
    def number(self) -> int:
        """How many stages there are."""
        return 1 if self.before is None else self.before.number + 1

    def reaching(self) -> Mask:
        """Return which rows reach the last stage."""
        rows = len(self.split)
        if self.before is None:
            return np.ones(rows, dtype=np.bool_)
        if self.before.undecided is None:
            raise RuntimeError("a feature set was scored before those that it contains")
        return np.unpackbits(self.before.undecided, count=rows).view(np.bool_)

    def path(self) -> list[_StageTally]:
        """Return what each stage does, in order."""
        before = [] if self.before is None else self.before.path()
        return before if self.tally is None else [*before, self.tally]


class _PrefixTree:
    """The prefixes of all designs, each once."""

    def __init__(self, split: Split) -> None:
        self._split = split
        self._prefixes: dict[tuple[tuple[tuple[float, ...], ...], tuple[_FeatureSet, ...]], _Prefix] = {}
        self._by_last: dict[_FeatureSet, list[_Prefix]] = {}

    def add(self, thresholds: tuple[tuple[float, ...], ...], chain: tuple[_FeatureSet, ...]) -> _Prefix:
        """Add the prefixes of a design, given the thresholds and the set of each stage; return the one of all its stages."""
        key = (thresholds, chain)
        if key not in self._prefixes:
            before = self.add(thresholds[:-1], chain[:-1]) if len(chain) > 1 else None
            if before is not None:
                before.is_continued = True
            made = self._prefixes[key] = _Prefix(self._split, thresholds[-1], before)
            self._by_last.setdefault(chain[-1], []).append(made)
        return self._prefixes[key]

    def ending_with(self, chosen: _FeatureSet) -> list[_Prefix]:
        """Return the prefixes whose last stage has this feature set."""
        return self._by_last[chosen]


def _count_prefix(prefix: _Prefix, stage: _ScoredStage, confident: Mapping[tuple[float, ...], Mask]) -> None:
    """Let the rows that the last stage is confident about leave."""
    reaching, accepted = prefix.reaching(), confident[prefix.thresholds]
    leaving = reaching & accepted
    if prefix.is_continued:
        prefix.undecided = np.packbits(reaching & ~accepted)
    order, units = stage.ranked.order, prefix.split.units
    calibration = calibrate_ranked(prefix.number, stage.ranked, reached=reaching.take(order), accepted=leaving.take(order))
    # Positions first: looking rows up by a mask costs several times more.
    rows = np.flatnonzero(leaving)
    taken = None if units is None else units.take(rows)
    own, answer = prefix.split.target.take(rows), stage.label.take(rows)
    parts = (own, answer, np.where(stage.right.take(rows), own, -1))
    counted = [count_positions(part, len(prefix.thresholds), taken) for part in parts]
    prefix.tally = _StageTally(calibration, np.array(counted))


def _summarise(
    problem: Problem,
    split: Split,
    design: Design,
    stages: Sequence[_StageTally],
    costs: Sequence[float],
    by_label: Sequence[int],
    scalings: tuple[TemperatureScaling, ...],
) -> MeasuredDesign:
    """Return what a design did, given the tally and the cost of each stage, and the rows of each label."""
    decided: Ints = np.sum([stage.leaving for stage in stages], axis=0)
    _, accepted, right = decided.sum(axis=1).tolist()
    total = sum(by_label)
    leaving = [int(stage.leaving[1].sum()) for stage in stages]
    mean = _mean([*zip(leaving, costs, strict=True), (total - accepted, costs[-1])])
    figures = Counts(len(split), accepted, right, mean, None if split.units is None else total)
    labels = join_label_counts(problem.labels, by_label, *decided.tolist())
    calibration = tuple(add_warning(stage.calibration, len(stages)) for stage in stages)
    return MeasuredDesign(design, figures, calibration, scalings, labels)


def _used_scalings(
    chain: Sequence[_FeatureSet], scalings: Mapping[_FeatureSet, TemperatureScaling]
) -> tuple[TemperatureScaling, ...]:
    return tuple(scalings[chosen] for chosen in chain if chosen in scalings)


def _mean(paid: Sequence[tuple[int, float]]) -> float:
    """Return the mean of costs, each with the number of rows that paid it, rounded as the sum over rows would be."""
    counted = [(count, cost) for count, cost in paid if count]
    rows, costs = [count for count, _ in counted], [cost for _, cost in counted]
    # Rounding can put the mean of equal numbers a hair outside them.
    return min(max(total_cost(rows, costs) / sum(rows), min(costs)), max(costs))
