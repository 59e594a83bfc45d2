"""`PartitionedBench`: what a search of rows in partitions works with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.data.problem import Problem
from emsco_train.data.thresholds import StageThresholds
from emsco_train.distributed.counting import PartitionedEvaluator
from emsco_train.distributed.fits import PartitionedLogistic
from emsco_train.distributed.part_rows import PartRows, SetModels
from emsco_train.distributed.partitions import Partitions
from emsco_train.distributed.paths import PartitionedPathSums
from emsco_train.errors import DesignError
from emsco_train.models.fit_cache import FitCache
from emsco_train.models.logistic.regression import LogisticBatch
from emsco_train.models.stage_model import StageModel
from emsco_train.search.compilation import compile_search
from emsco_train.search.design_bench import DesignBench
from emsco_train.search.greedy import GreedyPaths
from emsco_train.search.settings import Objective
from emsco_train.support.stop_flag import StopFlag

__all__ = ["PartitionedBench", "PartitionedStages"]

# Of the models that the client keeps; others are fitted again.
_MODEL_BYTES = 2**28


class PartitionedStages:
    """Fits stage models on the train rows of partitions; for the rest of training, it is a `StageFitter`."""

    is_logistic = True

    def __init__(self, logistic: PartitionedLogistic) -> None:
        self._fits = FitCache(logistic, max_bytes=_MODEL_BYTES)
        self._width = logistic.columns
        self.intercepts = logistic.intercepts

    def fit(self, columns: Ints) -> StageModel:
        """Fit the model of one stage, whose inputs are these columns, in this order."""
        chosen = np.zeros((1, self._width), dtype=np.bool_)
        chosen[0, columns] = True
        return self._fits.fit(chosen, workers=1).model(0, columns)

    def fit_batch(self, sets: Mask, workers: int = 1) -> LogisticBatch:
        """Fit the logistic regressions of many column sets [sets, columns]."""
        return self._fits.fit(sets, workers)


class PartitionedBench(DesignBench):
    """The searches of one problem whose rows are in partitions.

    Parameters
    ----------
    problem
        The problem; of its rows it has a sample alone.
    partitions
        All of them.
    stages
        Fits models on their train rows.
    label_rows
        The validation rows by label.
    train_rows
        Number of train rows.
    """

    def __init__(
        self,
        problem: Problem,
        partitions: Partitions[PartRows],
        stages: PartitionedStages,
        *,
        label_rows: Sequence[int],
        train_rows: int,
        stop: StopFlag,
    ) -> None:
        compile_search()
        rows = sum(label_rows)
        super().__init__(
            problem, (StageThresholds.constant(problem.thresholds),), items=rows, rows=rows, label_rows=label_rows, stop=stop
        )
        self._partitions = partitions
        self._stages = stages
        self._train_rows = train_rows
        self._column_feature = problem.encoder.column_owners
        self._fitted = set[bytes]()

    @property
    def fits(self) -> int:
        """Feature sets fitted so far."""
        return len(self._fitted)

    def models(self, sets: Mask) -> SetModels:
        """Return the models of feature sets [sets, features]; those that are new are fitted."""
        batch = self._stages.fit_batch(sets[:, self._column_feature])
        self._fitted.update(row.tobytes() for row in np.packbits(sets, axis=1))
        return SetModels(sets, batch)

    def evaluator(self, threshold: int = 0, objective: Objective = "plain") -> PartitionedEvaluator:
        """Return the evaluator of designs at one of the thresholds."""
        if objective != "plain":
            raise DesignError(f"objective is {objective!r}: with rows in partitions, expected 'plain'")
        levels = tuple(one.last for one in self.thresholds)
        return PartitionedEvaluator(self._partitions, self.models, self.units, levels, threshold, self.rows)

    def fit_sets(self, sets: Mask) -> None:
        """Fit feature sets [sets, features] that were not fitted before."""
        self.models(sets)

    def greedy_paths(self) -> GreedyPaths:
        """Return the greedy paths of the train rows."""
        sums = PartitionedPathSums(
            self._partitions, self._stages.fit_batch, self._column_feature, self.intercepts, self._train_rows
        )
        return GreedyPaths(self.problem.encoder.widths, self.units, sums)

    @property
    def intercepts(self) -> Floats:
        """Those of the model without columns."""
        return self._stages.intercepts
