"""`PartRows`: the rows of a partition as fits and scores see them, where they stay."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.data.encoder import BlockEncoder
from emsco_train.distributed.part_reading import CodedRows
from emsco_train.models.borderline import ThresholdLevels, settle_top_labels
from emsco_train.models.fitted_set import FittedSet
from emsco_train.models.logistic.loss import TrainingRows
from emsco_train.models.logistic.regression import LogisticBatch, TopLabels, arrange_rows, top_labels
from emsco_train.models.logistic.row_blocks import RowBlocks
from emsco_train.search.scoring.bit_cache import BitCache
from emsco_train.support.stop_flag import StopFlag

__all__ = ["PartRows", "RowLayout", "SetModels"]

# What a partition keeps in addition to its rows: this many bytes of bits of feature sets, or the fewest sets that a cache takes.
_BIT_BYTES = 2**26
_FEWEST_SETS = 1024
# Scores that are held at a time, before they become bits.
_SCORES = 2**22


@dataclass(frozen=True, slots=True, eq=False)
class RowLayout:
    """How coded rows become the columns of models; `label_weights` are how much the rows of each label count in fits."""

    encoder: BlockEncoder
    label_weights: Floats

    @property
    def labels(self) -> int:
        """Number of labels."""
        return len(self.label_weights)


@dataclass(frozen=True, slots=True, eq=False)
class SetModels:
    """The models of feature sets [sets, features], as a message to partitions."""

    sets: Mask
    batch: LogisticBatch

    def take(self, sets: Mask) -> LogisticBatch:
        """Return the models of some of the sets, in their order."""
        places = {row.tobytes(): place for place, row in enumerate(np.packbits(self.sets, axis=1))}
        return self.batch.take(np.array([places[row.tobytes()] for row in np.packbits(sets, axis=1)], dtype=np.intp))


# No slots: `cached_property` keeps what is laid out in the instance.
class PartRows:
    """The rows of a partition, laid out for fits and scores.

    What it keeps in addition to them, the bits of scored feature sets, is computed again from models wherever it is absent: so a
    partition can be made again from its rows, on another worker, at any time, and nothing changes.
    """

    def __init__(self, rows: CodedRows, layout: RowLayout) -> None:
        self.layout = layout
        self.train_codes, self.train_target = rows.codes["train"], rows.target["train"]
        self.codes, self.target = rows.codes["validation"], rows.target["validation"]
        self._lock = threading.Lock()
        self._caches: dict[tuple[tuple[float, ...], ...], tuple[_Scorer, BitCache]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the rows and their layout alone: all else is made again."""
        kept = ("layout", "train_codes", "train_target", "codes", "target")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what `__getstate__` returned."""
        self.__dict__.update(state)
        self._lock, self._caches = threading.Lock(), {}

    def __sizeof__(self) -> int:
        """Return the bytes of the rows, coded and laid out: schedulers weigh by it whether to move a partition."""
        width = self.layout.encoder.width
        coded = self.train_codes.nbytes + self.train_target.nbytes + self.codes.nbytes + self.target.nbytes
        return int(coded + len(self.train_codes) * (12 * width + 16) + len(self.codes) * 8 * (width + 1))

    @cached_property
    def fit_rows(self) -> tuple[TrainingRows, Ints]:
        """The train rows as the passes see them, without penalty, and the order of their columns."""
        blocks = RowBlocks.of(self.layout.encoder.transform(self.train_codes), self.layout.encoder.one_hot_groups)
        one_hot = np.eye(self.layout.labels)[self.train_target]
        weights = self.layout.label_weights[self.train_target]
        return arrange_rows(blocks, one_hot, weights, 0.0, StopFlag()), blocks.layout.order

    @cached_property
    def scored_rows(self) -> RowBlocks:
        """The validation rows as the passes see them."""
        return RowBlocks.of(self.layout.encoder.transform(self.codes), self.layout.encoder.one_hot_groups)

    def bits(self, models: SetModels, thresholds: tuple[tuple[float, ...], ...]) -> BitCache:
        """Return the bits of the validation rows; sets that it lacks are scored by these models."""
        with self._lock:
            if thresholds not in self._caches:
                planes = 2 * len(thresholds) + ((self.layout.labels - 1).bit_length() if self.layout.labels > 2 else 0)
                least = _FEWEST_SETS * planes * 8 * -(-len(self.target) // 64)
                scorer = _Scorer(self, models, thresholds)
                self._caches[thresholds] = scorer, BitCache(scorer, self.target, thresholds, max_bytes=max(_BIT_BYTES, least))
            scorer, bits = self._caches[thresholds]
            scorer.models = models
            return bits


class _Scorer:
    """Scores the validation rows of a partition by the models of the last message."""

    def __init__(self, rows: PartRows, models: SetModels, thresholds: Sequence[Sequence[float]]) -> None:
        self.models = models
        self._rows = rows
        self._levels = [ThresholdLevels(each) for each in thresholds]

    def __call__(self, sets: Mask) -> Iterator[TopLabels]:
        """Yield the scores of sets, few at a time."""
        step = max(1, _SCORES // len(self._rows.target))
        return (self._score(sets[start : start + step]) for start in range(0, len(sets), step))

    def _score(self, sets: Mask) -> TopLabels:
        rows, batch = self._rows, self.models.take(sets)
        encoder = rows.layout.encoder

        def fitted(index: int) -> FittedSet:
            inputs = tuple(compress(encoder.names, sets[index]))
            return FittedSet(encoder, inputs, batch.model(index), rows.layout.labels, rows.codes)

        top = top_labels(batch, rows.scored_rows)
        settle_top_labels(top, self._levels, rows.codes, fitted)
        return top
