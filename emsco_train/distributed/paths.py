"""The sums of greedy paths over the train rows of partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.distributed.part_rows import PartRows
from emsco_train.distributed.partitions import Partitions, Sums
from emsco_train.logistic.regression import LogisticBatch
from emsco_train.search.greedy import LEAST_UNSURE, is_unsure, log_loss, score_test

__all__ = ["PartitionedPathSums"]

# Rows that are encoded at a time.
_BLOCK_ROWS = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class _Models:
    """Models of column sets, the present one first, and the confidence that each label needs; None: all rows count."""

    batch: LogisticBatch
    thresholds: tuple[float, ...] | None


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

    def gains(self, present: Mask, thresholds: Sequence[float] | None) -> Floats:
        """Return the score test of each column."""
        unsure, *sums = self._partitions.total(_sum_slopes, self._models(present[None], thresholds)).arrays
        slope, curvature = sums[2:] if self._counts_unsure(unsure, thresholds) else sums[:2]
        return score_test(slope, curvature)

    def losses(self, present: Mask, thresholds: Sequence[float] | None, sets: Mask) -> Floats:
        """Return the losses of the present model and of sets."""
        models = self._models(np.concatenate([present[None], sets]), thresholds)
        unsure, whole, part = self._partitions.total(_sum_losses, models).arrays
        return part if self._counts_unsure(unsure, thresholds) else whole

    def _counts_unsure(self, unsure: Ints, thresholds: Sequence[float] | None) -> bool:
        return thresholds is not None and float(unsure[0]) / self._rows > LEAST_UNSURE

    def _models(self, sets: Mask, thresholds: Sequence[float] | None) -> _Models:
        columns = sets[:, self._column_feature]
        logits, filled = len(self._intercepts), columns.any(axis=1)
        coef, intercept = np.zeros((len(sets), logits, columns.shape[1])), np.tile(self._intercepts, (len(sets), 1))
        if filled.any():
            fitted = self._fit(columns[filled])
            coef[filled], intercept[filled] = fitted.coef, fitted.intercept
        batch = LogisticBatch(columns, coef, intercept, np.ones(len(sets), dtype=np.intp))
        return _Models(batch, None if thresholds is None else tuple(thresholds))


def _sum_slopes(part: PartRows, models: _Models) -> Sums:
    """Return how many rows the present model is unsure about; slopes and curvatures of all rows, and of these."""
    width, labels = part.layout.encoder.width, part.layout.labels
    total = Sums((np.zeros(1, dtype=np.int64), *(np.zeros((width, labels)) for _ in range(4))))
    truth = np.eye(labels)
    for columns, target, counted, unsure, probabilities in _blocks(part, models):
        residual = (truth[target] - probabilities[0]) * counted[:, None]
        curvature = probabilities[0] * (1.0 - probabilities[0]) * counted[:, None]
        squares, mask = columns**2, unsure[:, None]
        sums = columns.T @ residual, squares.T @ curvature, columns.T @ (residual * mask), squares.T @ (curvature * mask)
        total = total + Sums((np.array([unsure.sum()]), *sums))
    return total


def _sum_losses(part: PartRows, models: _Models) -> Sums:
    """Return how many rows the present model is unsure about; the losses of all models on all rows, and on these."""
    total = Sums((np.zeros(1, dtype=np.int64), np.zeros(len(models.batch)), np.zeros(len(models.batch))))
    for _, target, counted, unsure, probabilities in _blocks(part, models):
        whole = np.array([log_loss(each, target, counted) for each in probabilities])
        some = np.array([log_loss(each, target, counted * unsure) for each in probabilities])
        total = total + Sums((np.array([unsure.sum()]), whole, some))
    return total


def _blocks(part: PartRows, models: _Models) -> Iterator[tuple[Floats, Ints, Floats, Mask, list[Floats]]]:
    """Yield columns, labels, weights, unsure rows, and the probabilities by each model, some rows at a time."""
    batch = models.batch
    for start in range(0, len(part.train_codes), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        columns, target = part.layout.encoder.transform(part.train_codes[rows]), part.train_target[rows]
        probabilities = [batch.model(index).probabilities(columns[:, batch.columns[index]]) for index in range(len(batch))]
        unsure = (
            np.zeros(len(target), dtype=np.bool_) if models.thresholds is None else is_unsure(probabilities[0], models.thresholds)
        )
        yield columns, target, part.layout.label_weights[target], unsure, probabilities
