"""The paper's data sets next to the project, with the costs chosen for them: for docs/experiments.md.

The paper's table of cost classes is a picture that its text does not hold. The classes here were chosen by its words, before any
result was seen; docs/experiments.md has the other readings.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from emsco_runtime.support.arrays import Array, Floats, Ints
from emsco_train.data.problem import Problem
from emsco_train.data.splits import PAPER_SHARES
from emsco_train.search.settings import Settings

__all__ = [
    "DATA",
    "LANDSCAPES",
    "NSL_KDD",
    "NSL_KDD_TEXT",
    "BenchmarkData",
    "Columns",
    "Connections",
    "gini_classes",
    "read_columns",
    "read_nsl_kdd",
]

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
NSL_KDD = DATA / "nsl_kdd_train.csv.gz"
# Its columns of text; all others but the label are numbers.
NSL_KDD_TEXT = ("protocol_type", "service", "flag")


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """A table of numbers with labels.

    Parameters
    ----------
    features
        Name -> column.
    label
        One per row.
    """

    features: Mapping[str, Floats]
    label: Ints

    def matrix(self) -> Floats:
        """Return the rows as one array."""
        return np.column_stack(list(self.features.values()))


@dataclass(frozen=True, slots=True)
class BenchmarkData:
    """One of the paper's three landscapes.

    Parameters
    ----------
    file
        The table.
    threshold
        Confidence that the paper asks for.
    classes
        Cost class of each feature of the table.
    price
        Cost of a class: the paper's h.
    tuned
        The settings that the paper lists for the data set; its experiments use them, its defaults differ a little.
    """

    file: str
    threshold: float
    classes: Callable[[Columns], list[int]]
    price: Callable[[int], float]
    tuned: Settings

    @property
    def path(self) -> Path:
        """Where the table is."""
        return DATA / self.file

    def costs(self) -> dict[str, float]:
        """Return the cost of each feature."""
        columns = read_columns(self.path)
        return dict(zip(columns.features, map(self.price, self.classes(columns)), strict=True))

    def problem(self, seed: int, costs: Mapping[str, float] | None = None) -> Problem:
        """Return the problem with the paper's splits.

        Parameters
        ----------
        seed
            Of the splits.
        costs
            Other costs than the ones chosen.
        """
        columns = read_columns(self.path)
        return Problem.of(
            columns.features,
            columns.label,
            costs=self.costs() if costs is None else dict(costs),
            threshold=self.threshold,
            shares=PAPER_SHARES,
            seed=seed,
        )


@cache
def read_columns(path: Path) -> Columns:
    """Return a table whose last column is `label`; all columns as the numbers that they are."""
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    values = np.array(rows, dtype=float)
    return Columns(dict(zip(header[:-1], values.T[:-1], strict=True)), values[:, -1].astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Connections:
    """The rows of NSL-KDD: numbers and text by name, and the label of each row, "normal" or one of four attacks."""

    features: Mapping[str, Array]
    label: Array

    @property
    def is_attack(self) -> Ints:
        """1 for every attack, 0 for normal."""
        return (self.label != "normal").astype(np.intp)


@cache
def read_nsl_kdd() -> Connections:
    """Return the train rows of NSL-KDD."""
    with gzip.open(NSL_KDD, "rt", newline="") as file:
        header, *rows = csv.reader(file)
    cells = np.array(rows, dtype=object)
    columns = {
        name: cells[:, place] if name in NSL_KDD_TEXT else cells[:, place].astype(np.float64)
        for place, name in enumerate(header[:-1])
    }
    return Connections(columns, cells[:, -1].astype(str))


def gini_classes(columns: Columns, classes: int = 3) -> list[int]:
    """Return cost classes by Gini importance: features in order of it, cut into parts as equal as can be, the least first.

    Parameters
    ----------
    columns
        The whole table: prices are part of a problem, they are not learned from its train rows.
    classes
        How many there are.
    """
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415 - slow to load, and one table needs it

    forest = RandomForestClassifier(random_state=0).fit(columns.matrix(), columns.label)
    order = np.argsort(forest.feature_importances_, kind="stable")
    chosen = np.empty(len(order), dtype=int)
    for number, part in enumerate(np.array_split(order, classes), start=1):
        chosen[part] = number
    return [int(number) for number in chosen]


def _by_name(classes: Mapping[str, int]) -> Callable[[Columns], list[int]]:
    return lambda columns: [classes[name] for name in columns.features]


def _power_of_ten(number: int) -> float:
    return 10.0**number


# "Depending on the time and complications inherent in conducting the individual tests": asked, measured on the body, blood test.
# The paper's own two examples, age 1 and plasma glucose 3, agree.
_PIMA = {
    "times_pregnant": 1,
    "age": 1,
    "diabetes_pedigree": 1,
    "diastolic_bp": 2,
    "triceps_skinfold": 2,
    "body_mass_index": 2,
    "plasma_glucose": 3,
    "serum_insulin": 3,
}
# "Two time classes": known from the record or the bedside, or to be waited for from a laboratory or an echocardiogram.
# Anaemia is defined by the haematocrit there, so it is a blood test.
_HEART = {
    "age": 1,
    "diabetes": 1,
    "high_blood_pressure": 1,
    "sex": 1,
    "smoking": 1,
    "time": 1,
    "anaemia": 2,
    "creatinine_phosphokinase": 2,
    "ejection_fraction": 2,
    "platelets": 2,
    "serum_creatinine": 2,
    "serum_sodium": 2,
}

LANDSCAPES = {
    "pima": BenchmarkData("pima.csv", 0.65, _by_name(_PIMA), lambda number: 100.0 * number, Settings(mutation=0.075)),
    "heart": BenchmarkData("heart_failure.csv", 0.75, _by_name(_HEART), _power_of_ten, Settings(mutation=0.075, crossover=0.75)),
    "credit": BenchmarkData("australian_credit.csv", 0.75, gini_classes, _power_of_ten, Settings(mutation=0.075, beta=2.5)),
}
