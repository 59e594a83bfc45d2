"""`ChoiceRows`: the rows, of those that fit models, on which penalties are chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Array, Floats, Ints
from emsco_train.data.folds import Fold, make_folds
from emsco_train.data.split_keys import group_codes
from emsco_train.errors import DataError

__all__ = ["MAX_CHOICE_ROWS", "ChoiceRows", "one_vs_rest_targets", "sample_rows"]

# At most: thirty cells need no more.
MAX_CHOICE_ROWS = 5_000
# Fewer cannot tell one penalty from another.
_MIN_CHOICE_ROWS = 50
_FOLDS = 3


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceRows:
    """Positions of some rows, their labels and weights, and folds of them."""

    rows: Array
    target: Ints
    weights: Floats
    folds: tuple[Fold, ...]

    @classmethod
    def draw(
        cls,
        target: Ints,
        *,
        labels: Sequence[Label],
        groups: Ints | None,
        weights: Floats | None,
        rng: np.random.Generator,
        most: int = MAX_CHOICE_ROWS,
    ) -> ChoiceRows | None:
        """Return at most `most` rows; None where there are too few rows, rows of a label, or groups to choose anything by."""
        rows = sample_rows(len(target), most, rng)
        own, row_weights = target[rows], np.ones(len(rows)) if weights is None else weights[rows]
        own_groups = None if groups is None else group_codes(groups[rows], rows=len(rows))
        try:
            folds = make_folds(own, _FOLDS, groups=own_groups, rng=rng, labels=labels)
        except DataError:
            return None
        if sum(len(fold.scored) for fold in folds) < _MIN_CHOICE_ROWS:
            return None
        return cls(rows, own, row_weights, tuple(folds))


def sample_rows(count: int, most: int, rng: np.random.Generator) -> Array:
    """Return the positions of at most `most` of `count` rows."""
    return np.arange(count) if count <= most else np.sort(rng.permutation(count)[:most])


def one_vs_rest_targets(target: Ints, labels: int) -> list[Floats]:
    """Return what each output is fitted to: the second of two labels, or each of several against the others."""
    return [(target == label).astype(np.float64) for label in ((1,) if labels == 2 else range(labels))]
