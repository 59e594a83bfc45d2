"""Table files in chunks of rows: CSV or Parquet, by pyarrow where it is installed; CSV also by the csv module, without it.

A chunk holds whole columns: text of a CSV file, typed arrays of a Parquet file. No more than a chunk is held at a time.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from emsco_runtime.errors import InputError
from emsco_runtime.support.arrays import Array
from emsco_runtime.support.arrow_tables import (
    PARQUET_ENDINGS,
    ArrowColumn,
    has_pyarrow,
    is_plain_csv,
    read_csv_chunks,
    read_parquet_chunks,
    read_parquet_names,
)
from emsco_runtime.support.csv_file import CsvRows, open_csv
from emsco_runtime.support.text_column import ListColumn, TextColumn

__all__ = ["TableChunk", "TableFile", "concatenate_columns", "is_parquet", "open_table"]

_PARQUET_MAGIC = b"PAR1"
# Below this the csv module is done before pyarrow is loaded.
_MIN_ARROW_BYTES = 2**20
_CHUNK_ROWS = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class TableChunk:
    """Some rows that follow each other: the number of the first, counted from 0, and their columns.

    `place` says where a row of the chunk, counted in it from 0, stands in the file: "line 7" or "row 5".
    """

    start: int
    rows: int
    columns: Mapping[str, TextColumn | Array]
    place: Callable[[int], str]


@dataclass(frozen=True, slots=True, eq=False)
class TableFile:
    """An open table: its path, the names of its columns, and its rows, which can be read once."""

    path: str
    names: tuple[str, ...]
    read: Callable[[Sequence[str]], Iterator[TableChunk]]


@contextlib.contextmanager
def open_table(path: str) -> Iterator[TableFile]:
    """Open a CSV or Parquet file; `InputError` if it cannot be read, here or later at the rows that cannot.

    A CSV file may be a pipe.
    """
    if is_parquet(path):
        yield TableFile(path, tuple(read_parquet_names(path)), lambda names: _parquet_chunks(path, names))
        return
    with open_csv(path) as rows:
        read = _arrow_chunks if _is_for_arrow(path) else _csv_chunks
        yield TableFile(path, tuple(rows.header), lambda names: read(rows, names))


def concatenate_columns(parts: Sequence[TextColumn | Array]) -> TextColumn | Array:
    """Return the parts of a column, of one or several files of the same form, as one column."""
    if len(parts) == 1:
        return parts[0]
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if arrays:
        return np.concatenate(arrays)
    arrow = [part for part in parts if isinstance(part, ArrowColumn)]
    if len(arrow) == len(parts):
        return ArrowColumn.concatenate(arrow)
    return ListColumn([text for part in parts if not isinstance(part, np.ndarray) for text in part.texts()])


def is_parquet(path: str) -> bool:
    """Return whether a file is Parquet, by its name or by how it begins; a folder is taken for one of Parquet files."""
    if path.lower().endswith(PARQUET_ENDINGS) or Path(path).is_dir():
        return True
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC


def _is_for_arrow(path: str) -> bool:
    file = Path(path)
    return file.is_file() and file.stat().st_size >= _MIN_ARROW_BYTES and has_pyarrow() and is_plain_csv(path)


def _csv_chunks(rows: CsvRows, names: Sequence[str]) -> Iterator[TableChunk]:
    place_of = {name: place for place, name in enumerate(rows.header)}
    places = [place_of[name] for name in names]
    selected, start = iter(rows), 0
    while batch := list(itertools.islice(selected, _CHUNK_ROWS)):
        columns = {name: ListColumn([row.fields[place] for row in batch]) for name, place in zip(names, places, strict=True)}
        lines = [row.line for row in batch]
        yield TableChunk(start, len(batch), columns, lambda row, lines=lines: f"line {lines[row]}")  # type: ignore[misc]
        start += len(batch)


def _arrow_chunks(rows: CsvRows, names: Sequence[str]) -> Iterator[TableChunk]:
    start = 0
    # At least one column, or the rows would not be counted.
    wanted = names or rows.header[:1]
    try:
        for columns in read_csv_chunks(rows.path, rows.header, wanted):
            count = len(columns[wanted[0]])
            yield TableChunk(start, count, columns, lambda row, start=start: _find_line(rows.path, start + row))  # type: ignore[misc]
            start += count
    except InputError:
        # The csv module knows the line, and says it in its own words.
        for _ in rows:
            pass
        raise


def _parquet_chunks(path: str, names: Sequence[str]) -> Iterator[TableChunk]:
    wanted = names or read_parquet_names(path)[:1]
    start = 0
    for columns in read_parquet_chunks(path, wanted):
        count = len(columns[wanted[0]])
        yield TableChunk(start, count, columns, lambda row, start=start: f"row {start + row}")  # type: ignore[misc]
        start += count


def _find_line(path: str, row: int) -> str:
    with open_csv(path) as rows:
        found = next(itertools.islice(rows, row, None))
    return f"line {found.line}"
