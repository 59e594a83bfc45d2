"""`SetCalibrator`: the temperatures of feature sets, from the scores of rows that their models have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.support.arrays import Floats, Mask
from emsco_train.data.folds import Fold
from emsco_train.data.problem import Problem, ScoredPart
from emsco_train.models.logistic.regression import LogisticBatch
from emsco_train.models.stage_model import StageFitter
from emsco_train.models.temperature import LogitMargins, TemperatureScaling, compute_margins, cross_fit_temperature

__all__ = ["SetCalibrator"]


@dataclass(frozen=True, slots=True, eq=False)
class _CalibratedSets:
    """Feature sets by their columns [sets, columns], their models of each part before scaling, and their temperatures."""

    columns: Mask
    models: tuple[LogisticBatch, ...]
    scalings: tuple[TemperatureScaling, ...]


class SetCalibrator:
    """Fits the logistic models of a cross-fitted problem's parts, and their temperatures.

    The temperature of a part comes from the scores of other parts; where folds are in order of time, of earlier parts.
    A set's temperatures depend on the problem and the set alone.
    """

    def __init__(self, problem: Problem, fitters: Sequence[StageFitter]) -> None:
        self._parts = problem.parts
        self._fitters = tuple(fitters)
        folds = [part.fold for part in problem.parts if part.fold is not None]
        self._sources = [[index for index, other in enumerate(folds) if _is_fitted_on(fold, other)] for fold in folds]
        self._last: _CalibratedSets | None = None

    def fit_part(self, part: int, columns: Mask, jobs: int) -> LogisticBatch:
        """Return the calibrated models of one part, for sets given by their columns [sets, columns]."""
        sets = self._calibrate(columns, jobs)
        return sets.models[part].with_temperatures(np.array([scaling.applied(part) for scaling in sets.scalings]))

    def scalings(self, columns: Mask, jobs: int) -> tuple[TemperatureScaling, ...]:
        """Return the temperatures of sets, given by their columns [sets, columns]."""
        return self._calibrate(columns, jobs).scalings

    def _calibrate(self, columns: Mask, jobs: int) -> _CalibratedSets:
        # The parts of a problem are fitted one after another, for the same sets.
        if self._last is None or not np.array_equal(self._last.columns, columns):
            models = tuple(fitter.fit_batch(columns, jobs) for fitter in self._fitters)
            scalings = tuple(self._fit_temperatures(models, index) for index in range(len(columns)))
            self._last = _CalibratedSets(columns, models, scalings)
        return self._last

    def _fit_temperatures(self, models: Sequence[LogisticBatch], index: int) -> TemperatureScaling:
        scored = [_score_rows(part, batch, index) for part, batch in zip(self._parts, models, strict=True)]
        return cross_fit_temperature(scored, self._sources)


def _is_fitted_on(fold: Fold, other: Fold) -> bool:
    """Tell whether the rows that `other` scores are among those that fit `fold`."""
    return bool(np.isin(other.scored, fold.fitted).all())


def _score_rows(part: ScoredPart, batch: LogisticBatch, index: int) -> LogitMargins:
    columns = np.flatnonzero(batch.columns[index])
    logits: Floats = batch.coef[index][:, columns] @ part.scored.encoded[:, columns].T + batch.intercept[index][:, None]
    # Weights of rows, not of classes: those are a means of the fits, and change nothing about what comes true.
    return LogitMargins(compute_margins(logits, part.scored.target), part.scored.weights)
