"""Learns the curves of all features together, and how strongly to shrink them towards straight lines.

The strength is chosen by cross-validation inside the rows that fit models, once for all folds: among those that predict about as
well as the best, the strongest, so that small tables are not overfitted. The strongest of all is a straight logistic regression,
without curves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Array, Floats, Ints
from emsco_train.data.curve import Curve
from emsco_train.data.curves.additive_fit import AdditiveModel, fit_additive, log_losses
from emsco_train.data.curves.basis import FeatureBasis
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.folds import Fold, make_folds
from emsco_train.data.split_keys import group_codes
from emsco_train.errors import DataError
from emsco_train.logistic.regression import LogisticProblem

__all__ = ["STRAIGHT", "choose_strength", "learn_curves"]

STRAIGHT = float("inf")
_STRENGTHS = (1.0, 4.0, 16.0, 64.0)
_FOLDS = 3
# Rows that the strength is chosen on, and that curves are learnt from, at most: thirty cells need no more.
_MAX_CHOICE_ROWS = 5_000
_MAX_ROWS = 100_000
# Columns of a straight model, at most, that curves are compared with: its fits take seconds, and more with the square.
_MAX_STRAIGHT_COLUMNS = 1_500
# A column is this part of the log-odds. The penalty of the stage models, which pulls its coefficient from 2 towards 0, then
# does as well on large and small tables as any: on Spambase and five small tables, 1 to 1/4 of it did worse on some.
_SCALE = 0.5
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
    bases = _make_bases(features, codes[rows])
    row_weights = np.ones(len(rows)) if weights is None else weights[rows]
    models = [fit_additive(bases, wanted, row_weights, strength) for wanted in _targets(target[rows], labels)]
    return tuple(_make_curve(basis, models, position, row_weights) for position, basis in enumerate(bases))


def choose_strength(
    encoder: BlockEncoder,
    features: Sequence[Feature],
    codes: Floats,
    target: Ints,
    *,
    labels: Sequence[Label],
    groups: Ints | None,
    weights: Floats | None,
    C: float,  # noqa: N803 - scikit-learn's name
    rng: np.random.Generator,
) -> float:
    """Return how strongly to shrink curves; `STRAIGHT` where straight lines predict about as well.

    `encoder` makes the columns of the straight models; C is their inverse penalty.
    """
    rows = _sample(len(codes), _MAX_CHOICE_ROWS, rng)
    codes, target, row_weights = codes[rows], target[rows], np.ones(len(rows)) if weights is None else weights[rows]
    try:
        folds = make_folds(
            target, _FOLDS, groups=None if groups is None else group_codes(groups[rows], rows=len(rows)), rng=rng, labels=labels
        )
    except DataError:
        # Too few rows of a label, or too few groups, to choose by.
        return STRAIGHT
    bases, is_straight_possible = _make_bases(features, codes), encoder.width <= _MAX_STRAIGHT_COLUMNS
    encoded = encoder.transform(codes) if is_straight_possible else None
    strengths = (*_STRENGTHS, STRAIGHT) if is_straight_possible else _STRENGTHS
    losses = np.zeros((len(strengths), len(rows)))
    for fold in folds:
        for wanted in _targets(target, len(labels)):
            losses[: len(_STRENGTHS), fold.scored] += list(_curved_losses(bases, wanted, row_weights, fold))
            if encoded is not None:
                losses[-1, fold.scored] += _straight_losses(encoder, encoded, wanted, row_weights, C, fold)
    return strengths[_strongest_of_the_good(losses * row_weights)]


def _strongest_of_the_good(losses: Floats) -> int:
    """Return the last of those whose loss exceeds the lowest by no more than one standard error of the difference."""
    excess = losses - losses[np.argmin(losses.sum(axis=1))]
    is_good = excess.sum(axis=1) <= excess.std(axis=1) * np.sqrt(losses.shape[1])
    return int(np.flatnonzero(is_good)[-1])


def _curved_losses(bases: Sequence[FeatureBasis], wanted: Floats, weights: Floats, fold: Fold) -> Iterator[Floats]:
    """Yield the losses of the scored rows for each strength, from the weakest."""
    fitted, scored = fold.fitted, fold.scored
    near, far = [basis.take(fitted) for basis in bases], [basis.take(scored) for basis in bases]
    models: list[AdditiveModel] = []
    for strength in reversed(_STRENGTHS):
        # Each starts at the one before.
        models.append(fit_additive(near, wanted[fitted], weights[fitted], strength, models[-1] if models else None))
    return (log_losses(model.scores(far), wanted[scored]) for model in reversed(models))


def _straight_losses(
    encoder: BlockEncoder,
    encoded: Floats,
    wanted: Floats,
    weights: Floats,
    C: float,  # noqa: N803
    fold: Fold,
) -> Floats:
    fitted, scored = fold.fitted, fold.scored
    groups, target = encoder.one_hot_groups, wanted[fitted].astype(np.intp)
    problem = LogisticProblem(encoded[fitted], target, 2, weights=weights[fitted], C=C, one_hot_groups=groups)
    batch = problem.fit(np.ones((1, encoded.shape[1]), dtype=np.bool_))
    return log_losses(encoded[scored] @ batch.coef[0, 0] + batch.intercept[0, 0], wanted[scored])


def _make_bases(features: Sequence[Feature], codes: Floats) -> list[FeatureBasis]:
    return [FeatureBasis.of(feature, codes[:, position]) for position, feature in enumerate(features)]


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
    rounded = np.round(_SCALE * levels, _DECIMALS) + 0.0  # without -0.0
    return Curve(knots, tuple(map(tuple, rounded.tolist())))


def _sample(count: int, most: int, rng: np.random.Generator) -> Array:
    """Return the positions of at most so many rows."""
    return np.arange(count) if count <= most else np.sort(rng.permutation(count)[:most])
