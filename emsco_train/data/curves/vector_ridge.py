"""How strongly the numbers of a vector are shrunk: an embedding of few rows needs more than other columns, hashed words less."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.data.curves.additive_fit import log_losses
from emsco_train.data.curves.choice_rows import MAX_CHOICE_ROWS, ChoiceRows, one_vs_rest_targets

__all__ = ["choose_vector_penalty"]

# Times that of other columns, ascending.
_PENALTIES = (1.0, 8.0, 64.0, 512.0)
# Rows times columns, at most: 32 MiB.
_MAX_NUMBERS = 2**22
# Which penalty predicts best shows long before the fit has converged.
_MAX_STEPS = 60


def choose_vector_penalty(
    columns: Floats,
    target: Ints,
    *,
    labels: Sequence[Label],
    groups: Ints | None,
    weights: Floats | None,
    C: float,  # noqa: N803 - scikit-learn's name
    rng: np.random.Generator,
) -> float:
    """Return the penalty that predicts best, as a multiple of 1 / C, from the standardised columns of one vector [rows, width].

    By cross-validation inside these rows, of logistic regressions of the vector alone; 1 where there are too few rows.
    """
    most = max(1, min(MAX_CHOICE_ROWS, _MAX_NUMBERS // columns.shape[1]))
    chosen = ChoiceRows.draw(target, labels=labels, groups=groups, weights=weights, rng=rng, most=most)
    if chosen is None:
        return 1.0
    own = columns[chosen.rows]
    losses = np.zeros(len(_PENALTIES))
    for fold, wanted in itertools.product(chosen.folds, one_vs_rest_targets(chosen.target, len(labels))):
        start = np.zeros(columns.shape[1] + 1)
        for place in reversed(range(len(_PENALTIES))):
            # Each starts at the one before.
            start = _fit_ridge(own[fold.fitted], wanted[fold.fitted], chosen.weights[fold.fitted], _PENALTIES[place] / C, start)
            scores = own[fold.scored] @ start[1:] + start[0]
            losses[place] += chosen.weights[fold.scored] @ log_losses(scores, wanted[fold.scored])
    return _PENALTIES[int(np.argmin(losses))]


def _fit_ridge(columns: Floats, target: Floats, weights: Floats, penalty: float, start: Floats) -> Floats:
    """Return intercept and weights of a penalised logistic regression, near its optimum."""
    from scipy.optimize import minimize  # noqa: PLC0415 - slow to load, and few tables have vectors

    def loss_and_slope(parameters: Floats) -> tuple[float, Floats]:
        scores = columns @ parameters[1:] + parameters[0]
        excess = weights * (0.5 + 0.5 * np.tanh(0.5 * scores) - target)
        slope = np.concatenate([[excess.sum()], columns.T @ excess + penalty * parameters[1:]])
        return float(weights @ log_losses(scores, target) + penalty / 2 * parameters[1:] @ parameters[1:]), slope

    found = minimize(loss_and_slope, start, jac=True, method="L-BFGS-B", options={"maxiter": _MAX_STEPS, "ftol": 1e-6})
    return np.asarray(found.x, dtype=np.float64)
