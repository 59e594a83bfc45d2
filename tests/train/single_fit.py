"""One logistic regression on all columns, for tests that need no more."""

from __future__ import annotations

import numpy as np

from emsco_train.models.logistic.regression import LogisticModel, LogisticProblem


def fit_logistic(
    encoded: np.ndarray,
    target: np.ndarray,
    labels: int,
    *,
    weights: np.ndarray | None = None,
    C: float = 1.0,  # noqa: N803 - scikit-learn's name
) -> LogisticModel:
    """Fit one model on all columns, to convergence."""
    problem = LogisticProblem(encoded, target, labels, weights=weights, C=C)
    return problem.fit(np.ones((1, encoded.shape[1]), dtype=np.bool_)).model(0)
