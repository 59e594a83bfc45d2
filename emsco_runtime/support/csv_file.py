"""CSV files (UTF-8, comma-separated, one header row): rows with their line numbers, and what the text of a field means."""

from __future__ import annotations

import contextlib
import csv
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from emsco_runtime.errors import InputError
from emsco_runtime.support.formatting import shorten

__all__ = [
    "FALSE_WORDS",
    "TRUE_WORDS",
    "CsvRow",
    "CsvRows",
    "match_category",
    "open_csv",
    "parse_boolean",
    "parse_number",
    "parse_numbers",
    "strip_decimal_zeros",
]

TRUE_WORDS = frozenset({"true", "t", "yes", "y", "1", "1.0"})
FALSE_WORDS = frozenset({"false", "f", "no", "n", "0", "0.0"})
# Of a header that is one field: other programs write these between fields.
_OTHER_SEPARATORS = (";", "\t", "|")
# As its two first bytes are decoded here.
_GZIP_START = "\x1f\udc8b"
_WHOLE_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)\.0+")


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One data row: its number counted from 0, its line in the file counted from 1, and its fields."""

    number: int
    line: int
    fields: list[str]


@contextlib.contextmanager
def open_csv(path: str) -> Iterator[CsvRows]:
    """Open a CSV file and read its header; `InputError` if it has none, here or later if a row cannot be read."""
    # utf-8-sig: spreadsheets may start a file with a byte-order mark. Invalid bytes are let through and looked for in every row:
    # the decoder reads ahead and does not know the line.
    with Path(path).open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        yield CsvRows(path, file)


class CsvRows:
    """The rows of an open CSV file, read once, so that it may be a pipe; an empty field is a missing value."""

    def __init__(self, path: str, file: TextIO) -> None:
        self.path = path
        self._reader = csv.reader(file, strict=True)
        self.header = self._read_row()
        if not self.header:
            raise InputError(f"{path}: the file is empty, expected a header row with the column names")
        separator = next((mark for mark in _OTHER_SEPARATORS if mark in self.header[0]), None)
        if len(self.header) == 1 and separator is not None:
            raise InputError(
                f"{path}: the header is one field, {shorten(repr(self.header[0]), 60)}: expected commas between the fields, got "
                f"{separator!r}. Write the file with commas between fields and points in numbers, or as Parquet"
            )
        repeated = sorted(name for name, count in Counter(self.header).items() if count > 1)
        if repeated:
            raise InputError(f"{path}: the header names a column twice: {', '.join(repeated)}. Names must be unique")

    def __iter__(self) -> Iterator[CsvRow]:
        """Yield the data rows."""
        count = 0
        while fields := self._read_row():
            line = self._reader.line_num
            if len(fields) != len(self.header):
                raise InputError(
                    f"{self.path}: line {line}: {len(fields)} fields, the header has {len(self.header)}. Fix the line"
                )
            yield CsvRow(count, line, fields)
            count += 1

    def _read_row(self) -> list[str]:
        """Return the next row that is not blank; empty at the end."""
        try:
            for fields in self._reader:
                if fields:
                    "".join(fields).encode()
                    return list(fields)
        except (csv.Error, UnicodeEncodeError) as error:
            detail = str(error)
            if isinstance(error, UnicodeEncodeError):
                is_gzip = error.object.startswith(_GZIP_START)
                detail = "it is compressed by gzip. Unpack it" if is_gzip else "bytes that are not UTF-8. Save it as UTF-8 text"
            raise InputError(f"{self.path}: line {self._reader.line_num}: not readable as UTF-8 CSV: {detail}") from None
        return []


def parse_number(text: str) -> float:
    """Return the number that a text is, as `float` reads it; raise `ValueError` if it is none.

    Python also takes the underscores of its source code, and the digits of all scripts: 10_20 would be 1020, which in a table is
    a range, a date or a version.

    Examples
    --------
    >>> parse_number(" 1e3"), parse_number("-0.5")
    (1000.0, -0.5)
    >>> parse_number("10_20")
    Traceback (most recent call last):
    ValueError: expected a number, got '10_20'
    """
    if not _is_plain(text) and not _is_plain(text.strip()):
        raise ValueError(f"expected a number, got {text!r}")
    return float(text)


def parse_numbers(texts: Sequence[str]) -> list[float]:
    """Return the number that each text is, as `parse_number` does."""
    return list(map(float if _is_plain("".join(texts)) else parse_number, texts))


def _is_plain(text: str) -> bool:
    return text.isascii() and "_" not in text


def parse_boolean(text: str) -> bool | None:
    """Return what a word such as "Yes" or "0" means; None if it is not one of those words."""
    word = text.strip().lower()
    return True if word in TRUE_WORDS else False if word in FALSE_WORDS else None


def match_category(text: str, known: Collection[str]) -> str:
    """Return the category that a text means: a known one as it is, otherwise a code without its decimal zeros."""
    return text if text in known else strip_decimal_zeros(text)


def strip_decimal_zeros(text: str) -> str:
    """Return a code such as 3.0, as spreadsheets and frames with missing values write it, as 3; other text as it is.

    Examples
    --------
    >>> strip_decimal_zeros("3.0"), strip_decimal_zeros("03.0"), strip_decimal_zeros("3.5")
    ('3', '03.0', '3.5')
    """
    return text.partition(".")[0] if _WHOLE_NUMBER.fullmatch(text) else text
