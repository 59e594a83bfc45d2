"""Learns the curves of all features together, and how strongly to shrink them towards straight lines.

The strength is chosen by cross-validation inside the rows that fit models, once for all folds: among those that predict about as
well as the best, the strongest, so that small tables are not overfitted. The strongest of all is a straight logistic regression,
without curves.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Array, Floats, Ints
from emsco_train.data.curve import LEVEL_SCALE, Curve
from emsco_train.data.curves.additive_fit import AdditiveModel, fit_additive, log_losses
from emsco_train.data.curves.basis import FeatureBasis
from emsco_train.data.folds import Fold, make_folds
from emsco_train.data.split_keys import group_codes
from emsco_train.errors import DataError

__all__ = ["STRAIGHT", "choose_strength", "learn_curves"]

STRAIGHT = float("inf")
_STRENGTHS = (1.0, 4.0, 16.0, 64.0)
_FOLDS = 3
# Fewer rows cannot say whether a curve is better than a line.
_MIN_CHOICE_ROWS = 50
# Rows that the strength is chosen on, and that curves are learnt from, at most: thirty cells need no more.
_MAX_CHOICE_ROWS = 5_000
_MAX_ROWS = 100_000
# Beyond these decimals levels depend on the machine.
_DECIMALS = 12


def learn_curves(
    features: Sequence[Feature],
    codes: Floats,
    target: Ints,
    *,
    labels: int,
    weights: Floats | None,
    strength: float,
    rng: np.random.Generator,
) -> tuple[Curve, ...]:
    """Return the curve of each feature, from the codes [rows, features] and the labels of the rows that fit models."""
    rows = _sample(len(codes), _MAX_ROWS, rng)
    bases = [FeatureBasis.of(*column) for column in zip(features, codes[rows].T, strict=True)]
    row_weights = np.ones(len(rows)) if weights is None else weights[rows]
    models = [fit_additive(bases, wanted, row_weights, strength) for wanted in _targets(target[rows], labels)]
    return tuple(_make_curve(basis, models, position, row_weights) for position, basis in enumerate(bases))


def choose_strength(
    features: Sequence[Feature],
    codes: Floats,
    target: Ints,
    *,
    labels: Sequence[Label],
    groups: Ints | None,
    weights: Floats | None,
    rng: np.random.Generator,
) -> float:
    """Return how strongly to shrink curves; `STRAIGHT` where straight lines predict about as well."""
    rows = _sample(len(codes), _MAX_CHOICE_ROWS, rng)
    codes, target, row_weights = codes[rows], target[rows], np.ones(len(rows)) if weights is None else weights[rows]
    own_groups = None if groups is None else group_codes(groups[rows], rows=len(rows))
    try:
        folds = make_folds(target, _FOLDS, groups=own_groups, rng=rng, labels=labels)
    except DataError:
        # Too few groups, or too few rows of a label.
        return STRAIGHT
    if sum(len(fold.scored) for fold in folds) < _MIN_CHOICE_ROWS:
        return STRAIGHT
    curved = [FeatureBasis.of(*column) for column in zip(features, codes.T, strict=True)]
    straight = [FeatureBasis.straight(*column) for column in zip(features, codes.T, strict=True)]
    losses = np.zeros((len(_STRENGTHS) + 1, len(rows)))
    for fold, wanted in itertools.product(folds, _targets(target, len(labels))):
        losses[:-1, fold.scored] += _held_out_losses(curved, wanted, row_weights, fold, _STRENGTHS)
        losses[-1:, fold.scored] += _held_out_losses(straight, wanted, row_weights, fold, (STRAIGHT,))
    return (*_STRENGTHS, STRAIGHT)[_strongest_of_the_good(losses * row_weights)]


def _strongest_of_the_good(losses: Floats) -> int:
    """Return the last of those whose loss exceeds the lowest by no more than one standard error of the difference."""
    excess = losses - losses[np.argmin(losses.sum(axis=1))]
    is_good = excess.sum(axis=1) <= excess.std(axis=1) * np.sqrt(losses.shape[1])
    return int(np.flatnonzero(is_good)[-1])


def _held_out_losses(
    bases: Sequence[FeatureBasis], wanted: Floats, weights: Floats, fold: Fold, strengths: Sequence[float]
) -> Floats:
    """Return the losses of the rows that a fold scores [strengths, rows]."""
    fitted, scored = ([basis.take(rows) for basis in bases] for rows in (fold.fitted, fold.scored))
    model, losses = None, []
    for strength in reversed(strengths):
        # Each starts at the one before.
        model = fit_additive(fitted, wanted[fold.fitted], weights[fold.fitted], strength, model)
        losses.append(log_losses(model.scores(scored), wanted[fold.scored]))
    return np.array(losses[::-1])


def _targets(target: Ints, labels: int) -> list[Floats]:
    """Return what each output is fitted to: the second of two labels, or each of several against the others."""
    return [(target == label).astype(np.float64) for label in ((1,) if labels == 2 else range(labels))]


def _make_curve(basis: FeatureBasis, models: Sequence[AdditiveModel], position: int, weights: Floats) -> Curve:
    cells = len(basis.columns) - 1
    levels = np.array([basis.columns[:cells] @ model.coefficients[position] for model in models])
    mass = np.bincount(basis.cells, weights, cells + 1)[:cells]
    # Level 0 is the mean of the rows. A gap that no row had counts as such a mean, too.
    levels = levels - (levels @ mass / max(mass.sum(), np.finfo(np.float64).tiny))[:, None]
    levels[:, -1] *= mass[-1] > 0.0
    knots = None if basis.knots is None else tuple(basis.knots.tolist())
    rounded = np.round(LEVEL_SCALE * levels, _DECIMALS) + 0.0  # without -0.0
    return Curve(knots, tuple(map(tuple, rounded.tolist())))


def _sample(count: int, most: int, rng: np.random.Generator) -> Array:
    """Return the positions of at most so many rows."""
    return np.arange(count) if count <= most else np.sort(rng.permutation(count)[:most])
