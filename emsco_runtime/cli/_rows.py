"""Rows of a CSV file as items, and acquirers that read a field only when its feature is needed."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from emsco_runtime.acquirers import Acquirers
from emsco_runtime.cli._console import CommandError

if TYPE_CHECKING:
    from emsco_runtime.manifest import Feature, Manifest

__all__ = ["CsvRows", "column_acquirers", "read_splits"]

_TRUE = frozenset({"true", "t", "yes", "y", "1", "1.0"})
_FALSE = frozenset({"false", "f", "no", "n", "0", "0.0"})


class CsvRows:
    """A CSV file with one header row, read row by row.

    Parameters
    ----------
    path
        The file: UTF-8, comma-separated; an empty field is a missing value.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        with self._open() as file:
            self.header = self._next(csv.reader(file, strict=True))
        if not self.header:
            raise CommandError(f"{path}: the file is empty; a header row with the column names is due")
        repeated = sorted({name for name in self.header if self.header.count(name) > 1})
        if repeated:
            raise CommandError(f"{path}: the header names a column twice: {', '.join(repeated)}. Column names must be unique")

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the number of each data row, counted from 0, with its fields."""
        with self._open() as file:
            reader = csv.reader(file, strict=True)
            self._next(reader)
            count = 0
            while fields := self._next(reader, skip_blank=True):
                if len(fields) != len(self.header):
                    told = f"{len(fields)} fields, the header has {len(self.header)}"
                    raise CommandError(f"{self._path}: line {reader.line_num}: {told}. Mend the line")
                yield count, fields
                count += 1

    def position(self, column: str) -> int:
        """Return where a column stands."""
        return self.header.index(column)

    @contextlib.contextmanager
    def _open(self) -> Iterator[TextIO]:
        # utf-8-sig: spreadsheets like to begin a file with a byte-order mark.
        with Path(self._path).open(encoding="utf-8-sig", newline="") as file:
            yield file

    def _next(self, reader: Any, *, skip_blank: bool = False) -> list[str]:
        """Return the next row, empty at the end; what the csv module or the decoder refuses gets a place."""
        try:
            for fields in reader:
                if fields or not skip_blank:
                    return list(fields)
        except (csv.Error, UnicodeDecodeError) as error:
            raise CommandError(f"{self._path}: line {reader.line_num + 1}: not readable as UTF-8 CSV: {error}") from None
        return []


@dataclass(frozen=True, slots=True)
class _Field:
    """Reads one feature from its column; text that does not parse is passed on, and the runtime says what is wrong with it."""

    position: int
    feature: Feature

    def __call__(self, fields: Sequence[str]) -> object:
        text = fields[self.position]
        if not text.strip():
            return None
        if self.feature.kind == "boolean":
            lower = text.strip().lower()
            return True if lower in _TRUE else False if lower in _FALSE else text
        if self.feature.kind == "categorical" and text in self.feature.categories:
            return text
        # A categorical code written as a decimal (3.0) is matched as the number it is.
        try:
            return float(text)
        except ValueError:
            return text


def column_acquirers(manifest: Manifest, rows: CsvRows) -> Acquirers:
    """Return acquirers that take every feature of the bundle's stages from the column of that name."""
    needed = [name for stage in manifest.stages for name in stage.acquire]
    absent = [name for name in needed if name not in rows.header]
    if absent:
        raise CommandError(f"columns are missing: {', '.join(absent)}. Every feature that a stage acquires needs one")
    features = {feature.name: feature for feature in manifest.features}
    acquirers = Acquirers()
    for name in needed:
        acquirers.feature(name)(_Field(rows.position(name), features[name]))
    return acquirers


def read_splits(run: str, split: str) -> frozenset[int]:
    """Return the rows of a named split of a training run, counted from 0, from its `splits.csv` (columns row, split)."""
    path = str(Path(run) / "splits.csv")
    rows = CsvRows(path)
    absent = [name for name in ("row", "split") if name not in rows.header]
    if absent:
        raise CommandError(f"{path}: the column {absent[0]!r} is missing; columns row and split are due")
    row, name = rows.position("row"), rows.position("split")
    found: set[int] = set()
    names: set[str] = set()
    for number, fields in rows:
        names.add(fields[name])
        if fields[name] == split:
            if not fields[row].isdigit():
                raise CommandError(f"{path}: data row {number}: got the row number {fields[row]!r}, a whole number is due")
            found.add(int(fields[row]))
    if not found:
        raise CommandError(f"{path}: there is no split {split!r}; it has {', '.join(sorted(names)) or 'no rows'}")
    return frozenset(found)
