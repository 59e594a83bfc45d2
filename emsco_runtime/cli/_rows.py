"""Rows of a CSV file as items, and acquirers that read a field only when its feature is needed."""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from emsco_runtime.acquirers import Acquirers
from emsco_runtime.cli._console import CommandError

if TYPE_CHECKING:
    from emsco_runtime.manifest import Manifest

__all__ = ["FALSE_WORDS", "TRUE_WORDS", "CsvRow", "CsvRows", "column_acquirers", "csv_rows", "read_splits", "whole_number"]

TRUE_WORDS = frozenset({"true", "t", "yes", "y", "1", "1.0"})
FALSE_WORDS = frozenset({"false", "f", "no", "n", "0", "0.0"})
_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)\.0+")


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One data row: its number counted from 0, its line in the file counted from 1, and its fields."""

    number: int
    line: int
    fields: list[str]


@contextlib.contextmanager
def csv_rows(path: str) -> Iterator[CsvRows]:
    """Open a CSV file (UTF-8, comma-separated, one header row) and read its header."""
    # utf-8-sig: spreadsheets like to begin a file with a byte-order mark. Broken bytes are let through and looked for in every
    # row: the decoder reads ahead and could not tell the line.
    with Path(path).open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        yield CsvRows(path, file)


class CsvRows:
    """The rows of an open CSV file, read once (so that a pipe will do).

    Parameters
    ----------
    path
        Its name, for messages.
    file
        The file; an empty field is a missing value.
    """

    def __init__(self, path: str, file: TextIO) -> None:
        self.path = path
        self._reader = csv.reader(file, strict=True)
        self.header = self._next()
        if not self.header:
            raise CommandError(f"{path}: the file is empty; a header row with the column names is due")
        repeated = sorted({name for name in self.header if self.header.count(name) > 1})
        if repeated:
            raise CommandError(f"{path}: the header names a column twice: {', '.join(repeated)}. Names must be unique")

    def __iter__(self) -> Iterator[CsvRow]:
        """Yield the data rows."""
        count = 0
        while fields := self._next():
            if len(fields) != len(self.header):
                told = f"{len(fields)} fields, the header has {len(self.header)}"
                raise CommandError(f"{self.path}: line {self._reader.line_num}: {told}. Mend the line")
            yield CsvRow(count, self._reader.line_num, fields)
            count += 1

    def position(self, column: str) -> int:
        """Return where a column stands."""
        return self.header.index(column)

    def _next(self) -> list[str]:
        """Return the next row that is not blank, empty at the end; what cannot be read gets a place."""
        try:
            for fields in self._reader:
                if fields:
                    "".join(fields).encode()
                    return list(fields)
        except (csv.Error, UnicodeEncodeError) as error:
            told = "bytes that are not UTF-8" if isinstance(error, UnicodeEncodeError) else str(error)
            raise CommandError(f"{self.path}: line {self._reader.line_num}: not readable as UTF-8 CSV: {told}") from None
        return []


@dataclass(frozen=True, slots=True)
class _Field:
    """Reads one feature from its column; text that does not parse is passed on, and the runtime says what is wrong with it."""

    position: int
    kind: str
    categories: frozenset[str]

    def __call__(self, row: CsvRow) -> object:
        text = row.fields[self.position]
        if not text.strip():
            return None
        if self.kind == "categorical":
            return text if text in self.categories else whole_number(text)
        if self.kind == "boolean":
            lower = text.strip().lower()
            return True if lower in TRUE_WORDS else False if lower in FALSE_WORDS else text
        try:
            return float(text)
        except ValueError:
            return text


def whole_number(text: str) -> str:
    """Return a code such as 3.0, as spreadsheets and frames with gaps write it, without its point; other text as it is.

    Examples
    --------
    >>> whole_number("3.0"), whole_number("03.0"), whole_number("3.5")
    ('3', '03.0', '3.5')
    """
    return text.partition(".")[0] if _WHOLE.fullmatch(text) else text


def column_acquirers(manifest: Manifest, rows: CsvRows) -> Acquirers:
    """Return acquirers that take every feature of the bundle's stages from the column of that name."""
    needed = [name for stage in manifest.stages for name in stage.acquire]
    absent = [name for name in needed if name not in rows.header]
    if absent:
        told = f"the file has {', '.join(rows.header)}"
        raise CommandError(f"{rows.path}: columns are missing: {', '.join(absent)}; {told}. Every feature of a stage needs one")
    features = {feature.name: feature for feature in manifest.features}
    acquirers = Acquirers()
    for name in needed:
        feature = features[name]
        acquirers.feature(name)(_Field(rows.position(name), feature.kind, frozenset(feature.categories)))
    return acquirers


def read_splits(run: str, split: str) -> frozenset[int]:
    """Return the rows of a named split of a training run, counted from 0, from its `splits.csv` (columns row, split)."""
    path = str(Path(run) / "splits.csv")
    with csv_rows(path) as rows:
        return _split_rows(rows, split)


def _split_rows(rows: CsvRows, split: str) -> frozenset[int]:
    path = rows.path
    absent = [name for name in ("row", "split") if name not in rows.header]
    if absent:
        raise CommandError(f"{path}: the column {absent[0]!r} is missing; columns row and split are due")
    row, name = rows.position("row"), rows.position("split")
    found: set[int] = set()
    names: set[str] = set()
    for line in rows:
        names.add(line.fields[name])
        if line.fields[name] == split:
            if not line.fields[row].isdigit():
                told = f"got the row number {line.fields[row]!r}, a whole number is due"
                raise CommandError(f"{path}: line {line.line}: {told}")
            found.add(int(line.fields[row]))
    if not found:
        raise CommandError(f"{path}: there is no split {split!r}; it has {', '.join(sorted(names)) or 'no rows'}")
    return frozenset(found)
