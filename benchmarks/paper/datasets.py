"""The data sets: the paper's five, at its thresholds and prices, and Spambase and NSL-KDD with a price of 1 for each feature.

All are divided into train, validation and test rows, half, a quarter and a quarter as in the paper, again in every run; every
method has the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from _shared_data import LANDSCAPES, NSL_KDD_TEXT
from sklearn.datasets import make_classification
from stages import read_table

from emsco_train import FeatureOptions, Problem, Settings
from emsco_train.data.splits import PAPER_SHARES
from emsco_train.data.stage_settings import StageKind

# As printed in the paper.
SYNTHETIC15_COSTS = [6, 8, 4, 8, 8, 1, 9, 10, 6, 1, 9, 9, 4, 1, 7]


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """Columns and labels, prices in column order, the paper's threshold and settings, and rows that are taken at most."""

    name: str
    columns: Any
    label: Any
    costs: Any
    threshold: float
    settings: Settings
    max_rows: int = 20_000

    def problem(self, run: int, *, stages: StageKind = "straight", max_rows: int | None = None, folds: int = 0) -> Problem:
        """Return the problem of one run: its own division, and its own sample where there are more rows than are taken.

        With folds, train and validation rows are one pool.
        """
        rows = np.random.default_rng((run, 19)).permutation(len(self.label))[: max_rows or self.max_rows]
        text = {name: FeatureOptions(unknown="ignore") for name in self.columns if name in NSL_KDD_TEXT}
        return Problem.of(
            {name: column[rows] for name, column in self.columns.items()},
            self.label[rows],
            costs=self.costs,
            threshold=self.threshold,
            features=text,
            shares=PAPER_SHARES,
            stages=stages,
            folds=folds,
            seed=run,
        )


PAPER_DATA = ("pima", "credit", "heart", "synthetic50", "synthetic15")
ALL_DATA = (*PAPER_DATA, "spambase", "nsl_kdd")


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
    return DataSet(name, columns, label, None, 0.9, Settings(), max_rows=10_000)


def _name(matrix: Any) -> dict[str, Any]:
    return {f"x{place}": column for place, column in enumerate(matrix.T)}
