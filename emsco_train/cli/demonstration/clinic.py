"""A clinic: patients with measurements of cell nuclei, in a table to train on and in a database to query in production.

The measurements ship with scikit-learn. The costs are made up: a first look at a slide is cheap, repeating the measurement costs
more, and searching the whole slide for the worst nuclei is expensive.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from emsco_runtime import Acquirers
from emsco_runtime.bundle.summary import pluralize
from emsco_train.costs.cost_model import CostGroup, CostModel
from emsco_train.errors import DesignError

__all__ = ["Clinic", "create_clinic"]

_UNIT = "EUR"
_MARK = ".emsco-demo"
# The three kinds of measurement: the database table that holds them, and the part of a feature's name that marks it.
_NAME_PARTS = {"first_look": "mean ", "repeated": " error", "whole_slide": "worst "}


@dataclass(frozen=True, slots=True)
class Clinic:
    """The clinic's files, and the true labels of its patients."""

    # CSV file of all patients with their diagnosis.
    table: Path
    costs: Path
    # SQLite file with one table per kind of measurement.
    database: Path
    # Names of the measurements, by database table.
    features: Mapping[str, tuple[str, ...]]
    # By row of the table.
    diagnoses: tuple[str, ...]

    def acquirers(self, on_query: Callable[[str], None]) -> Acquirers:
        """Return acquirers that query the database: once per kind of measurement, when a stage first needs one of that kind.

        `on_query` is called with a line about each query.
        """
        acquirers = Acquirers()
        for source, names in self.features.items():
            acquirers.features(*names)(functools.partial(self._query, source, on_query))
        return acquirers

    def _query(self, source: str, on_query: Callable[[str], None], patient: int) -> Mapping[str, float]:
        names = self.features[source]
        with contextlib.closing(sqlite3.connect(self.database)) as connection:
            query = f"SELECT * FROM {source} WHERE patient = ?"  # noqa: S608 - the name is one of ours
            row = connection.execute(query, (patient,)).fetchone()
        on_query(f"asking {source.replace('_', ' ')} for {pluralize(len(names), 'measurement')}")
        return dict(zip(names, row[1:], strict=True))


def create_clinic(folder: Path) -> Clinic:
    """Write the clinic's table, costs and database into a folder; one with files that are not a demonstration's is refused."""
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415 - slow to import, and the data are needed here only

    data = load_breast_cancer()
    names = [str(name) for name in data.feature_names]
    rows: list[list[float]] = data.data.tolist()
    diagnoses = tuple(str(data.target_names[position]) for position in data.target)
    features = {source: tuple(name for name in names if mark in name) for source, mark in _NAME_PARTS.items()}
    _mark_folder(folder)
    clinic = Clinic(folder / "patients.csv", folder / "costs.toml", folder / "clinic.sqlite", features, diagnoses)
    with clinic.table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*names, "diagnosis"])
        writer.writerows([*map(repr, row), diagnosis] for row, diagnosis in zip(rows, diagnoses, strict=True))
    clinic.costs.write_text(_costs(names, features).to_toml(), encoding="utf-8")
    _write_database(clinic.database, names, rows, features)
    return clinic


def _mark_folder(folder: Path) -> None:
    """Create the folder and mark it as ours; refuse one with files that an earlier demonstration did not write."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / _MARK
    if not mark.exists() and any(folder.iterdir()):
        raise DesignError(f"{folder} holds files that are not of a demonstration: choose an empty or a new folder")
    mark.touch()


def _costs(names: Sequence[str], features: Mapping[str, tuple[str, ...]]) -> CostModel:
    groups = [
        CostGroup("repeat the measurement", 5.0, features["repeated"]),
        CostGroup("search the whole slide", 40.0, features["whole_slide"]),
    ]
    own = {name: 2.0 if name in features["whole_slide"] else 1.0 for name in names}
    return CostModel.from_mapping(own, groups=groups, unit=_UNIT)


def _write_database(
    path: Path, names: Sequence[str], rows: Sequence[Sequence[float]], features: Mapping[str, tuple[str, ...]]
) -> None:
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for source, chosen in features.items():
            columns = ", ".join(f'"{name}" REAL' for name in chosen)
            connection.execute(f"CREATE TABLE {source} (patient INTEGER PRIMARY KEY, {columns})")
            places = [names.index(name) for name in chosen]
            marks = ", ".join("?" * (len(chosen) + 1))
            connection.executemany(
                f"INSERT INTO {source} VALUES ({marks})",  # noqa: S608 - the name is one of ours
                [(patient, *(row[place] for place in places)) for patient, row in enumerate(rows)],
            )
