"""Scorers of feature sets: fit a model on the train rows, score the validation rows. The slow part of a search."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from emsco_runtime.support.arrays import Ints, Mask
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.problem import Problem
from emsco_train.models.borderline import ThresholdLevels, settle_top_labels
from emsco_train.models.fitted_set import FittedSet, SetFitter
from emsco_train.models.logistic.regression import LogisticBatch, top_labels
from emsco_train.models.logistic.row_blocks import RowBlocks
from emsco_train.search.scoring.bit_cache import SetScorer, TopScores

__all__ = ["set_scorer"]

# Scores that are held at a time, before they become bits.
_CHUNK_BYTES = 2**26
_BYTES_PER_SCORE = 16
# Sets that are handed to each thread at a time: Ctrl-C waits for these.
_SETS_PER_THREAD = 4


def set_scorer(problem: Problem, thresholds: Sequence[Sequence[float]], jobs: int) -> SetScorer:
    """Return the scorer that a problem's stage settings call for.

    Parameters
    ----------
    problem
        Train rows to fit, validation rows to score.
    thresholds
        For each threshold of a sweep, the confidence that each label needs: scores near one of them are the reference's.
    jobs
        Threads; the scores do not depend on their number.
    """
    fitter = SetFitter.of(problem)
    if problem.settings.classifier is None:
        return _LogisticScorer(problem, fitter, [ThresholdLevels(each) for each in thresholds], jobs)
    return _ClassifierScorer(problem, fitter, jobs)


class _LogisticScorer:
    """Logistic regressions, fitted in batches; the same fits that an export makes."""

    def __init__(self, problem: Problem, fitter: SetFitter, levels: Sequence[ThresholdLevels], jobs: int) -> None:
        self._fitter = fitter
        self._levels = levels
        self._names = problem.names
        self._codes = problem.validation.codes
        self._rows = RowBlocks.of(problem.validation.encoded, problem.encoder.one_hot_groups)
        self._column_feature = _column_features(problem.encoder)
        self._jobs = jobs
        self._chunk = max(1, _CHUNK_BYTES // (_BYTES_PER_SCORE * len(problem.validation)))

    def score(self, sets: Mask) -> Iterator[TopScores]:
        for start in range(0, len(sets), self._chunk):
            part = sets[start : start + self._chunk]
            batch = self._fitter.stages.fit_batch(part[:, self._column_feature], self._jobs)
            top = top_labels(batch, self._rows, workers=self._jobs)
            settle_top_labels(top, self._levels, self._codes, partial(self._fitted_set, part, batch))
            yield TopScores(top.label, top.confidence)

    def _fitted_set(self, sets: Mask, batch: LogisticBatch, index: int) -> FittedSet:
        return self._fitter.from_model(_names_in_set(self._names, sets[index]), batch.model(index))


class _ClassifierScorer:
    """Any other classifier: a fit for each set, scored through its own ONNX graph, row by row, as production would."""

    def __init__(self, problem: Problem, fitter: SetFitter, jobs: int) -> None:
        self._names = problem.names
        self._codes = problem.validation.codes
        self._fitter = fitter
        self._jobs = jobs
        self._conversion_lock = threading.Lock()

    def score(self, sets: Mask) -> Iterator[TopScores]:
        chosen = [_names_in_set(self._names, one) for one in sets]
        if self._jobs == 1:
            yield from map(self._score_one, chosen)
            return
        batch_size = self._jobs * _SETS_PER_THREAD
        for start in range(0, len(chosen), batch_size):
            yield from self._score_many(chosen[start : start + batch_size])

    def _score_many(self, chosen: Sequence[tuple[str, ...]]) -> list[TopScores]:
        """Score some sets in threads; each depends on its own set alone, so the number of threads changes nothing."""
        from sklearn import config_context, get_config  # noqa: PLC0415 - a search with our own models never needs it

        settings = get_config()

        def score(names: tuple[str, ...]) -> TopScores:
            # scikit-learn keeps the user's settings for each thread apart.
            with config_context(**settings):
                return self._score_one(names)

        # Filters of warnings belong to the whole process: what threads that change them at a time leave behind is put right.
        with warnings.catch_warnings(), ThreadPoolExecutor(self._jobs) as pool:
            return list(pool.map(score, chosen))

    def _score_one(self, names: tuple[str, ...]) -> TopScores:
        fitted = self._fitter.fit(names)
        with self._conversion_lock:
            # The converter is not known to be safe in threads.
            _ = fitted.graph
        scores = fitted.reference_scores(self._codes[:, fitted.positions])
        label = scores.argmax(axis=1)[None, :]
        return TopScores(label, scores.max(axis=1)[None, :])


def _names_in_set(names: Sequence[str], chosen: Mask) -> tuple[str, ...]:
    return tuple(name for name, taken in zip(names, chosen.tolist(), strict=True) if taken)


def _column_features(encoder: BlockEncoder) -> Ints:
    """Return the feature that each encoded column belongs to."""
    return np.repeat(np.arange(len(encoder.blocks)), [block.width for block in encoder.blocks])
