"""Columns of text, as CSV files have them, and what a field means: the one place where text becomes a value.

`FieldReader.read` is the meaning of one field; `read_column` does the same for a column, whichever reader has read the file: each
different text is read once, and numbers are parsed in bulk where that is known to give what `parse_number` gives.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from emsco_runtime.support.arrays import LARGEST_EXACT, Array, Floats, Ints, Mask, to_objects
from emsco_runtime.support.csv_file import match_category, parse_boolean, parse_number, parse_numbers
from emsco_runtime.support.missing_words import MISSING_WORDS, is_missing_text, missing_numbers

__all__ = ["FieldReader", "ListColumn", "TextColumn", "blank_numbers", "find_other_texts"]


class TextColumn(Protocol):
    """The text of one column."""

    def __len__(self) -> int:
        """Return the number of fields."""

    def texts(self) -> list[str]:
        """Return the text of each field."""

    def take(self, rows: Ints) -> TextColumn:
        """Return the fields of these rows."""

    def blank(self, words: Collection[str]) -> TextColumn:
        """Return the column with these texts made empty."""

    def distinct(self) -> tuple[list[str], Ints]:
        """Return the different texts, in the order of their first fields, and the position of each field's among them."""

    def parse_numbers(self) -> tuple[Floats, Mask]:
        """Return finite numbers where fields are such, exactly as `parse_number` reads them, and which fields were parsed."""


@dataclass(frozen=True, slots=True, eq=False)
class ListColumn:
    """A column as a list of text, as the csv module gives it."""

    fields: list[str]

    def __len__(self) -> int:
        """Return the number of fields."""
        return len(self.fields)

    def texts(self) -> list[str]:
        """Return the text of each field."""
        return self.fields

    def take(self, rows: Ints) -> ListColumn:
        """Return the fields of these rows."""
        return ListColumn(list(map(self.fields.__getitem__, rows.tolist())))

    def blank(self, words: Collection[str]) -> ListColumn:
        """Return the column with these texts made empty."""
        return ListColumn(["" if text in words else text for text in self.fields])

    def distinct(self) -> tuple[list[str], Ints]:
        """Return the different texts, in the order of their first fields, and the position of each field's among them."""
        position: dict[str, int] = {}
        codes = [position.setdefault(text, len(position)) for text in self.fields]
        return list(position), np.array(codes, dtype=np.intp)

    def parse_numbers(self) -> tuple[Floats, Mask]:
        """Return finite numbers where fields are such, and which fields were parsed: all, or none."""
        try:
            numbers = np.array(parse_numbers(self.fields), dtype=np.float64)
        except ValueError:
            return np.full(len(self), np.nan), np.zeros(len(self), dtype=np.bool_)
        return numbers, np.isfinite(numbers)


@dataclass(frozen=True, slots=True)
class FieldReader:
    """Reads the fields of one feature; text that does not parse is returned as it is, and the runtime reports it."""

    kind: str
    categories: frozenset[str] = frozenset()
    missing: frozenset[str] = MISSING_WORDS

    def read(self, text: str) -> object:
        """Return the value of a field; None where it is missing: the field is empty, or a word that means so."""
        if self._is_gap(text):
            return None
        if self.kind == "categorical":
            return match_category(text, self.categories)
        if self.kind == "boolean":
            value = parse_boolean(text)
            return text if value is None else value
        try:
            return parse_number(text)
        except ValueError:
            return text

    def read_column(self, column: TextColumn | Array) -> Array:
        """Return the values of a column; typed ones, as of Parquet, stay as they are but for text that means another value."""
        if isinstance(column, np.ndarray):
            return self._read_texts(column)
        if self.kind == "numeric":
            return self._read_numbers(column)
        texts, codes = column.distinct()
        return to_objects([self.read(text) for text in texts]).take(codes)

    def _is_gap(self, text: str) -> bool:
        # A known category is never missing: the bundle was trained on a table in which the word meant something.
        return match_category(text, self.categories) not in self.categories and is_missing_text(text, self.missing)

    def _read_numbers(self, column: TextColumn) -> Array:
        numbers, others = find_other_texts(column, self.missing)
        if not len(others):
            return numbers
        texts, codes = column.take(others).distinct()
        values = [self.read(text) for text in texts]
        if all(value is None or isinstance(value, float) for value in values):
            numbers[others] = np.array([math.nan if value is None else value for value in values], dtype=np.float64)[codes]
            return numbers
        mixed = numbers.astype(object)
        mixed[others] = to_objects(values)[codes]
        return mixed

    def _read_texts(self, values: Array) -> Array:
        if values.dtype.kind != "O":
            return blank_numbers(values, [number for number in missing_numbers(self.missing) if self._is_gap(str(number))])
        # The bundle may come from a CSV file, where yes and no are booleans; a category that was written as text is that text.
        is_parsed = self.kind in ("boolean", "numeric")
        texts = {value for value in values.tolist() if isinstance(value, str)}
        read = {text: self.read(text) if is_parsed or self._is_gap(text) else text for text in texts}
        if all(value is text for text, value in read.items()):
            return values
        return to_objects([read[value] if isinstance(value, str) else value for value in values.tolist()])


def find_other_texts(column: TextColumn, words: frozenset[str]) -> tuple[Floats, Ints]:
    """Return a column as numbers, and the rows that must be looked at one by one: what else it holds, and some numbers.

    A number may be one of the words that mean "missing", as 999 is in some tables.
    """
    numbers, parsed = column.parse_numbers()
    for number in missing_numbers(words):
        parsed &= numbers != number
    return numbers, np.flatnonzero(~parsed)


def blank_numbers(values: Array, missing: Collection[float]) -> Array:
    """Return an array with the numbers that mean "missing" made NaN; unchanged where it holds none of them, or vectors.

    Whole numbers that no float tells apart become objects, with None for gaps.
    """
    if values.dtype.kind not in "iuf" or values.ndim > 1:
        return values
    # Not `np.isin`: of single precision, it would compare the number with what was rounded.
    gaps = np.logical_or.reduce([values == number for number in missing]) if missing else np.zeros(len(values), dtype=np.bool_)
    if not gaps.any():
        return values
    if values.dtype.kind == "f" or np.abs(values.astype(np.float64)).max() < LARGEST_EXACT:
        return np.where(gaps, np.nan, values)
    return to_objects([None if is_gap else value for value, is_gap in zip(values.tolist(), gaps.tolist(), strict=True)])
