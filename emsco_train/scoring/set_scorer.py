"""Scorers of feature sets: fit a model on the train rows, score the validation rows. The slow part of a search."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn import config_context, get_config

from emsco_runtime._arrays import Ints, Mask
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.problem import Problem
from emsco_train.logistic.fits import top_labels
from emsco_train.logistic.rows import RowBlocks
from emsco_train.scoring.stage_bits import SetScorer, SetScores
from emsco_train.stage_model import StageFitter
from emsco_train.stages.conversion import convert_stage, stage_scorer

__all__ = ["set_scorer"]

# Scores that are held at a time, before they become bits.
_CHUNK_BYTES = 2**26
_BYTES_PER_SCORE = 16
# Sets that are handed to each thread at a time: Ctrl-C waits for these.
_SETS_PER_THREAD = 4


def set_scorer(problem: Problem, jobs: int) -> SetScorer:
    """Return the scorer that a problem's stage settings call for.

    Parameters
    ----------
    problem
        Train rows to fit, validation rows to score.
    jobs
        Threads; the scores do not depend on their number.
    """
    return _LogisticScorer(problem, jobs) if problem.settings.classifier is None else _ClassifierScorer(problem, jobs)


class _LogisticScorer:
    """Logistic regressions, fitted in batches; the same fits that an export makes."""

    def __init__(self, problem: Problem, jobs: int) -> None:
        self._fitter = _fitter(problem)
        self._rows = RowBlocks.of(problem.validation.encoded, problem.encoder.choices)
        self._owner = _owners(problem.encoder)
        self._jobs = jobs
        self._chunk = max(1, _CHUNK_BYTES // (_BYTES_PER_SCORE * len(problem.validation)))

    def score(self, sets: Mask) -> Iterator[SetScores]:
        for start in range(0, len(sets), self._chunk):
            columns = sets[start : start + self._chunk][:, self._owner]
            top = top_labels(self._fitter.fit_batch(columns, self._jobs), self._rows, workers=self._jobs)
            yield SetScores(top.label, top.confidence)


class _ClassifierScorer:
    """Any other classifier: a fit for each set, scored through its own ONNX graph, row by row, as production would."""

    def __init__(self, problem: Problem, jobs: int) -> None:
        self._problem = problem
        self._fitter = _fitter(problem)
        self._jobs = jobs
        self._converting = threading.Lock()

    def score(self, sets: Mask) -> Iterator[SetScores]:
        chosen = [[name for name, taken in zip(self._problem.names, one, strict=True) if taken] for one in sets]
        if self._jobs == 1:
            yield from map(self._score_one, chosen)
            return
        together = self._jobs * _SETS_PER_THREAD
        for start in range(0, len(chosen), together):
            yield from self._score_many(chosen[start : start + together])

    def _score_many(self, chosen: list[list[str]]) -> list[SetScores]:
        """Score some sets in threads; each depends on its own set alone, so the number of threads changes nothing."""
        settings = get_config()

        def score(names: list[str]) -> SetScores:
            # scikit-learn keeps the user's settings for each thread apart.
            with config_context(**settings):
                return self._score_one(names)

        # Filters of warnings belong to the whole process: what threads that change them at a time leave behind is put right.
        with warnings.catch_warnings(), ThreadPoolExecutor(self._jobs) as pool:
            return list(pool.map(score, chosen))

    def _score_one(self, names: list[str]) -> SetScores:
        problem, labels = self._problem, len(self._problem.labels)
        encoder = problem.encoder.select(names)
        positions = problem.encoder.positions(names)
        codes = problem.train.codes[:, positions]
        model = self._fitter.fit(problem.encoder.columns(names))
        with self._converting:
            # The converter is not known to be safe in threads.
            graph = convert_stage(encoder, model, codes)
        scorer = stage_scorer(graph, len(names), labels)
        scores = np.array([scorer.score(0, row) for row in problem.validation.codes[:, positions].tolist()])
        label = scores.argmax(axis=1)[None, :]
        return SetScores(label, np.take_along_axis(scores, label.T, axis=1).T)


def _fitter(problem: Problem) -> StageFitter:
    train = problem.train
    return StageFitter(
        train.encoded, train.target, len(problem.labels), problem.weights, problem.settings, problem.encoder.choices
    )


def _owners(encoder: BlockEncoder) -> Ints:
    """Return the feature that each encoded column belongs to."""
    return np.repeat(np.arange(len(encoder.blocks)), [block.width for block in encoder.blocks])
