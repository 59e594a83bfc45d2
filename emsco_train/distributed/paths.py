"""The sums of greedy paths over the train rows of partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.distributed.part_rows import PartRows
from emsco_train.distributed.partitions import Partitions, Sums
from emsco_train.models.logistic.regression import LogisticBatch
from emsco_train.search.greedy import LEAST_UNSURE, PathState, is_unsure, score_test

__all__ = ["PartitionedPathSums"]

# Rows that are encoded at a time.
_BLOCK_ROWS = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class _StateModels:
    """Models of column sets, for each state the present one first, then those of its sets; and the thresholds of each state.

    `ends` are where the models of each state end.
    """

    batch: LogisticBatch
    thresholds: tuple[Sequence[float] | None, ...]
    ends: tuple[int, ...]


class PartitionedPathSums:
    """Sums over the train rows of partitions; `fit` fits column sets [sets, columns], none of which is empty."""

    def __init__(
        self,
        partitions: Partitions[PartRows],
        fit: Callable[[Mask], LogisticBatch],
        column_feature: Ints,
        intercepts: Floats,
        rows: int,
    ) -> None:
        self._partitions = partitions
        self._fit = fit
        self._column_feature = column_feature
        self._intercepts = intercepts
        self._rows = rows

    def gains(self, states: Sequence[PathState]) -> list[Floats]:
        """Return the score test of each column."""
        models = self._fit_models(states, [state.present[None][:0] for state in states])
        unsure, whole, part = self._partitions.total(_sum_slopes, models).arrays
        choices = zip(self._are_unsure(states, unsure), whole, part, strict=True)
        return [score_test(*(own if is_part else every)) for is_part, every, own in choices]

    def losses(self, states: Sequence[PathState], sets: Sequence[Mask]) -> list[Floats]:
        """Return the losses of the present model and of sets."""
        models = self._fit_models(states, sets)
        unsure, whole, part = self._partitions.total(_sum_losses, models).arrays
        return [
            (part if is_part else whole)[start:end]
            for is_part, start, end in zip(self._are_unsure(states, unsure), (0, *models.ends), models.ends, strict=False)
        ]

    def _are_unsure(self, states: Sequence[PathState], unsure: Ints) -> list[bool]:
        """Return for each state whether its unsure rows are those that count, given how many there are."""
        shares = (unsure / self._rows).tolist()
        return [state.thresholds is not None and share > LEAST_UNSURE for state, share in zip(states, shares, strict=True)]

    def _fit_models(self, states: Sequence[PathState], sets: Sequence[Mask]) -> _StateModels:
        each = [np.concatenate([state.present[None], own]) for state, own in zip(states, sets, strict=True)]
        columns = np.concatenate(each)[:, self._column_feature]
        logits, filled = len(self._intercepts), columns.any(axis=1)
        coef, intercept = np.zeros((len(columns), logits, columns.shape[1])), np.tile(self._intercepts, (len(columns), 1))
        if filled.any():
            fitted = self._fit(columns[filled])
            coef[filled], intercept[filled] = fitted.coef, fitted.intercept
        batch = LogisticBatch(columns, coef, intercept, np.ones(len(columns), dtype=np.intp))
        ends = tuple(np.cumsum([len(own) for own in each]).tolist())
        return _StateModels(batch, tuple(state.thresholds for state in states), ends)


def _sum_slopes(part: PartRows, models: _StateModels) -> Sums:
    """Return, for each state, the rows that its model is unsure about; slope and curvature of all rows, and of these."""
    states, encoder, labels = len(models.ends), part.layout.encoder, part.layout.labels
    unsure = np.zeros(states, dtype=np.int64)
    whole, some = (np.zeros((states, 2, encoder.width, labels)) for _ in range(2))
    truth = np.eye(labels)
    for block in _blocks(part, models):
        squares = block.columns**2
        for state, (probabilities, mask) in enumerate(zip(block.probabilities, block.unsure, strict=True)):
            residual = (truth[block.target] - probabilities) * block.weights[:, None]
            curvature = probabilities * (1.0 - probabilities) * block.weights[:, None]
            unsure[state] += mask.sum()
            whole[state] += block.columns.T @ residual, squares.T @ curvature
            if mask.any():
                some[state] += block.columns.T @ (residual * mask[:, None]), squares.T @ (curvature * mask[:, None])
    return Sums((unsure, whole, some))


def _sum_losses(part: PartRows, models: _StateModels) -> Sums:
    """Return, for each state, the rows that its model is unsure about; the losses of all models on all rows, and on these."""
    unsure = np.zeros(len(models.ends), dtype=np.int64)
    whole, some = np.zeros(len(models.batch)), np.zeros(len(models.batch))
    for block in _blocks(part, models):
        losses = _row_losses(models.batch, block.columns, block.target)
        whole += block.weights @ losses
        for state, (start, end, mask) in enumerate(zip((0, *models.ends), models.ends, block.unsure, strict=False)):
            unsure[state] += mask.sum()
            some[start:end] += (block.weights * mask) @ losses[:, start:end]
    return Sums((unsure, whole, some))


def _row_losses(batch: LogisticBatch, columns: Floats, target: Ints) -> Floats:
    """Return the log loss of each row by each model [rows, models]; coefficients are 0 outside the columns of a model."""
    logits = [columns @ batch.coef[:, label].T + batch.intercept[:, label] for label in range(batch.coef.shape[1])]
    if len(logits) == 1:
        return np.asarray(np.logaddexp(0.0, np.where(target == 1, -1.0, 1.0)[:, None] * logits[0]))
    right = np.select([(target == label)[:, None] for label in range(len(logits))], logits)
    return np.asarray(np.logaddexp.reduce(logits) - right)


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Some train rows: columns, labels and weights; for each state the probabilities of its model, and its unsure rows."""

    columns: Floats
    target: Ints
    weights: Floats
    probabilities: list[Floats]
    unsure: list[Mask]


def _blocks(part: PartRows, models: _StateModels) -> Iterator[_Block]:
    batch, firsts = models.batch, (0, *models.ends[:-1])
    for start in range(0, len(part.train_codes), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        columns, target = part.layout.encoder.transform(part.train_codes[rows]), part.train_target[rows]
        probabilities = [batch.model(first).probabilities(columns[:, batch.columns[first]]) for first in firsts]
        unsure = [
            np.zeros(len(target), dtype=np.bool_) if thresholds is None else is_unsure(present, thresholds)
            for present, thresholds in zip(probabilities, models.thresholds, strict=True)
        ]
        yield _Block(columns, target, part.layout.label_weights[target], probabilities, unsure)
