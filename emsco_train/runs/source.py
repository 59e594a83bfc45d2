"""`Source`: table files as the user names them: one table, or ready splits; CSV or Parquet."""

from __future__ import annotations

import bisect
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from emsco_runtime.errors import InputError
from emsco_runtime.support.arrays import Array, Floats, Ints, to_objects
from emsco_runtime.support.csv_file import strip_decimal_zeros
from emsco_runtime.support.missing_values import is_missing
from emsco_runtime.support.missing_words import MISSING_WORDS, is_missing_text, missing_numbers
from emsco_runtime.support.table_file import concatenate_columns, open_table
from emsco_runtime.support.text_column import TextColumn, blank_numbers, find_other_texts
from emsco_runtime.support.vector_names import find_vectors
from emsco_train.data.features import Kind
from emsco_train.data.labels import check_label_count
from emsco_train.data.row_error import RowError
from emsco_train.data.split_keys import group_codes, time_codes
from emsco_train.data.splits import SPLITS, Splits
from emsco_train.data.table import Table
from emsco_train.data.text_columns import infer_kind, missing_label, parse_column, parse_labels
from emsco_train.errors import DataError, DesignError
from emsco_train.runs.run_file import FileEntry
from emsco_train.support.phases import OnPhase, Phase, ignore_phase

__all__ = ["Columns", "Source", "read_source"]

# A label that is true or false has the name that a CSV file would give it; 1 and 0 mean the same.
_BOOLEAN_WORDS = {"1": "True", "0": "False"}


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
    kept: Ints | None = None  # the rows that are here, counted over all files, where some were left out; None: all
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

    def row_place(self, row: int) -> str:
        """Return where a row stands: its file, and its number there, counted from 0."""
        place = row if self.kept is None else int(self.kept[row])
        starts = np.cumsum([0, *(file.rows for file in self.files)])
        position = int(np.searchsorted(starts, place, side="right")) - 1
        return f"{self.files[position].path} row {place - starts[position]}"

    def without(self, names: Sequence[str]) -> Source:
        """Return the source without these features."""
        return replace(self, table=self.table.select([name for name in self.table.names if name not in names]))


@dataclass(frozen=True, slots=True, eq=False)
class _RawTable:
    """The columns of one or several files: text from CSV, typed arrays from Parquet."""

    path: str
    rows: int
    columns: Mapping[str, TextColumn | Array]
    place: Callable[[int], str]  # where a row stands, for messages

    @classmethod
    def concatenate(cls, tables: Sequence[_RawTable], names: Sequence[str]) -> _RawTable:
        """Return these columns of several tables as one table."""
        # Several that are all CSV or all Parquet: `_check_columns` saw to it.
        columns = {name: concatenate_columns([table.columns[name] for table in tables]) for name in names}
        starts, places = np.cumsum([0, *(table.rows for table in tables)]).tolist(), [table.place for table in tables]

        def place(row: int) -> str:
            at = bisect.bisect_right(starts, row) - 1
            return places[at](row - starts[at])

        return cls(tables[0].path, starts[-1], columns, place)

    def take(self, rows: Ints) -> _RawTable:
        """Return these rows."""
        columns = {name: _take_rows(values, rows) for name, values in self.columns.items()}
        return _RawTable(self.path, len(rows), columns, lambda row: self.place(int(rows[row])))

    def blank_missing(self, names: Sequence[str], words: frozenset[str]) -> tuple[_RawTable, dict[str, Counter[str]]]:
        """Return the table with words that mean "missing" made gaps in these columns, and how often each was there."""
        columns, found = dict(self.columns), {}
        for name in names:
            columns[name] = values = _blank_empty(columns[name])
            counts = _count_missing_words(values, words)
            if counts:
                found[name] = counts
                columns[name] = _replace_words(values, counts)
        return _RawTable(self.path, self.rows, columns, self.place), found

    def column(self, name: str, parse: Callable[[str, TextColumn, Callable[[int], str]], Any]) -> Any:
        """Return a column: text is parsed by its name, its values and their places, typed values stay as they are."""
        values = self.columns[name]
        return values if isinstance(values, np.ndarray) else parse(name, values, self.place)


