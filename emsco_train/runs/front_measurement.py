"""What designs do on rows that the search did not measure them on: figures, and how well their confidences are calibrated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from emsco_runtime.bundle.summary import mean_cost
from emsco_runtime.support.arrays import Ints
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem
from emsco_train.designs.counts import Counts
from emsco_train.designs.design import Design
from emsco_train.guarantee.calibration import StageCalibration, StageScores, calibrate, calibrate_stages
from emsco_train.models.cascade_model import CascadeFitter, CascadeModel
from emsco_train.models.evaluation import Evaluation, evaluate_split, run_stages
from emsco_train.models.fitted_set import StageDecisions

__all__ = ["MeasuredDesign", "measure_designs", "measure_fitted_design"]

# A design, and the features of all stages so far for each stage, in column order.
_DesignWithSets: TypeAlias = tuple[Design, tuple[tuple[str, ...], ...]]

# Scores that are held at a time.
_MAX_BYTES = 2**27


@dataclass(frozen=True, slots=True)
class MeasuredDesign:
    """A design, what it does on some rows, and how well the confidence of each stage is calibrated there."""

    design: Design
    figures: Counts
    calibration: tuple[StageCalibration, ...]


def measure_designs(
    problem: Problem, split: Split, designs: Sequence[Design], fitter: CascadeFitter, *, jobs: int = 1
) -> Iterator[MeasuredDesign]:
    """Fit designs and run the rows of a split through them; each feature set is fitted and scored once for many designs.

    The designs may have different thresholds. `jobs` is the number of threads for the fits; results do not depend on it.
    """
    # About what is held of a row that a feature set has scored.
    bytes_per_row = 8 * len(problem.labels) + 32
    most = max(1, _MAX_BYTES // (len(split) * bytes_per_row))
    sort = fitter.sets.sort_by_column
    prepared = [(design, tuple(sort(names) for names in itertools.accumulate(design.stages))) for design in designs]
    for batch in _split_into_batches(prepared, most):
        yield from _measure_batch(problem, split, batch, fitter, jobs)


def measure_fitted_design(problem: Problem, split: Split, design: Design, model: CascadeModel) -> MeasuredDesign:
    """Run the rows of a split through a design that is fitted already."""
    evaluation = evaluate_split(problem, model, split)
    return MeasuredDesign(design, _count(evaluation, split.target), calibrate(evaluation, split.target))


def _count(evaluation: Evaluation, target: Ints) -> Counts:
    accepted = evaluation.accepted
    right = accepted & (evaluation.label == target)
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
    problem: Problem, split: Split, batch: Sequence[_DesignWithSets], fitter: CascadeFitter, jobs: int
) -> Iterator[MeasuredDesign]:
    levels: dict[tuple[str, ...], set[tuple[float, ...]]] = {}
    for design, feature_sets in batch:
        for inputs in feature_sets:
            levels.setdefault(inputs, set()).add(design.thresholds)
    costs = {inputs: problem.meter.cost(inputs) for inputs in levels}
    scores: dict[tuple[str, ...], StageScores] = {}
    decisions: dict[tuple[tuple[str, ...], tuple[float, ...]], StageDecisions] = {}
    for fitted in fitter.sets.fit_many(list(levels), jobs):
        inputs, codes = fitted.inputs, split.codes[:, fitted.positions]
        matrix = fitted.probabilities(codes)
        scores[inputs] = StageScores.of(matrix, split.target)
        decisions |= {(inputs, level): fitted.decide_rows(codes, level, matrix) for level in levels[inputs]}
    for design, feature_sets in batch:
        evaluation = run_stages(
            [decisions[inputs, design.thresholds] for inputs in feature_sets], [costs[inputs] for inputs in feature_sets]
        )
        calibration = calibrate_stages([scores[inputs] for inputs in feature_sets], evaluation)
        yield MeasuredDesign(design, _count(evaluation, split.target), calibration)
