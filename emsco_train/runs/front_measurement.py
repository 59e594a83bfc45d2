"""What designs do on rows that the search did not measure them on: figures, and how honest their confidences are."""

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
from emsco_train.models.evaluation import Evaluation, evaluate, run_stages
from emsco_train.models.fitted_set import StageDecisions

__all__ = ["MeasuredDesign", "measure_designs", "measure_fitted_design"]

_FeatureSets: TypeAlias = tuple[tuple[str, ...], ...]

# Scores that are held at a time.
_MAX_BYTES = 2**27


@dataclass(frozen=True, slots=True)
class MeasuredDesign:
    """A design on some rows.

    Parameters
    ----------
    design
        The design.
    figures
        What it does there.
    calibration
        How honest each stage's confidence is there.
    """

    design: Design
    figures: Counts
    calibration: tuple[StageCalibration, ...]


def measure_designs(
    problem: Problem, split: Split, designs: Sequence[Design], fitter: CascadeFitter, *, jobs: int = 1
) -> Iterator[MeasuredDesign]:
    """Fit designs and walk the rows of a split through them; each feature set is fitted and scored once for many designs.

    Parameters
    ----------
    problem
        Whose rows they are.
    split
        The rows to measure on.
    designs
        Designs of this problem, at any thresholds.
    fitter
        Fits designs of this problem.
    jobs
        Threads for the fits; results do not depend on their number.
    """
    feature_sets_by_design = [(design, _cumulative_sets(design, fitter)) for design in designs]
    most = max(1, _MAX_BYTES // (len(split) * _estimate_bytes_per_row(len(problem.labels))))
    for part in _split_into_batches(feature_sets_by_design, most):
        yield from _measure_batch(problem, split, part, fitter, jobs)


def measure_fitted_design(problem: Problem, split: Split, design: Design, model: CascadeModel) -> MeasuredDesign:
    """Walk the rows of a split through a design that is fitted already.

    Parameters
    ----------
    problem, split, design
        As in `measure_designs`.
    model
        The fitted design.
    """
    names = [feature.name for feature in model.features]
    evaluation = evaluate(model, split.codes[:, problem.encoder.positions(names)])
    return MeasuredDesign(design, _count(evaluation, split.target), calibrate(evaluation, split.target))


def _count(evaluation: Evaluation, target: Ints) -> Counts:
    accepted = evaluation.accepted
    right = accepted & (evaluation.label == target)
    return Counts(len(accepted), int(accepted.sum()), int(right.sum()), mean_cost(evaluation.cost.tolist()))


def _estimate_bytes_per_row(labels: int) -> int:
    """Return about how much is held of a row that a feature set has scored."""
    return 8 * labels + 32


def _cumulative_sets(design: Design, fitter: CascadeFitter) -> _FeatureSets:
    stages = itertools.accumulate(design.stages)
    return tuple(fitter.sets.sort_by_column(names) for names in stages)


def _split_into_batches(
    feature_sets_by_design: Sequence[tuple[Design, _FeatureSets]], most: int
) -> Iterator[list[tuple[Design, _FeatureSets]]]:
    """Divide designs into parts that have at most so many different feature sets, or one design."""
    part: list[tuple[Design, _FeatureSets]] = []
    known: set[tuple[str, ...]] = set()
    for design, feature_sets in feature_sets_by_design:
        if part and len(known.union(feature_sets)) > most:
            yield part
            part, known = [], set()
        part.append((design, feature_sets))
        known.update(feature_sets)
    if part:
        yield part


def _measure_batch(
    problem: Problem, split: Split, part: Sequence[tuple[Design, _FeatureSets]], fitter: CascadeFitter, jobs: int
) -> Iterator[MeasuredDesign]:
    levels: dict[tuple[str, ...], set[tuple[float, ...]]] = {}
    for design, feature_sets in part:
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
    for design, feature_sets in part:
        evaluation = run_stages(
            [decisions[inputs, design.thresholds] for inputs in feature_sets], [costs[inputs] for inputs in feature_sets]
        )
        calibration = calibrate_stages([scores[inputs] for inputs in feature_sets], evaluation)
        yield MeasuredDesign(design, _count(evaluation, split.target), calibration)