def read_source(paths: Mapping[str | None, str | os.PathLike[str]], columns: Columns, on_phase: OnPhase = ignore_phase) -> Source:
    """Read one table (split None), or the files of several splits, by split name.

    Raises
    ------
    DataError
        If a file is missing, empty or unreadable, lacks a column, or holds a value that cannot be meant; with file and line.
    """
    order = [None] if None in paths else [name for name in SPLITS if name in paths]
    raw_tables = {split: _read_table(os.fspath(paths[split]), on_phase) for split in order}
    first = raw_tables[order[0]]
    columns = _name_vector_columns(columns, first)
    for raw_table in raw_tables.values():
        _check_columns(raw_table, first, columns)
    special = columns.non_feature_columns()
    names = [name for name in first.columns if name not in special]
    if not names:
        raise DataError(f"{first.path}: there is no column except {', '.join(special)}: give at least one feature")
    others = [name for name in (columns.label, columns.group, columns.time, columns.weight) if name is not None]
    rows = _RawTable.concatenate(list(raw_tables.values()), [*names, *others])
    kept = _find_kept_rows(rows, columns)
    rows = rows if kept is None else rows.take(kept)
    weight = None if columns.weight is None else _read_weights(rows, columns.weight)
    if weight is not None and 0 < (counting := np.flatnonzero(weight)).size < rows.rows:
        # A row without weight takes no part in anything.
        rows, weight, kept = rows.take(counting), weight[counting], counting if kept is None else kept[counting]
    rows, missing_words = rows.blank_missing(names, columns.missing)
    features = {name: _read_feature(rows, name, (columns.kinds or {}).get(name)) for name in names}
    labels = _read_labels(rows, columns.label)
    different = len(set(labels))
    check_label_count(different, len(labels), f"{first.path}: column {columns.label!r}")
    if different == 1:
        raise DataError(
            f"{first.path}: column {columns.label!r} holds only the label {labels[0]!r}"
            f"{' after labels were dropped' if columns.drop_labels else ''}: at least two different ones are needed to train"
        )
    group = None if columns.group is None else _read_split_column(rows, columns.group, group_codes)
    time = None if columns.time is None else _read_split_column(rows, columns.time, time_codes)
    files = tuple(_describe_file(raw_table, split) for split, raw_table in raw_tables.items())
    return Source(files, _make_table(rows, features), labels, group, time, weight, kept, missing_words)


def _take_rows(values: TextColumn | Array, rows: Ints) -> TextColumn | Array:
    return values.take(rows, axis=0) if isinstance(values, np.ndarray) else values.take(rows)


def _read_table(path: str, on_phase: OnPhase) -> _RawTable:
    if not path or not Path(path).is_file():
        detail = "is a folder" if path and Path(path).is_dir() else "does not exist"
        raise DataError(f"{path or 'the table'} {detail}: give a CSV or Parquet file")
    on_phase(Phase(f"reading {Path(path).name}"))
    chunks = []
    try:
        with open_table(path) as table:
            for chunk in table.read(table.names):
                chunks.append(chunk)
                on_phase(Phase(f"reading {Path(path).name}: {chunk.start + chunk.rows:,} rows"))
    except InputError as error:
        raise DataError(str(error)) from None
    if not chunks:
        raise DataError(f"{path}: there are no rows below the header: give some")
    # Not the chunk itself, whose columns would be held along with the table.
    parts = [_RawTable(path, chunk.rows, chunk.columns, partial(_describe_place, path, chunk.place)) for chunk in chunks]
    return _RawTable.concatenate(parts, table.names)


def _describe_place(path: str, place: Callable[[int], str], row: int) -> str:
    return f"{path} {place(row)}"


def _name_vector_columns(columns: Columns, raw_table: _RawTable) -> Columns:
    """Return the columns with each vector, where it is named, replaced by those that hold its numbers (`name[0]`, ...)."""
    others = (columns.label, columns.group, columns.time, columns.weight)
    vectors = find_vectors([name for name in raw_table.columns if name not in others])
    _check_vectors(columns, raw_table, vectors)
    drop = tuple(part for name in columns.drop for part in vectors.get(name, [name]))
    kinds: dict[str, Kind] = {name: kind for name, kind in (columns.kinds or {}).items() if name not in vectors}
    kinds |= {part: "numeric" for parts in vectors.values() for part in parts}
    return replace(columns, drop=drop, kinds=kinds)


