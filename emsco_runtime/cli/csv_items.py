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
from emsco_runtime.cli.console import CommandError

if TYPE_CHECKING:
    from emsco_runtime.bundle.manifest import Manifest

__all__ = [
    "FALSE_WORDS",
    "TRUE_WORDS",
    "CsvRow",
    "CsvRows",
    "make_column_acquirers",
    "open_csv",
    "read_split_rows",
    "strip_decimal_zeros",
]

TRUE_WORDS = frozenset({"true", "t", "yes", "y", "1", "1.0"})
FALSE_WORDS = frozenset({"false", "f", "no", "n", "0", "0.0"})
_WHOLE_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)\.0+")


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One data row: its number counted from 0, its line in the file counted from 1, and its fields."""

    number: int
    line: int
    fields: list[str]


@contextlib.contextmanager
def open_csv(path: str) -> Iterator[CsvRows]:
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
        self.header = self._read_row()
        if not self.header:
            raise CommandError(f"{path}: the file is empty; a header row with the column names is due")
        repeated = sorted({name for name in self.header if self.header.count(name) > 1})
        if repeated:
            raise CommandError(f"{path}: the header names a column twice: {', '.join(repeated)}. Names must be unique")

    def __iter__(self) -> Iterator[CsvRow]:
        """Yield the data rows."""
        count = 0
        while fields := self._read_row():
            if len(fields) != len(self.header):
                detail = f"{len(fields)} fields, the header has {len(self.header)}"
                raise CommandError(f"{self.path}: line {self._reader.line_num}: {detail}. Mend the line")
            yield CsvRow(count, self._reader.line_num, fields)
            count += 1

    def column_index(self, column: str) -> int:
        """Return where a column stands."""
        return self.header.index(column)

    def _read_row(self) -> list[str]:
        """Return the next row that is not blank, empty at the end; what cannot be read gets a place."""
        try:
            for fields in self._reader:
                if fields:
                    "".join(fields).encode()
                    return list(fields)
        except (csv.Error, UnicodeEncodeError) as error:
            detail = "bytes that are not UTF-8" if isinstance(error, UnicodeEncodeError) else str(error)
            raise CommandError(f"{self.path}: line {self._reader.line_num}: not readable as UTF-8 CSV: {detail}") from None
        return []


@dataclass(frozen=True, slots=True)
class _ColumnReader:
    """Reads one feature from its column; text that does not parse is passed on, and the runtime says what is wrong with it."""

    column_index: int
    kind: str
    categories: frozenset[str]

    def __call__(self, row: CsvRow) -> object:
        text = row.fields[self.column_index]
        if not text.strip():
            return None
        if self.kind == "categorical":
            return text if text in self.categories else strip_decimal_zeros(text)
        if self.kind == "boolean":
            lower = text.strip().lower()
            return True if lower in TRUE_WORDS else False if lower in FALSE_WORDS else text
        try:
            return float(text)
        except ValueError:
            return text


def strip_decimal_zeros(text: str) -> str:
    """Return a code such as 3.0, as spreadsheets and frames with gaps write it, without its point; other text as it is.

    Examples
    --------
    >>> strip_decimal_zeros("3.0"), strip_decimal_zeros("03.0"), strip_decimal_zeros("3.5")
    ('3', '03.0', '3.5')
    """
    return text.partition(".")[0] if _WHOLE_NUMBER.fullmatch(text) else text


def make_column_acquirers(manifest: Manifest, rows: CsvRows) -> Acquirers:
    """Return acquirers that take every feature of the bundle's stages from the column of that name."""
    needed = [name for stage in manifest.stages for name in stage.acquire]
    missing = [name for name in needed if name not in rows.header]
    if missing:
        detail = f"the file has {', '.join(rows.header)}"
        raise CommandError(
            f"{rows.path}: columns are missing: {', '.join(missing)}; {detail}. Every feature of a stage needs one"
        )
    features = {feature.name: feature for feature in manifest.features}
    acquirers = Acquirers()
    for name in needed:
        feature = features[name]
        acquirers.feature(name)(_ColumnReader(rows.column_index(name), feature.kind, frozenset(feature.categories)))
    return acquirers


def read_split_rows(run: str, split: str) -> frozenset[int]:
    """Return the rows of a named split of a training run, counted from 0, from its `splits.csv` (columns row, split)."""
    path = str(Path(run) / "splits.csv")
    with open_csv(path) as rows:
        return _find_split_rows(rows, split)


def _find_split_rows(rows: CsvRows, split: str) -> frozenset[int]:
    path = rows.path
    missing = [name for name in ("row", "split") if name not in rows.header]
    if missing:
        raise CommandError(f"{path}: the column {missing[0]!r} is missing; columns row and split are due")
    row, name = rows.column_index("row"), rows.column_index("split")
    found: set[int] = set()
    names: set[str] = set()
    for line in rows:
        names.add(line.fields[name])
        if line.fields[name] == split:
            if not line.fields[row].isdigit():
                detail = f"got the row number {line.fields[row]!r}, a whole number is due"
                raise CommandError(f"{path}: line {line.line}: {detail}")
            found.add(int(line.fields[row]))
    if not found:
        raise CommandError(f"{path}: there is no split {split!r}; it has {', '.join(sorted(names)) or 'no rows'}")
    return frozenset(found)
