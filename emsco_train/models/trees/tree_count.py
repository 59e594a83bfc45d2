"""How many boosted trees a stage model has: as many as predict best what was kept back from them.

Too few trees know too little, too many learn the rows by heart, and how many are right depends on the rows and on the features: a
stage of two features may need a tenth of the trees that one of fifty features needs. So each fit finds out for itself, from its
own rows alone: a model of a fold has not seen the rows that it scores, in this either.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.data.folds import Fold, make_folds
from emsco_train.errors import DataError
from emsco_train.support.openmp import one_openmp_thread
from emsco_train.support.stop_flag import FitStopped, StopFlag

__all__ = ["choose_tree_count"]

# Tried in turn, until the most trees of a step are not the best of all so far.
_STEPS: Final = ((10, 20, 40), (80,), (160,), (320,))
_FOLDS: Final = 3
# With more rows than this, one of the folds tells as much as all of them, in a third of the time.
_MAX_CROSS_FITTED: Final = 1_000
_LEAST_PROBABILITY: Final = 1e-15


def choose_tree_count(estimator: Any, encoded: Floats, target: Ints, weights: Floats | None, stop: StopFlag) -> int:
    """Return the number of trees with the least log loss on rows that were kept back.

    Parameters
    ----------
    estimator
        A HistGradientBoostingClassifier that is not fitted, with a seed; it is not changed.
    encoded, target, weights
        Columns, labels as positions, and weights of the rows to fit.
    stop
        Ends it early, by `FitStopped`.
    """
    folds = _divide(target, int(estimator.random_state))
    if not folds:
        return _STEPS[0][-1]
    grown = [type(estimator)(**estimator.get_params() | {"warm_start": True}) for _ in folds]
    losses = dict.fromkeys(itertools.chain(*_STEPS), 0.0)
    tried: list[int] = []
    for step in _STEPS:
        for fold, one in zip(folds, grown, strict=True):
            if stop.array[0]:
                raise FitStopped
            for count, loss in _grow(one, step, encoded, target, weights, fold):
                losses[count] += loss
        tried += step
        best = min(tried, key=losses.__getitem__)
        if best < step[-1]:
            return best
    return _STEPS[-1][-1]


def _divide(target: Ints, seed: int) -> tuple[Fold, ...]:
    """Return the rows to fit and to keep back; none where no row can be kept back."""
    # Positions without gaps: a label may not occur among these rows.
    present, position = np.unique(target, return_inverse=True)
    try:
        folds = make_folds(position, _FOLDS, rng=np.random.default_rng((seed, 3)), labels=present.tolist())
    except DataError:
        return ()
    return folds if len(target) <= _MAX_CROSS_FITTED else folds[:1]


def _grow(
    estimator: Any, counts: Sequence[int], encoded: Floats, target: Ints, weights: Floats | None, fold: Fold
) -> Iterator[tuple[int, float]]:
    """Add trees to an estimator, and yield the log loss over the rows that were kept back, a sum, with each of these counts."""
    scored = target[fold.scored]
    counted = np.ones(len(scored)) if weights is None else weights[fold.scored]
    with one_openmp_thread():
        estimator.set_params(max_iter=counts[-1])
        estimator.fit(encoded[fold.fitted], target[fold.fitted], None if weights is None else weights[fold.fitted])
        for count, probabilities in enumerate(estimator.staged_predict_proba(encoded[fold.scored]), start=1):
            if count in counts:
                likelihood = probabilities[np.arange(len(scored)), np.searchsorted(estimator.classes_, scored)]
                yield count, -float(np.log(np.maximum(likelihood, _LEAST_PROBABILITY)) @ counted)