def _check_vectors(columns: Columns, raw_table: _RawTable, vectors: Mapping[str, list[str]]) -> None:
    """Raise if a vector has the name of another column, or the user says what kind one of its numbers is."""
    no_features = columns.non_feature_columns()
    for name, parts in find_vectors([column for column in raw_table.columns if column not in no_features]).items():
        if name in raw_table.columns:
            detail = f"the columns {parts[0]!r} to {parts[-1]!r} are a vector {name!r}, and there is another column of that name"
            raise DataError(f"{raw_table.path}: {detail}, which would be taken for it in production. Rename one of them")
    for name, parts in vectors.items():
        if part := next((part for part in parts if part in (columns.kinds or {})), None):
            detail = f"one of the numbers of the vector {name!r}, which have no kind of their own"
            raise DesignError(f"`kinds` names {part!r}, which is {detail}. Rename the column if it is no part of it")


def _check_columns(raw_table: _RawTable, first: _RawTable, columns: Columns) -> None:
    asked = [*columns.non_feature_columns(), *(columns.kinds or {})]
    missing = [name for name in asked if name not in raw_table.columns]
    if missing:
        what = "label column" if missing[0] == columns.label else "column"
        raise DataError(
            f"{raw_table.path}: there is no {what} {missing[0]!r}, it has {', '.join(raw_table.columns)}. Check the column name"
        )
    roles = {columns.label: "label", columns.group: "group", columns.time: "time", columns.weight: "weight"}
    for name in columns.kinds or {}:
        if name in roles:
            raise DesignError(
                f"`kinds` names {name!r}, which is the {roles[name]} column: only features have a kind. Leave it out"
            )
    different = sorted(set(raw_table.columns) ^ set(first.columns))
    if different:
        raise DataError(
            f"{raw_table.path} and {first.path} differ in columns: {', '.join(different)}. Give all splits the same ones"
        )
    if len({isinstance(table.columns[columns.label], np.ndarray) for table in (raw_table, first)}) > 1:
        raise DesignError(f"{raw_table.path} and {first.path} are a CSV and a Parquet file: give all splits in one form")


def _make_table(rows: _RawTable, features: Mapping[str, Array]) -> Table:
    """Return the table of the features; a vector that cannot be read is named by its place in the files."""
    try:
        return Table.of(features)
    except RowError as error:
        raise DataError(f"{rows.place(error.row)}: {error.before.removesuffix(', ')}{error.after}") from None


def _read_labels(rows: _RawTable, name: str) -> list[Any]:
    """Return the label of each row; raise for one that is missing. True and False become text, as in a CSV file."""
    parsed = rows.column(name, parse_labels)
    if isinstance(parsed, list):
        return parsed
    labels: list[Any] = parsed.tolist()
    # There are few different ones, and rows may be millions.
    different = set(labels)
    if not all(map(_label_name, different)):
        raise missing_label(name, rows.place(next(row for row, label in enumerate(labels) if not _label_name(label))))
    if not any(isinstance(label, bool) for label in different):
        return labels
    return [str(label) if isinstance(label, bool) else label for label in labels]


def _find_kept_rows(rows: _RawTable, columns: Columns) -> Ints | None:
    """Return the rows whose label is not to be dropped; None where none is."""
    if not columns.drop_labels:
        return None
    values = rows.columns[columns.label]
    given = values.tolist() if isinstance(values, np.ndarray) else values.texts()
    names = [_label_name(value) for value in given]
    words = _BOOLEAN_WORDS if any(isinstance(value, bool) for value in given) else {}
    dropped = {words.get(name, name) for name in map(_label_name, columns.drop_labels)}
    # A label that no row has may be misspelt; that every row has a label is no error.
    absent = sorted(dropped.difference(names, {""}))
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


