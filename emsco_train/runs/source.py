"""`Source`: table files as the user names them: one table, or ready splits; CSV or Parquet."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from emsco_runtime.errors import InputError
from emsco_runtime.support.arrays import Array
from emsco_runtime.support.csv_file import open_csv
from emsco_train.data.features import Kind
from emsco_train.data.splits import SPLITS, Splits
from emsco_train.data.table import Table
from emsco_train.data.text_columns import infer_kind, parse_column, parse_labels
from emsco_train.errors import DataError, DesignError

__all__ = ["Columns", "Source", "SourceFile", "read_source"]

_PARQUET = (".parquet", ".pq")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One table file.

    Parameters
    ----------
    path
        Where it is.
    split
        Which split its rows are; None: a table to be divided.
    rows
        How many it has.
    sha256
        Of its bytes.
    """

    path: str
    split: str | None
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column means what.

    Parameters
    ----------
    label
        Column of the true label.
    group, time
        Columns that keep rows together, or order them; they are no features. None: no such column.
    drop
        Columns to leave out.
    kinds
        What columns hold, where the values do not tell.
    """

    label: str = "label"
    group: str | None = None
    time: str | None = None
    drop: tuple[str, ...] = ()
    kinds: Mapping[str, Kind] | None = None

    def non_feature_columns(self) -> tuple[str, ...]:
        """Return the columns that are no features."""
        return tuple(name for name in (self.label, self.group, self.time, *self.drop) if name is not None)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Rows of all files, one after the other.

    Parameters
    ----------
    files
        What was read.
    table
        The features' columns.
    labels
        The label of each row.
    group, time
        Values of those columns, or None.
    """

    files: tuple[SourceFile, ...]
    table: Table
    labels: list[Any]
    group: Array | None
    time: Array | None

    def splits(self) -> Splits | None:
        """Return the splits that the files are, or None for one table."""
        if self.files[0].split is None:
            return None
        return Splits.from_names(np.repeat([file.split for file in self.files], [file.rows for file in self.files]))


@dataclass(frozen=True, slots=True, eq=False)
class _RawTable:
    """The columns of one file: lists of text from CSV, typed arrays from Parquet."""

    path: str
    columns: Mapping[str, list[str] | Array]
    lines: list[str]


def read_source(paths: Mapping[str | None, str | os.PathLike[str]], columns: Columns) -> Source:
    """Read one table (split None), or the files of several splits.

    Parameters
    ----------
    paths
        Split name -> file.
    columns
        Which column means what.

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
    names = [name for name in first.columns if name not in columns.non_feature_columns()]
    if not names:
        raise DataError(
            f"{first.path}: there is no column beside {', '.join(columns.non_feature_columns())}: give at least one feature"
        )
    unnamed = [place for place, name in enumerate(first.columns, start=1) if name in names and not name.strip()]
    if unnamed:
        detail = f"column {unnamed[0]} of the header has no name (the index of a data frame?)"
        raise DataError(f"{first.path}: {detail}: name it, or leave it out with `drop=('',)`")
    parts = list(raw_tables.values())
    lines = [line for raw_table in parts for line in raw_table.lines]
    features = {
        name: _read_feature(name, _concatenate_column(name, parts), (columns.kinds or {}).get(name), lines) for name in names
    }
    files = tuple(_describe_file(raw_table, split) for split, raw_table in raw_tables.items())
    labels = _read_labels(columns.label, _concatenate_column(columns.label, parts), lines)
    if len(set(labels)) == 1:
        detail = f"column {columns.label!r} holds only the label {labels[0]!r}"
        raise DataError(f"{first.path}: {detail}: at least two different ones are needed to train")
    return Source(
        files,
        Table.of(features),
        labels,
        _read_split_column(columns.group, parts),
        _read_split_column(columns.time, parts),
    )


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
    mixed = isinstance(raw_table.columns[columns.label], list) != isinstance(first.columns[columns.label], list)
    if mixed:
        raise DesignError(f"{raw_table.path} and {first.path} are a CSV and a Parquet file: give all splits in one form")


def _concatenate_column(name: str, parts: Sequence[_RawTable]) -> list[str] | Array:
    columns = [raw_table.columns[name] for raw_table in parts]
    if isinstance(columns[0], list):
        return [value for column in columns for value in column]
    return np.concatenate(columns)


def _read_feature(name: str, values: list[str] | Array, kind: Kind | None, lines: Sequence[str]) -> Array:
    if isinstance(values, list):
        return parse_column(name, values, kind or infer_kind(values), lines)
    return values


def _read_labels(name: str, values: list[str] | Array, lines: Sequence[str]) -> list[Any]:
    return parse_labels(name, values, lines) if isinstance(values, list) else values.tolist()


def _read_split_column(name: str | None, parts: Sequence[_RawTable]) -> Array | None:
    if name is None:
        return None
    values = _concatenate_column(name, parts)
    if not isinstance(values, list):
        return values
    lines = [line for raw_table in parts for line in raw_table.lines]
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


def _describe_file(raw_table: _RawTable, split: str | None) -> SourceFile:
    with Path(raw_table.path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    # Absolute, so that the run can be exported from any folder.
    return SourceFile(str(Path(raw_table.path).resolve()), split, len(raw_table.lines), digest)
