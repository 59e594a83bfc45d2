"""Learns the curves of all features together, and how strongly to shrink them towards straight lines.

Both penalties are chosen by cross-validation inside the rows that fit models, once for all folds: that of lines for straight
models, since those of wide tables need more; then that of steps, among those that predict about as well as the best the
strongest, so that small tables are not overfitted. The strongest of all is a straight model, without curves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.data.curve import Curve
from emsco_train.data.curves.additive_fit import CurvePenalties, fit_additive, log_losses
from emsco_train.data.curves.basis import FeatureBasis
from emsco_train.data.curves.choice_rows import ChoiceRows, one_vs_rest_targets, sample_rows
from emsco_train.data.directions import UNDIRECTED, Directions

__all__ = ["choose_penalties", "learn_curves", "principal_columns"]

_LINE_PENALTIES = (1.0, 8.0, 64.0, 512.0)
# Times that of lines.
_STEP_PENALTIES = (1.0, 4.0, 16.0, 64.0)
# Rows that curves are learned from, at most.
_MAX_ROWS = 100_000
# Columns of a feature in the stage models of several labels, more of which added nothing on NSL-KDD; one, where the model of all
# features would have more parameters than this: the time of a fit grows with their third power.
_MAX_COLUMNS = 2
_MAX_PARAMETERS = 1_000
# Beyond these decimals levels depend on the machine.
_DECIMALS = 12


def learn_curves(
    features: Sequence[Feature],
    codes: Floats,
    target: Ints,
    *,
    labels: int,
    weights: Floats | None,
    penalties: CurvePenalties,
    rng: np.random.Generator,
    directions: Directions = UNDIRECTED,
) -> tuple[Curve, ...]:
    """Return the curve of each feature, from the codes [rows, features] and the labels of the rows that fit models."""
    rows = sample_rows(len(codes), _MAX_ROWS, rng)
    bases = _make_bases(features, codes[rows], directions)
    row_weights = np.ones(len(rows)) if weights is None else weights[rows]
    models = [fit_additive(bases, wanted, row_weights, penalties) for wanted in one_vs_rest_targets(target[rows], labels)]
    widths = _column_counts(features, labels)
    return tuple(
        _make_curve(basis, [model.coefficients[place] for model in models], row_weights, width)
        for place, (basis, width) in enumerate(zip(bases, widths, strict=True))
    )


def choose_penalties(
    features: Sequence[Feature],
    codes: Floats,
    target: Ints,
    *,
    labels: Sequence[Label],
    groups: Ints | None,
    weights: Floats | None,
    rng: np.random.Generator,
    directions: Directions = UNDIRECTED,
) -> CurvePenalties:
    """Return how strongly to shrink curves; steps are `STRAIGHT` where straight lines predict about as well."""
    chosen = ChoiceRows.draw(target, labels=labels, groups=groups, weights=weights, rng=rng)
    if chosen is None:
        return CurvePenalties()
    codes = codes[chosen.rows]
    curved = _make_bases(features, codes, directions)
    if sum(int(basis.is_step.sum()) for basis in curved) > len(codes):
        # A wide table: where steps outnumber rows, which penalty is best says nothing about their shape.
        return CurvePenalties()
    straight = [basis.straightened(column) for basis, column in zip(curved, codes.T, strict=True)]
    lines = [CurvePenalties(line) for line in _LINE_PENALTIES]
    straight_losses = _held_out_losses(straight, chosen, len(labels), lines)
    best = int(np.argmin(straight_losses.sum(axis=1)))
    line = _LINE_PENALTIES[best]
    candidates = [CurvePenalties(line, factor * line) for factor in _STEP_PENALTIES]
    curved_losses = _held_out_losses(curved, chosen, len(labels), candidates)
    losses = np.vstack([curved_losses, straight_losses[best]])
    return [*candidates, CurvePenalties(line)][_choose_by_one_standard_error(losses)]


def _make_bases(features: Sequence[Feature], codes: Floats, directions: Directions) -> list[FeatureBasis]:
    columns = zip(features, codes.T, strict=True)
    return [FeatureBasis.of(feature, column, directions.of(feature.name)) for feature, column in columns]


def _choose_by_one_standard_error(losses: Floats) -> int:
    """Return the last of those whose loss exceeds the lowest by no more than one standard error of the difference."""
    excess = losses - losses[np.argmin(losses.sum(axis=1))]
    is_good = excess.sum(axis=1) <= excess.std(axis=1) * np.sqrt(losses.shape[1])
    return int(np.flatnonzero(is_good)[-1])


def _held_out_losses(
    bases: Sequence[FeatureBasis], chosen: ChoiceRows, labels: int, candidates: Sequence[CurvePenalties]
) -> Floats:
    """Return the loss of each row [candidates, rows], by weight, under models of the other folds; penalties are ascending."""
    losses, weights = np.zeros((len(candidates), len(chosen.rows))), chosen.weights
    for fold, wanted in itertools.product(chosen.folds, one_vs_rest_targets(chosen.target, labels)):
        fitted, scored = ([basis.take(rows) for basis in bases] for rows in (fold.fitted, fold.scored))
        model = None
        for place in reversed(range(len(candidates))):
            # Each starts at the one before.
            model = fit_additive(fitted, wanted[fold.fitted], weights[fold.fitted], candidates[place], model)
            losses[place, fold.scored] += log_losses(model.scores(scored), wanted[fold.scored])
    return losses * weights


def _column_counts(features: Sequence[Feature], labels: int) -> list[int]:
    """Return how many columns of stage models the curve of each feature has, whatever rows it is learned from."""
    counts = [_column_count(feature, labels) for feature in features]
    return counts if labels * sum(counts) <= _MAX_PARAMETERS else [1] * len(counts)


def _column_count(feature: Feature, labels: int) -> int:
    # Levels differ from their mean: those of two cells by one number.
    cells = {"boolean": 2, "categorical": len(feature.categories)}.get(feature.kind, math.inf)
    return int(min(labels - 1, _MAX_COLUMNS, max(1, cells - 1 + (feature.missing == "impute"))))


def _make_curve(basis: FeatureBasis, coefficients: Sequence[Floats], weights: Floats, width: int) -> Curve:
    levels = np.array([basis.levels(own)[:-1] for own in coefficients])
    cells = levels.shape[1]
    mass: Floats = np.bincount(basis.cells, weights, cells + 1)[:cells].astype(np.float64)
    # Level 0 is the mean of the rows. A gap that no row had counts as such a mean, too.
    levels = levels - (levels @ mass / max(mass.sum(), np.finfo(np.float64).tiny))[:, None]
    levels[:, -1] *= mass[-1] > 0.0
    knots = None if basis.knots is None else tuple(basis.knots.tolist())
    rounded = np.round(levels, _DECIMALS) + 0.0  # without -0.0
    if basis.direction:
        # To the last bit: sums of rising steps may fall by a rounding error.
        way = np.maximum if basis.direction > 0 else np.minimum
        rounded[:, :-1] = way.accumulate(rounded[:, :-1], axis=1)
    columns = None if len(rounded) <= width else principal_columns(rounded, mass, width)
    return Curve(knots, _as_tuples(rounded), None if columns is None else _as_tuples(columns))


def principal_columns(levels: Floats, mass: Floats, width: int) -> Floats:
    """Return the few combinations of the levels of labels [labels, cells] that vary most over the rows.

    They are orthonormal combinations, so that penalties mean the same for weights of columns as for weights of labels.
    """
    combinations, _, _ = np.linalg.svd(levels * np.sqrt(mass))
    chosen = combinations[:, :width].T
    # Either sign is as good: the same one on every machine.
    largest = np.argmax(np.abs(chosen) > np.abs(chosen).max(axis=1, keepdims=True) / 2, axis=1)
    signs = np.sign(chosen[np.arange(width), largest])
    columns: Floats = np.round((signs[:, None] * chosen) @ levels, _DECIMALS) + 0.0
    return columns


def _as_tuples(levels: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, levels.tolist()))