def _count_missing_words(values: TextColumn | Array, words: frozenset[str]) -> Counter[str]:
    """Return the words of a column that mean "missing", with their rows; empty fields are no words."""
    if not isinstance(values, np.ndarray):
        _, others = find_other_texts(values, words)
        texts, codes = values.take(others).distinct()
        counts = dict(zip(texts, np.bincount(codes, minlength=len(texts)).tolist(), strict=True))
    elif values.dtype.kind == "O":
        counts = Counter(value for value in values.tolist() if isinstance(value, str))
    else:
        counts = _count_numbers(values, missing_numbers(words))
    return Counter({text: rows for text, rows in counts.items() if text.strip() and is_missing_text(text, words)})


def _blank_empty(values: TextColumn | Array) -> TextColumn | Array:
    """Return a column with empty texts of a Parquet file made gaps, as the empty fields of a CSV file are."""
    if not isinstance(values, np.ndarray) or values.dtype.kind != "O":
        return values
    empty = {value for value in values.tolist() if isinstance(value, str) and not value.strip()}
    return _replace_words(values, empty) if empty else values


def _count_numbers(values: Array, missing: Collection[float]) -> dict[str, int]:
    """Return how often numbers that mean "missing" are in an array of numbers, by their text; a word is found by it again."""
    if values.dtype.kind not in "iuf" or values.ndim > 1:
        return {}
    counts = {strip_decimal_zeros(str(number)): int(np.count_nonzero(values == number)) for number in missing}
    return {text: rows for text, rows in counts.items() if rows}


def _replace_words(values: TextColumn | Array, words: Collection[str]) -> TextColumn | Array:
    if not isinstance(values, np.ndarray):
        return values.blank(words)
    if values.dtype.kind != "O":
        return blank_numbers(values, missing_numbers(frozenset(words)))
    return to_objects([None if isinstance(value, str) and value in words else value for value in values.tolist()])


def _read_feature(rows: _RawTable, name: str, kind: Kind | None) -> Array:
    values: Array = rows.column(name, partial(_parse_feature, kind))
    if values.dtype.kind != "M":
        return values
    # As text, which the table check takes for dates; a bundle has no dates.
    texts: Array = np.datetime_as_string(values).astype(object)
    texts[np.isnat(values)] = None
    return texts


def _parse_feature(kind: Kind | None, name: str, values: TextColumn, place: Callable[[int], str]) -> Array:
    return parse_column(name, values, kind or infer_kind(values), place)


def _parse_split_column(name: str, values: TextColumn, place: Callable[[int], str]) -> Array:
    texts, codes = values.distinct()
    empty = np.flatnonzero(np.isin(codes, [at for at, text in enumerate(texts) if not text.strip()]))
    if len(empty):
        where = f"{place(int(empty[0]))}: column {name!r}"
        raise DataError(f"{where} is empty, and the division needs a value in every row: fill it, or drop the row")
    try:
        # Numbers sort as numbers; other text (groups, dates) stays as it is.
        return parse_column(name, values, "numeric", place)
    except DataError:
        return parse_column(name, values, "categorical", place)


def _read_split_column(rows: _RawTable, name: str, codes: Callable[..., Ints]) -> Array:
    """Return the column of groups or times; raise for a value that is none while its place in the files is known."""
    values: Array = rows.column(name, _parse_split_column)
    try:
        codes(values, rows=rows.rows)
    except RowError as error:
        raise DataError(f"{rows.place(error.row)}: column {name!r}{error.after}") from None
    return values


def _read_weights(rows: _RawTable, name: str) -> Floats:
    """Return the weights of all rows; raise for one that is missing, negative or infinite."""
    advice = "Weights are plain numbers: write them without units and without separators between digits"
    values = rows.column(name, lambda name, texts, place: parse_column(name, texts, "numeric", place, advice))
    try:
        weights = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{rows.path}: column {name!r} holds no numbers: expected the weight of each row") from None
    faulty = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if faulty.size:
        where, value = rows.place(int(faulty[0])), weights[faulty[0]]
        raise DataError(f"{where}: column {name!r} holds the weight {value:g}: expected a finite number, 0 or more, in every row")
    return weights


def _describe_file(raw_table: _RawTable, split: str | None) -> FileEntry:
    with Path(raw_table.path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    # Absolute, so that the run can be exported from any folder.
    return FileEntry(path=str(Path(raw_table.path).resolve()), split=split, rows=raw_table.rows, sha256=digest)
