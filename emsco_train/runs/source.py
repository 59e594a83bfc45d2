"""`Source`: table files as the user names them: one table, or ready splits; CSV or Parquet."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from emsco_runtime.errors import InputError
from emsco_runtime.support.arrays import Array, Floats, Ints
from emsco_runtime.support.csv_file import open_csv, strip_decimal_zeros
from emsco_runtime.support.missing_values import is_missing
from emsco_runtime.support.missing_words import MISSING_WORDS, is_missing_text
from emsco_train.data.features import Kind
from emsco_train.data.splits import SPLITS, Splits
from emsco_train.data.table import Table
from emsco_train.data.text_columns import infer_kind, parse_column, parse_labels
from emsco_train.errors import DataError, DesignError
from emsco_train.runs.run_file import FileEntry

__all__ = ["Columns", "Source", "read_source"]

_PARQUET = (".parquet", ".pq")


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column means what: the label, columns about the rows, columns to ignore; all others are features."""

    label: str = "label"
    group: str | None = None  # rows with equal values stay together
    time: str | None = None  # orders the rows
    drop: tuple[str, ...] = ()
    kinds: Mapping[str, Kind] | None = None  # overrides what the values of a column look like
    weight: str | None = None  # how much each row counts
    missing: frozenset[str] = MISSING_WORDS  # text that means a missing value, in lower case; an empty field always does
    drop_labels: tuple[str, ...] = ()  # labels whose rows are left out, as text; "" for rows without a label

    def non_feature_columns(self) -> tuple[str, ...]:
        """Return the columns that are not features."""
        return tuple(name for name in (self.label, self.group, self.time, self.weight, *self.drop) if name is not None)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Rows of all files, one after the other."""

    files: tuple[FileEntry, ...]
    table: Table  # of the features
    labels: list[Any]
    group: Array | None
    time: Array | None
    weight: Floats | None = None
    kept: Ints | None = None  # the rows that are here, counted over all files, where labels were dropped; None: all
    missing_words: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # feature -> word -> rows where it is a gap

    def splits(self) -> Splits | None:
        """Return the splits that the files are, or None for one table."""
        if self.files[0].split is None:
            return None
        names = np.repeat([file.split for file in self.files], [file.rows for file in self.files])
        return Splits.from_names(names if self.kept is None else names[self.kept])

    def row_numbers(self) -> list[int]:
        """Return the number of each row in its own file, counted from 0."""
        numbers = np.concatenate([np.arange(file.rows) for file in self.files])
        return list((numbers if self.kept is None else numbers[self.kept]).tolist())

    def without(self, names: Sequence[str]) -> Source:
        """Return the source without these features."""
        return replace(self, table=self.table.select([name for name in self.table.names if name not in names]))


@dataclass(frozen=True, slots=True, eq=False)
class _RawTable:
    """The columns of one or several files: lists of text from CSV, typed arrays from Parquet."""

    path: str
    columns: Mapping[str, list[str] | Array]
    lines: list[str]  # where each row stands, for messages

    @classmethod
    def concatenate(cls, tables: Sequence[_RawTable], names: Sequence[str]) -> _RawTable:
        """Return these columns of several tables as one table."""
        parts = {name: [table.columns[name] for table in tables] for name in names}
        columns: dict[str, list[str] | Array] = {
            # One table, or several that are all CSV or all Parquet: `_check_columns` saw to it.
            name: list(chain(*found)) if isinstance(found[0], list) else np.concatenate(found)
            for name, found in parts.items()
        }
        return cls(tables[0].path, columns, [line for table in tables for line in table.lines])

    def take(self, rows: Ints) -> _RawTable:
        """Return these rows."""
        positions = rows.tolist()
        columns: dict[str, list[str] | Array] = {
            name: [values[row] for row in positions] if isinstance(values, list) else values[rows]
            for name, values in self.columns.items()
        }
        return _RawTable(self.path, columns, [self.lines[row] for row in positions])

    def blank_missing(self, names: Sequence[str], words: frozenset[str]) -> tuple[_RawTable, dict[str, Counter[str]]]:
        """Return the table with words that mean "missing" made gaps in these columns, and how often each was there."""
        columns, found = dict(self.columns), {}
        for name in names:
            values = columns[name]
            counts = _count_missing_words(values, words)
            if counts:
                found[name] = counts
                columns[name] = _replace_words(values, counts)
        return _RawTable(self.path, columns, self.lines), found

    def column(self, name: str, parse: Callable[[str, list[str], list[str]], Any]) -> Any:
        """Return a column: text is parsed by its name, its values and their lines, typed values stay as they are."""
        values = self.columns[name]
        return parse(name, values, self.lines) if isinstance(values, list) else values


def read_source(paths: Mapping[str | None, str | os.PathLike[str]], columns: Columns) -> Source:
    """Read one table (split None), or the files of several splits, by split name.

    Raises
    ------
    DataError
        If a file is missing, empty or unreadable, lacks a column, or holds a value that cannot be meant; with file and line.
    """
    order = [None] if None in paths else [name for name in SPLITS if name in paths]
    raw_tables = {split: _read_table(os.fspath(paths[split])) for split in order}
    first = raw_tables[order[0]]
    for raw_table in raw_tables.values():
        _check_columns(raw_table, first, columns)
    special = columns.non_feature_columns()
    names = [name for name in first.columns if name not in special]
    if not names:
        raise DataError(f"{first.path}: there is no column beside {', '.join(special)}: give at least one feature")
    unnamed = [place for place, name in enumerate(first.columns, start=1) if name in names and not name.strip()]
    if unnamed:
        raise DataError(
            f"{first.path}: column {unnamed[0]} of the header has no name (the index of a data frame?): "
            "name it, or leave it out with `drop=('',)`"
        )
    others = [name for name in (columns.label, columns.group, columns.time, columns.weight) if name is not None]
    rows = _RawTable.concatenate(list(raw_tables.values()), [*names, *others])
    kept = _find_kept_rows(rows, columns)
    rows, missing_words = (rows if kept is None else rows.take(kept)).blank_missing(names, columns.missing)
    features = {name: _read_feature(rows, name, (columns.kinds or {}).get(name)) for name in names}
    parsed = rows.column(columns.label, parse_labels)
    labels = parsed if isinstance(parsed, list) else parsed.tolist()
    if len(set(labels)) == 1:
        raise DataError(
            f"{first.path}: column {columns.label!r} holds only the label {labels[0]!r}"
            f"{' beside those dropped' if columns.drop_labels else ''}: at least two different ones are needed to train"
        )
    group, time = (None if name is None else rows.column(name, _parse_split_column) for name in (columns.group, columns.time))
    weight = None if columns.weight is None else _read_weights(rows, columns.weight)
    files = tuple(_describe_file(raw_table, split) for split, raw_table in raw_tables.items())
    return Source(files, Table.of(features), labels, group, time, weight, kept, missing_words)


def _read_table(path: str) -> _RawTable:
    if not path or not Path(path).is_file():
        detail = "is a folder" if path and Path(path).is_dir() else "does not exist"
        raise DataError(f"{path or 'the table'} {detail}: give a CSV or Parquet file")
    raw_table = _read_parquet(path) if path.lower().endswith(_PARQUET) else _read_csv(path)
    if not raw_table.lines:
        raise DataError(f"{path}: there are no rows below the header: give some")
    return raw_table


def _read_csv(path: str) -> _RawTable:
    try:
        with open_csv(path) as opened:
            header, rows = opened.header, list(opened)
    except InputError as error:
        raise DataError(str(error)) from None
    columns: dict[str, list[str] | Array] = {name: [row.fields[at] for row in rows] for at, name in enumerate(header)}
    return _RawTable(path, columns, [f"{path} line {row.line}" for row in rows])


def _read_parquet(path: str) -> _RawTable:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra, needed here only
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise DataError(f"{path}: reading Parquet needs pyarrow: pip install 'emsco[parquet]', or give a CSV file") from None
    try:
        names = pa.parquet.read_schema(path).names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DataError(f"{path}: a column occurs twice: {', '.join(twice)}. Names must be unique")
        table = pa.parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not readable as Parquet: {str(error).splitlines()[0]}") from None
    columns: dict[str, list[str] | Array] = {}
    for name in table.column_names:
        column = table.column(name)
        plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        columns[name] = plain.to_numpy()
    return _RawTable(path, columns, [f"{path} row {row}" for row in range(table.num_rows)])


def _check_columns(raw_table: _RawTable, first: _RawTable, columns: Columns) -> None:
    asked = [*columns.non_feature_columns(), *(columns.kinds or {})]
    missing = [name for name in asked if name not in raw_table.columns]
    if missing:
        what = "label column" if missing[0] == columns.label else "column"
        raise DataError(f"{raw_table.path}: there is no {what} {missing[0]!r}; it has: {', '.join(raw_table.columns)}")
    different = sorted(set(raw_table.columns) ^ set(first.columns))
    if different:
        raise DataError(
            f"{raw_table.path} and {first.path} differ in columns: {', '.join(different)}. Give all splits the same ones"
        )
    if isinstance(raw_table.columns[columns.label], list) != isinstance(first.columns[columns.label], list):
        raise DesignError(f"{raw_table.path} and {first.path} are a CSV and a Parquet file: give all splits in one form")


def _find_kept_rows(rows: _RawTable, columns: Columns) -> Ints | None:
    """Return the rows whose label is not to be dropped; None where none is."""
    if not columns.drop_labels:
        return None
    values = rows.columns[columns.label]
    names = [_label_name(value) for value in (values if isinstance(values, list) else values.tolist())]
    dropped = {_label_name(label) for label in columns.drop_labels}
    absent = sorted(dropped.difference(names))
    if absent:
        known = sorted(set(names))
        raise DataError(
            f"{rows.path}: no row has the label {absent[0]!r}, which was to be dropped; the labels are: {', '.join(known[:20])}"
        )
    kept: Ints = np.flatnonzero([name not in dropped for name in names])
    if not len(kept):
        raise DataError(f"{rows.path}: every label was to be dropped: keep at least two")
    return kept


def _label_name(value: object) -> str:
    """Return the text by which a label is dropped: 1.0 is 1, and a missing one is empty."""
    return "" if is_missing(value) or not str(value).strip() else strip_decimal_zeros(str(value))


def _count_missing_words(values: list[str] | Array, words: frozenset[str]) -> Counter[str]:
    """Return the words of a column that mean "missing", with their rows; empty fields are no words."""
    if not isinstance(values, list) and values.dtype.kind != "O":
        return Counter()
    texts = values if isinstance(values, list) else [value for value in values.tolist() if isinstance(value, str)]
    # Few of the values differ, or no column of words would be of use: this is several times faster than looking at each.
    found = {text for text in set(texts) if text.strip() and is_missing_text(text, words)}
    return Counter(text for text in texts if text in found) if found else Counter()


def _replace_words(values: list[str] | Array, words: Collection[str]) -> list[str] | Array:
    if isinstance(values, list):
        return ["" if value in words else value for value in values]
    column: Array = np.empty(len(values), dtype=object)
    column[:] = [None if isinstance(value, str) and value in words else value for value in values.tolist()]
    return column


def _read_feature(rows: _RawTable, name: str, kind: Kind | None) -> Array:
    values: Array = rows.column(name, partial(_parse_feature, kind))
    if values.dtype.kind != "M":
        return values
    # As text, which the look at the table takes for dates; a bundle has no dates.
    texts: Array = np.datetime_as_string(values).astype(object)
    texts[np.isnat(values)] = None
    return texts


def _parse_feature(kind: Kind | None, name: str, values: list[str], lines: list[str]) -> Array:
    return parse_column(name, values, kind or infer_kind(values), lines)


def _parse_split_column(name: str, values: list[str], lines: list[str]) -> Array:
    empty = next((line for value, line in zip(values, lines, strict=True) if not value.strip()), None)
    if empty is not None:
        raise DataError(
            f"{empty}: column {name!r} is empty, and the division needs a value in every row: fill it, or drop the row"
        )
    try:
        # Numbers sort as numbers; other text (groups, dates) stays as it is.
        return parse_column(name, values, "numeric", lines)
    except DataError:
        return parse_column(name, values, "categorical", lines)


def _read_weights(rows: _RawTable, name: str) -> Floats:
    """Return the weights of all rows; raise for one that is missing, negative or infinite."""
    values = rows.column(name, lambda name, texts, lines: parse_column(name, texts, "numeric", lines))
    try:
        weights = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{rows.path}: column {name!r} holds no numbers: expected the weight of each row") from None
    faulty = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if faulty.size:
        where, value = rows.lines[faulty[0]], weights[faulty[0]]
        raise DataError(f"{where}: column {name!r} holds the weight {value:g}: expected a finite number, 0 or more, in every row")
    return weights


def _describe_file(raw_table: _RawTable, split: str | None) -> FileEntry:
    with Path(raw_table.path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    # Absolute, so that the run can be exported from any folder.
    return FileEntry(path=str(Path(raw_table.path).resolve()), split=split, rows=len(raw_table.lines), sha256=digest)
