"""The importance of features in a fitted model: what shuffling each of them costs."""

from __future__ import annotations

import numpy as np

from emsco_runtime.support.arrays import Floats
from emsco_train.data.labelled_rows import Split
from emsco_train.models.fitted_set import FittedSet

__all__ = ["measure_importance"]

# Enough for an order; a model of trees takes about a second for as many, per hundred features.
_MAX_ROWS = 5_000


def measure_importance(full: FittedSet, rows: Split, rng: np.random.Generator) -> Floats:
    """Return how much the log loss of a model of all features grows on rows when each feature is shuffled; at least 0."""
    few = rows if len(rows) <= _MAX_ROWS else rows.take(np.sort(rng.permutation(len(rows))[:_MAX_ROWS]))
    before = _log_loss(full, few.codes, few)
    importance = np.zeros(len(full.inputs))
    for feature, name in enumerate(full.inputs):
        codes, shuffled = few.codes.copy(), few.encoder.positions([name])
        codes[:, shuffled] = codes[rng.permutation(len(codes))][:, shuffled]
        importance[feature] = max(0.0, _log_loss(full, codes, few) - before)
    return importance


def _log_loss(full: FittedSet, codes: Floats, rows: Split) -> float:
    probabilities = full.probabilities(codes[:, full.positions])[np.arange(len(codes)), rows.target]
    return float(np.average(-np.log(np.maximum(probabilities, 1e-15)), weights=rows.weights))
