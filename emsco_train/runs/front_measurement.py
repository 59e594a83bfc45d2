"""What designs do on rows that the search did not measure them on: figures, and how well their confidences are calibrated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from emsco_runtime.bundle.manifest import LabelCounts
from emsco_runtime.bundle.summary import mean_cost
from emsco_train.data.label_counts import count_by_label
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem
from emsco_train.designs.counts import Counts
from emsco_train.designs.design import Design
from emsco_train.guarantee.calibration import StageCalibration, StageScores, calibrate, calibrate_stages
from emsco_train.models.cascade_model import CascadeFitter, CascadeModel
from emsco_train.models.evaluation import Evaluation, evaluate_split, evaluate_validation, run_stages
from emsco_train.models.fitted_set import StageDecisions
from emsco_train.models.temperature import TemperatureScaling

__all__ = ["MeasuredDesign", "measure_designs", "measure_fitted_design"]

# A design, and the features of all stages so far for each stage, in column order.
_DesignWithSets: TypeAlias = tuple[Design, tuple[tuple[str, ...], ...]]

# Scores that are held at a time.
_MAX_BYTES = 2**27


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


@dataclass(frozen=True, slots=True, eq=False)
class _MeasuredPart:
    """Rows, and who fits the models that score them."""

    fitter: CascadeFitter
    rows: Split


def measure_designs(
    problem: Problem, split: Split, designs: Sequence[Design], fitter: CascadeFitter, *, jobs: int = 1
) -> Iterator[MeasuredDesign]:
    """Fit designs and run the rows of a split through them; each feature set is fitted and scored once for many designs.

    `fitter` fits on the train rows. The validation rows are scored by the models that scored them in the search. The designs may
    have different thresholds. `jobs` is the number of threads for the fits; results do not depend on it.
    """
    parts = [_MeasuredPart(fitter, split)]
    if split is problem.validation:
        fitters = CascadeFitter.of_parts(problem)
        parts = [_MeasuredPart(fitter, part.scored) for fitter, part in zip(fitters, problem.parts, strict=True)]
    # About what is held of a row that a feature set has scored.
    bytes_per_row = 8 * len(problem.labels) + 32
    most = max(1, _MAX_BYTES // (len(split) * bytes_per_row))
    sort = fitter.sets.sort_by_column
    prepared = [(design, tuple(sort(names) for names in itertools.accumulate(design.stages))) for design in designs]
    for batch in _split_into_batches(prepared, most):
        yield from _measure_batch(problem, split, parts, batch, jobs)


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


def _split_into_batches(designs: Sequence[_DesignWithSets], most: int) -> Iterator[list[_DesignWithSets]]:
    """Divide designs into batches that have at most so many different feature sets, or one design."""
    batch: list[_DesignWithSets] = []
    known: set[tuple[str, ...]] = set()
    for design, feature_sets in designs:
        if batch and len(known.union(feature_sets)) > most:
            yield batch
            batch, known = [], set()
        batch.append((design, feature_sets))
        known.update(feature_sets)
    if batch:
        yield batch


def _measure_batch(
    problem: Problem, split: Split, parts: Sequence[_MeasuredPart], batch: Sequence[_DesignWithSets], jobs: int
) -> Iterator[MeasuredDesign]:
    levels: dict[tuple[str, ...], set[tuple[float, ...]]] = {}
    for design, feature_sets in batch:
        for inputs in feature_sets:
            levels.setdefault(inputs, set()).add(design.thresholds)
    costs = {inputs: problem.meter.cost(inputs) for inputs in levels}
    scores: dict[tuple[str, ...], StageScores] = {}
    scalings: dict[tuple[str, ...], TemperatureScaling] = {}
    decisions: dict[tuple[tuple[str, ...], tuple[float, ...]], StageDecisions] = {}
    fitted_parts = [part.fitter.sets.fit_many(list(levels), jobs) for part in parts]
    for fitted_sets in zip(*fitted_parts, strict=True):
        inputs = fitted_sets[0].inputs
        if fitted_sets[0].scaling is not None:
            scalings[inputs] = fitted_sets[0].scaling
        codes = [part.rows.codes[:, fitted.positions] for part, fitted in zip(parts, fitted_sets, strict=True)]
        matrices = [fitted.probabilities(rows) for fitted, rows in zip(fitted_sets, codes, strict=True)]
        scores[inputs] = StageScores.of(np.concatenate(matrices), split.target)
        for level in levels[inputs]:
            decided = [
                fitted.decide_rows(rows, level, matrix) for fitted, rows, matrix in zip(fitted_sets, codes, matrices, strict=True)
            ]
            decisions[inputs, level] = StageDecisions.join(decided)
    for design, feature_sets in batch:
        evaluation = run_stages(
            [decisions[inputs, design.thresholds] for inputs in feature_sets], [costs[inputs] for inputs in feature_sets]
        )
        calibration = calibrate_stages([scores[inputs] for inputs in feature_sets], evaluation)
        used = tuple(scalings[inputs] for inputs in feature_sets if inputs in scalings)
        labels = count_by_label(evaluation.label, split.target, problem.labels, split.units)
        yield MeasuredDesign(design, _count(evaluation, split), calibration, used, labels)
