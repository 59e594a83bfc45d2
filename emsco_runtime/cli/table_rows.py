"""Rows of a table file for `emsco-run`: the columns that a bundle needs, true labels, the rows of a split."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from pydantic import BaseModel, ValidationError

from emsco_runtime.bundle.encoding import UNKNOWN_CATEGORY, encode_column
from emsco_runtime.bundle.manifest import Feature, Manifest
from emsco_runtime.errors import InputError
from emsco_runtime.support.arrays import Array, Ints, to_objects
from emsco_runtime.support.csv_file import match_category
from emsco_runtime.support.missing_values import is_missing
from emsco_runtime.support.missing_words import MISSING_WORDS
from emsco_runtime.support.table_file import TableChunk, TableFile, open_table
from emsco_runtime.support.text_column import FieldReader, TextColumn
from emsco_runtime.support.vector_names import column_names

__all__ = ["LabelColumn", "count_ignored", "find_other_table", "make_field_readers", "read_split_rows", "take_rows"]

_BOOLEAN_LABELS = {"True": "1", "False": "0", "1": "True", "0": "False"}

Column: TypeAlias = TextColumn | Array


def make_field_readers(
    manifest: Manifest, table: TableFile, missing_words: frozenset[str] | None = None
) -> dict[str, FieldReader]:
    """Return what reads each column that the bundle's stages need: a feature's own, or those of the numbers of a vector.

    Where no words for a missing value are given, those of the training are taken.
    """
    trained_words = manifest.provenance.missing_words
    words = missing_words if missing_words is not None else MISSING_WORDS if trained_words is None else trained_words
    features = {feature.name: feature for feature in manifest.features}
    needed = [features[name] for stage in manifest.stages for name in stage.acquire]
    given = frozenset(table.names)
    columns = {column: feature for feature in needed for column in _columns_of(feature, given)}
    missing = [name for name in columns if name not in given]
    if missing:
        raise InputError(
            f"{table.path}: columns are missing: {', '.join(missing)}; the file has {', '.join(table.names)}."
            " Every feature of a stage needs one"
        )
    kinds = {name: "numeric" if name != feature.name else feature.kind for name, feature in columns.items()}
    return {name: FieldReader(kinds[name], frozenset(feature.categories), words) for name, feature in columns.items()}


def _columns_of(feature: Feature, given: Container[str]) -> list[str]:
    """Return the columns that hold a feature: one, or one for each number of a vector."""
    is_numbered = feature.kind == "vector" and feature.name not in given
    return column_names(feature.name, feature.width) if is_numbered else [feature.name]


def count_ignored(feature: Feature, values: Array) -> int:
    """Return in how many rows a feature has a category that the bundle does not know, and ignores."""
    if feature.kind != "categorical" or feature.unknown != "ignore":
        return 0
    codes, faulty = encode_column(feature, values)
    ignored = codes == UNKNOWN_CATEGORY
    return int(np.count_nonzero(ignored if faulty is None else ignored & ~faulty))


def take_rows(chunk: TableChunk, split_rows: Ints | None) -> tuple[Ints, Mapping[str, Column]]:
    """Return the rows of a chunk that belong to a split, counted in the chunk, and their columns; None: all rows."""
    if split_rows is None:
        return np.arange(chunk.rows), chunk.columns
    first, last = np.searchsorted(split_rows, [chunk.start, chunk.start + chunk.rows])
    rows = split_rows[first:last] - chunk.start
    # Of a vector, an array has the numbers in a second dimension.
    return rows, {
        name: column.take(rows, axis=0) if isinstance(column, np.ndarray) else column.take(rows)
        for name, column in chunk.columns.items()
    }


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """The column of true labels, if there is one."""

    column: str | None
    labels: frozenset[str]

    @classmethod
    def find(cls, table: TableFile, requested: str | None, manifest: Manifest) -> LabelColumn:
        """Find the column: the requested one, or "label" if there is one."""
        if requested is not None and requested not in table.names:
            raise InputError(
                f"{table.path}: there is no label column {requested!r}, the file has {', '.join(table.names)}. "
                "Check the column name"
            )
        column = requested or ("label" if "label" in table.names else None)
        return cls(column, frozenset(map(str, manifest.labels)))

    def read_labels(self, columns: Mapping[str, Column], rows: int) -> list[str | None]:
        """Return the true label of each of the `rows` rows as text; None where there is none."""
        if self.column is None:
            return [None] * rows
        column = columns[self.column]
        if isinstance(column, np.ndarray):
            # There are few different ones.
            values = column.tolist()
            try:
                different = set(values)
            except TypeError:
                # Lists or structs, which are no labels: their text says so.
                values = [None if value is None else str(value) for value in values]
                different = set(values)
            known = {value: self._read_value(value) for value in different}
            return [known[value] for value in values]
        texts, codes = column.distinct()
        labels: list[str | None] = to_objects([self._read_label(text) for text in texts]).take(codes).tolist()
        return labels

    def _read_value(self, value: object) -> str | None:
        """Return the label that a typed value means."""
        return None if is_missing(value) else self._read_label(str(value))

    def _read_label(self, text: str) -> str | None:
        if not text.strip():
            return None
        # Booleans in Python are trained on as 0 and 1, those of a table as they are written.
        other = _BOOLEAN_LABELS.get(text)
        return other if other in self.labels and text not in self.labels else match_category(text, self.labels)


def read_split_rows(run: str, split: str) -> Ints:
    """Return the rows of a named split of a training run, counted from 0, ascending, from its `splits.csv` (row, split)."""
    path = str(Path(run) / "splits.csv")
    found: list[Array] = []
    names: set[str] = set()
    with open_table(path) as table:
        for column in ("row", "split"):
            if column not in table.names:
                raise InputError(f"{path}: the column {column!r} is missing, expected the columns row and split")
        for chunk in table.read(["row", "split"]):
            texts, codes = _text(chunk, "split").distinct()
            names.update(texts)
            if split in texts:
                found.append(_read_row_numbers(path, chunk, np.flatnonzero(codes == texts.index(split))))
    if not found:
        raise InputError(f"{path}: there is no split {split!r}; it has {', '.join(sorted(names)) or 'no rows'}")
    return np.unique(np.concatenate(found))


def find_other_table(run: str, split: str, rows: str) -> str | None:
    """Return what to say of a table that is not the file whose rows `splits.csv` counts, by its hash; None if it is.

    The same rows may be in another file, in several files of a folder, or in a pipe, so that this is no error, unless it is the
    file of another split. A folder that holds `splits.csv` alone says nothing of the file.
    """
    path = Path(run) / "run.json"
    if not path.is_file():
        return None
    try:
        trained = _TrainedFiles.model_validate_json(path.read_bytes()).data.files
    except ValidationError:
        raise InputError(
            f"{path}: not readable as the record of a training run: give the folder that emsco-train wrote"
        ) from None
    digest = _hash_file(rows)
    own = [one for one in trained if one.split in (None, split)] or list(trained)
    if any(one.sha256 == digest for one in own):
        return None
    for other in trained:
        if other.sha256 == digest:
            raise InputError(f"{rows} holds the {other.split} rows of the run: give the file of its {split} rows, {own[0].path}")
    return (
        f"{rows} is not the file that the run was trained on, {own[0].path}, or has changed since. Rows are taken by their "
        f"numbers: they are the {split} rows only if the file has the same rows in the same order"
    )


def _hash_file(path: str) -> str | None:
    """Return the hash of a file; None for a folder, or for a pipe, which can be read once."""
    if not Path(path).is_file():
        return None
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _TrainedFile(BaseModel):
    """A file of a training run: where it was, and its hash; the split that it is, unless the run has divided it."""

    path: str
    split: str | None
    sha256: str


class _TrainedData(BaseModel):
    files: tuple[_TrainedFile, ...]


class _TrainedFiles(BaseModel):
    """What is needed of `run.json`."""

    data: _TrainedData


def _text(chunk: TableChunk, name: str) -> TextColumn:
    column = chunk.columns[name]
    if isinstance(column, np.ndarray):
        raise InputError(f"splits.csv: expected a CSV file of text, got {column.dtype} in the column {name!r}")
    return column


def _read_row_numbers(path: str, chunk: TableChunk, rows: Ints) -> Ints:
    texts = _text(chunk, "row").take(rows).texts()
    for row, text in zip(rows.tolist(), texts, strict=True):
        if not text.isdigit():
            raise InputError(f"{path}: {chunk.place(row)}: expected a row number, got {text!r}")
    return np.array(texts, dtype=np.intp)
