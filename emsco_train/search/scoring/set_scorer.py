"""Scorers of feature sets: fit a model, score rows that it has not seen. The slow part of a search.

A cross-fitted problem has several parts, each with rows that fit and rows that are scored; the scores of a set are those of all
parts, in their order, which is that of the validation rows.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import compress

import numpy as np

from emsco_runtime.support.arrays import Mask
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem
from emsco_train.models.borderline import ThresholdLevels, settle_top_labels
from emsco_train.models.fitted_set import FittedSet, ProblemFitters, SetFitter
from emsco_train.models.logistic.regression import TopLabels, top_labels
from emsco_train.models.logistic.row_blocks import RowBlocks
from emsco_train.models.stage_model import has_exact_graph
from emsco_train.search.scoring.bit_cache import SetScorer

__all__ = ["set_scorer", "split_scorer"]

# Scores that are held at a time, before they become bits.
_CHUNK_BYTES = 2**26
_BYTES_PER_SCORE = 16
_BYTES_PER_COEFFICIENT = 64
# Sets that are handed to each thread at a time: Ctrl-C waits for these.
_SETS_PER_THREAD = 4


def set_scorer(
    problem: Problem, thresholds: Sequence[Sequence[float]], jobs: int, fitters: ProblemFitters | None = None
) -> SetScorer:
    """Return the scorer for a problem's stage settings; the scores do not depend on the number of threads.

    `thresholds` are, for each threshold of a sweep, the confidence that each label needs: scores near one of them are those of
    the exported graph. `fitters` are those of the problem, if they were made before.
    """
    made = (fitters or ProblemFitters(problem)).parts
    scorers = [
        split_scorer(problem, part.scored, fitter, thresholds, jobs) for part, fitter in zip(problem.parts, made, strict=True)
    ]
    if len(scorers) == 1:
        return scorers[0]
    chunk = _sets_per_chunk(problem, len(problem.validation))

    def score_sets(sets: Mask) -> Iterator[TopLabels]:
        for start in range(0, len(sets), chunk):
            scores = [list(score(sets[start : start + chunk])) for score in scorers]
            yield TopLabels(
                np.concatenate([np.concatenate([one.label for one in part]) for part in scores], axis=1),
                np.concatenate([np.concatenate([one.confidence for one in part]) for part in scores], axis=1),
            )

    return score_sets


def split_scorer(
    problem: Problem, scored: Split, fitter: SetFitter, thresholds: Sequence[Sequence[float]], jobs: int
) -> SetScorer:
    """Return the scorer of rows that one fitter's models have not seen, such as test rows; the rest as for `set_scorer`."""
    levels = [ThresholdLevels(each) for each in thresholds]
    if problem.settings.is_logistic:
        return _logistic_scorer(problem, scored, fitter, levels, jobs)
    return _classifier_scorer(problem, scored, fitter, levels, jobs)


def _sets_per_chunk(problem: Problem, rows: int) -> int:
    # Of a set: its scores of all rows, and its coefficients, of which there are some copies on the way.
    coefficients = _BYTES_PER_COEFFICIENT * len(problem.labels) * (1 + problem.encoder.width)
    return max(1, _CHUNK_BYTES // max(_BYTES_PER_SCORE * rows, coefficients))


def _logistic_scorer(
    problem: Problem, scored: Split, fitter: SetFitter, levels: Sequence[ThresholdLevels], jobs: int
) -> SetScorer:
    """Return a scorer of logistic regressions, fitted in batches; the same fits that an export makes."""
    column_feature = problem.encoder.column_owners
    rows = RowBlocks.of(scored.encoded, problem.encoder.one_hot_groups)
    chunk = _sets_per_chunk(problem, len(scored))

    def score_chunk(sets: Mask) -> TopLabels:
        batch = fitter.fit_batch(sets[:, column_feature], jobs)
        top = top_labels(batch, rows, workers=jobs)

        def fitted(index: int) -> FittedSet:
            return fitter.from_model(tuple(compress(problem.names, sets[index])), batch.model(index))

        settle_top_labels(top, levels, scored.codes, fitted)
        return top

    return lambda sets: (score_chunk(sets[start : start + chunk]) for start in range(0, len(sets), chunk))


def _classifier_scorer(
    problem: Problem, scored: Split, fitter: SetFitter, levels: Sequence[ThresholdLevels], jobs: int
) -> SetScorer:
    """Return a scorer of any other classifier: a fit for each set; what has no graph is refused at the first one."""
    conversion_lock = threading.Lock()

    def score_one(names: tuple[str, ...]) -> TopLabels:
        fitted = fitter.fit(names)
        if not has_exact_graph(fitted.model):
            with conversion_lock:
                # The converter is not known to be safe in threads.
                _ = fitted.graph
        scores = fitted.probabilities(scored.codes[:, fitted.positions])
        top = TopLabels(scores.argmax(axis=1)[None, :], scores.max(axis=1)[None, :])
        if not fitted.scores_one_by_one:
            settle_top_labels(top, levels, scored.codes, lambda _: fitted)
        return top

    def score_many(chosen: Sequence[tuple[str, ...]]) -> list[TopLabels]:
        """Score some sets in threads; each depends on its own set alone, so the number of threads changes nothing."""
        from sklearn import config_context, get_config  # noqa: PLC0415 - a search with our own models never needs it

        settings = get_config()

        def score(names: tuple[str, ...]) -> TopLabels:
            # scikit-learn keeps the user's settings per thread.
            with config_context(**settings):
                return score_one(names)

        # Filters of warnings belong to the whole process: threads that change them at the same time may leave them changed.
        with warnings.catch_warnings(), ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(score, chosen))

    def score_sets(sets: Mask) -> Iterator[TopLabels]:
        chosen = [tuple(compress(problem.names, one)) for one in sets]
        if jobs == 1:
            yield from map(score_one, chosen)
            return
        batch_size = jobs * _SETS_PER_THREAD
        for start in range(0, len(chosen), batch_size):
            yield from score_many(chosen[start : start + batch_size])

    return score_sets
