"""The data sets: the paper's five, at its thresholds and prices, and Spambase and NSL-KDD with a price of 1 for each feature.

All are divided into train, validation and test rows, half, a quarter and a quarter as in the paper, again in every run; every
method has the same rows. Of NSL-KDD 10,000 rows are divided so, and 40,000 others are test rows, too: its best methods are wrong
in three of a thousand rows, and differ in fewer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from _shared_data import LANDSCAPES, NSL_KDD_TEXT
from sklearn.datasets import make_classification
from stages import read_table

from emsco_train import FeatureOptions, Problem, Settings
from emsco_train.data.labels import label_positions
from emsco_train.data.splits import PAPER_SHARES, Splits, make_splits
from emsco_train.data.stage_settings import StageKind

# As printed in the paper.
SYNTHETIC15_COSTS = [6, 8, 4, 8, 8, 1, 9, 10, 6, 1, 9, 9, 4, 1, 7]


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """Columns and labels, prices in column order, the paper's threshold and settings, and how many rows are divided at most."""

    name: str
    columns: Any
    label: Any
    costs: Any
    threshold: float
    settings: Settings
    max_rows: int = 20_000
    more_test_rows: int = 0

    def problem(self, run: int, *, stages: StageKind = "straight", max_rows: int | None = None, folds: int = 0) -> Problem:
        """Return the problem of one run: its own division, and its own sample where there are more rows than are divided.

        With folds, train and validation rows are one pool.
        """
        order = np.random.default_rng((run, 19)).permutation(len(self.label))
        divided = order[: max_rows or self.max_rows]
        # Short forms are for time.
        rows = divided if max_rows else order[: self.max_rows + self.more_test_rows]
        text = {name: FeatureOptions(unknown="ignore") for name in self.columns if name in NSL_KDD_TEXT}
        return Problem.of(
            {name: column[rows] for name, column in self.columns.items()},
            self.label[rows],
            costs=self.costs,
            threshold=self.threshold,
            features=text,
            splits=_make_splits(self.label[divided], len(rows), run),
            stages=stages,
            folds=folds,
            seed=run,
        )


def _make_splits(label: Any, rows: int, run: int) -> Splits:
    """Divide the rows that have these labels, and add those after them to the test rows."""
    labels = sorted(set(label.tolist()))
    target = label_positions(label.tolist(), labels)
    splits = make_splits(target, PAPER_SHARES, rng=np.random.default_rng(run), labels=labels)
    return replace(splits, test=np.concatenate([splits.test, np.arange(len(label), rows)]))


PAPER_DATA = ("pima", "credit", "heart", "synthetic50", "synthetic15")
ALL_DATA = (*PAPER_DATA, "spambase", "nsl_kdd")
# So many rows of a large table are divided in the short forms: all of them together take less than fifteen minutes.
QUICK_ROWS = 1_500


@cache
def load(name: str) -> DataSet:
    """Return a data set."""
    if name in LANDSCAPES:
        found = LANDSCAPES[name]
        columns, label = read_table(found.file.removesuffix(".csv"))
        return DataSet(name, columns, label, found.costs(), found.threshold, found.tuned)
    if name == "synthetic50":
        matrix, label = make_classification(n_samples=4000, n_features=50, n_informative=25, random_state=0)
        return DataSet(name, _name(matrix), label, [10.0] * 50, 0.55, Settings(mutation=0.05, beta=2.5))
    if name == "synthetic15":
        options = {"n_informative": 12, "class_sep": 0.85, "flip_y": 0.02, "random_state": 0}
        matrix, label = make_classification(n_samples=8000, n_features=15, **options)
        settings = Settings(mutation=0.075, population=250)
        return DataSet(name, _name(matrix), label, SYNTHETIC15_COSTS, 0.85, settings)
    columns, label = read_table(name)
    more = 40_000 if name == "nsl_kdd" else 0
    return DataSet(name, columns, label, None, 0.9, Settings(), max_rows=10_000, more_test_rows=more)


def _name(matrix: Any) -> dict[str, Any]:
    return {f"x{place}": column for place, column in enumerate(matrix.T)}
