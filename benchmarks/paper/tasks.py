"""What is measured, and the CSV files that keep it: a task whose rows are there is not measured again."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

Record = TypeVar("Record")
Task = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Where results go, how many runs there are, whether they are short ones, and the data sets (none: all)."""

    folder: Path
    runs: int
    is_quick: bool
    data: tuple[str, ...] = ()

    def choose(self, names: Iterable[str]) -> list[str]:
        """Return those of some data sets that are wanted."""
        return [name for name in names if not self.data or name in self.data]


@dataclass(frozen=True, slots=True)
class CommandRow:
    """What was run: the experiment, its form ("full" or "quick"), the data sets, runs, and the processor time of this command."""

    experiment: str
    form: str
    data: str
    runs: int
    seconds: float


def read_records(path: Path, kind: type[Record]) -> list[Record]:
    """Return the records of a CSV file; none if there is no file."""
    if not path.exists():
        return []
    types = {field.name: {"int": int, "float": float, "str": str}[str(field.type)] for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    with path.open(newline="") as file:
        return [kind(**{name: types[name](text) for name, text in row.items()}) for row in csv.DictReader(file)]


def append_records(path: Path, records: Sequence[Any]) -> None:
    """Add records to a CSV file, which gets a header if it is new, and must have this one otherwise."""
    if not records:
        return
    header = [field.name for field in dataclasses.fields(records[0])]
    found = _read_header(path)
    if found not in (None, header):
        raise ValueError(f"{path}: expected the columns {', '.join(header)}, got {', '.join(found or [])}: move the file away")
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if found is None:
            writer.writerow(header)
        for record in records:
            values = dataclasses.astuple(record)
            writer.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in values])


def _read_header(path: Path) -> list[str] | None:
    if not path.exists():
        return None
    with path.open(newline="") as file:
        return next(csv.reader(file), None)


def measure_missing(
    path: Path, kind: type[Record], tasks: Sequence[Task], measure: Callable[..., Iterable[Record]], what: str
) -> None:
    """Measure every task that the file has no record of; a record begins with the fields of its task."""
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    width = len(tasks[0]) if tasks else 0
    done = {tuple(getattr(record, name) for name in names[:width]) for record in read_records(path, kind)}
    with tqdm(tasks, desc=what, mininterval=1.0) as bar:
        for task in bar:
            bar.set_postfix_str(" ".join(map(str, task)))
            if task not in done:
                append_records(path, list(measure(*task)))
