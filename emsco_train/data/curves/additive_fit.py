"""The joint fit of the shapes of all features: a penalised additive logistic regression, one feature after the other.

Over the cells of a feature, slope and curvature of the loss are two sums per cell. So a step for one feature takes one pass over
the rows, whatever the number of cells, and a sweep over the features grows linearly with their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.support.arrays import Floats
from emsco_train.data.curves.basis import FeatureBasis

__all__ = ["STRAIGHT", "AdditiveModel", "CurvePenalties", "fit_additive", "log_losses"]

STRAIGHT = float("inf")
_MAX_SWEEPS = 50
# The last sweep lowered the mean loss by less than this. A hundredth of it took four times as long and predicted no better.
_TOLERANCE = 1e-4
# The curvature of a logistic loss is nowhere larger: with it, every step lowers the loss.
_MAX_CURVATURE = 0.25


@dataclass(frozen=True, slots=True)
class CurvePenalties:
    """How strongly coefficients are shrunk: those of lines, categories and gaps, and those of steps.

    Steps that are `STRAIGHT`, infinitely strong, leave straight lines.
    """

    line: float = 1.0
    step: float = STRAIGHT

    def of(self, basis: FeatureBasis) -> Floats:
        """Return the penalty of each column."""
        return np.where(basis.is_step, self.step, self.line)


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveModel:
    """An intercept, and the coefficients of the columns of each feature's basis."""

    intercept: float
    coefficients: tuple[Floats, ...]

    def scores(self, bases: Sequence[FeatureBasis]) -> Floats:
        """Return the log-odds of the rows of some bases."""
        scores = np.full(len(bases[0].cells), self.intercept)
        for basis, coefficients in zip(bases, self.coefficients, strict=True):
            scores += basis.levels(coefficients)[basis.cells]
        return scores


def fit_additive(
    bases: Sequence[FeatureBasis],
    target: Floats,
    weights: Floats,
    shrinkage: CurvePenalties,
    start: AdditiveModel | None = None,
) -> AdditiveModel:
    """Fit the log-odds of a target of zeros and ones, with rows by weight."""
    mean = float(np.average(target, weights=weights))
    if mean in (0.0, 1.0):
        return AdditiveModel(0.0, tuple(np.zeros(len(basis.is_step)) for basis in bases))
    model = start or AdditiveModel(np.log(mean / (1.0 - mean)), tuple(np.zeros(len(basis.is_step)) for basis in bases))
    penalties = [shrinkage.of(basis) for basis in bases]
    scores, is_bounded = model.scores(bases), False
    loss = _total_loss(model, scores, target, weights, penalties)
    for _ in range(_MAX_SWEEPS):
        improved = _sweep(model, scores, bases, target, weights, penalties, is_bounded=is_bounded)
        improved_scores = improved.scores(bases)
        improved_loss = _total_loss(improved, improved_scores, target, weights, penalties)
        if improved_loss > loss:
            if is_bounded:
                break
            is_bounded = True
            continue
        gain, model, scores, loss, is_bounded = loss - improved_loss, improved, improved_scores, improved_loss, False
        if gain < _TOLERANCE * weights.sum():
            break
    return model


def log_losses(scores: Floats, target: Floats) -> Floats:
    """Return the log loss of each row's log-odds."""
    return np.asarray(np.logaddexp(0.0, scores) - target * scores)


def _total_loss(model: AdditiveModel, scores: Floats, target: Floats, weights: Floats, penalties: Sequence[Floats]) -> float:
    shrinkage = sum(float(penalty @ own**2) for penalty, own in zip(penalties, model.coefficients, strict=True))
    return float(weights @ log_losses(scores, target)) + shrinkage / 2


def _sweep(
    model: AdditiveModel,
    scores: Floats,
    bases: Sequence[FeatureBasis],
    target: Floats,
    weights: Floats,
    penalties: Sequence[Floats],
    *,
    is_bounded: bool,
) -> AdditiveModel:
    """Take one Newton step for the intercept, then for each feature; `is_bounded`: smaller steps that cannot fail.

    `scores` are the model's own.
    """
    coefficients = []
    slope, curvature = _derivatives(scores, target, weights, is_bounded=is_bounded)
    shift = -slope.sum() / curvature.sum()
    scores = scores + shift
    for basis, own, penalty in zip(bases, model.coefficients, penalties, strict=True):
        slope, curvature = _derivatives(scores, target, weights, is_bounded=is_bounded)
        step = basis.newton_step(slope, curvature, own, penalty)
        scores -= basis.levels(step)[basis.cells]
        coefficients.append(own - step)
    return AdditiveModel(model.intercept + float(shift), tuple(coefficients))


def _derivatives(scores: Floats, target: Floats, weights: Floats, *, is_bounded: bool) -> tuple[Floats, Floats]:
    probabilities = 0.5 + 0.5 * np.tanh(0.5 * scores)
    slope = weights * (probabilities - target)
    return slope, weights * (_MAX_CURVATURE if is_bounded else probabilities * (1.0 - probabilities))
