"""`TreeClassifier`: boosted trees as a classifier, the same for all libraries that fit them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emsco_runtime.support.arrays import Floats
from emsco_train.models.logistic.regression import softmax
from emsco_train.models.trees.tree_ensemble import TreeEnsemble

__all__ = ["TreeClassifier"]


@dataclass(frozen=True, slots=True, eq=False)
class TreeClassifier:
    """Trees that give one score per label; with two labels, one score, of the second against the first.

    Probabilities are the softmax of the scores, where the score of the first of two labels is 0. `is_rounded`: the library that
    fitted them adds up in float32, so its own probabilities are these, rounded.
    """

    ensemble: TreeEnsemble
    is_rounded: bool = False

    @property
    def labels(self) -> int:
        """Number of labels."""
        return max(2, len(self.ensemble.base))

    def probabilities(self, encoded: Floats) -> Floats:
        """Return the probabilities [rows, labels] of rows [rows, columns]."""
        scores = self.ensemble.scores(encoded)
        if scores.shape[1] == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        return softmax(scores)
