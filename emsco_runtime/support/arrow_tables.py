"""CSV and Parquet files read by pyarrow, an extra, and lines of CSV written by it.

CSV files are read as text: what a field means is ours to say (`text_column`), so that it does not depend on the reader. Files in
which the csv module would refuse a quote are left to it, since pyarrow does not.
"""

from __future__ import annotations

import contextlib
import mmap
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from emsco_runtime.errors import InputError
from emsco_runtime.support.arrays import LARGEST_EXACT, Array, Floats, Ints, Mask, as_column

__all__ = [
    "PARQUET_ENDINGS",
    "ArrowColumn",
    "has_pyarrow",
    "is_plain_csv",
    "join_lines",
    "read_csv_chunks",
    "read_parquet_chunks",
    "read_parquet_names",
    "to_array",
]

PARQUET_ENDINGS = (".parquet", ".pq")

# Text that Arrow reads as a finite number reads the same by `float`; what else `float` accepts is left to it.
_NUMBER = r"^-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?$"
# One field and what ends it, thousands of times: a quote opens a field or is text within an unquoted one, and one that closes a
# field is at its end. Bounded, so that Ctrl-C is handled in between.
_FIELDS = re.compile(rb'(?:(?:"(?:[^"]++|"")*+"|[^",\r\n][^,\r\n]*+|)(?:,|\r\n|\r|\n|\Z)){1,65536}+')
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLOCK_BYTES = 2**23
# Numbers from here to 1 are written the same by Arrow and by Python.
_LEAST_SAME = 1e-4
# Of a chunk: rows, and numbers of all columns together.
_BATCH_ROWS, _BATCH_NUMBERS = 2**16, 2**20


def has_pyarrow() -> bool:
    """Return whether pyarrow is installed."""
    try:
        import pyarrow as pa  # noqa: F401, PLC0415 - an extra, and slow to load
    except ImportError:
        return False
    return True


class ArrowColumn:
    """A column of text in Arrow's memory: some bytes more than the file has, where a list of text takes ten times as much."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self._numbers: tuple[Floats, Mask] | None = None

    @classmethod
    def concatenate(cls, columns: Sequence[ArrowColumn]) -> ArrowColumn:
        """Return several columns as one, without a copy."""
        import pyarrow as pa  # noqa: PLC0415

        parts = [column.array for column in columns]
        chunks = [chunk for part in parts for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
        return cls(pa.chunked_array(chunks, pa.large_string()))

    def __len__(self) -> int:
        """Return the number of fields."""
        return len(self.array)

    def texts(self) -> list[str]:
        """Return the text of each field."""
        texts: list[str] = self.array.to_pylist()
        return texts

    def take(self, rows: Ints) -> ArrowColumn:
        """Return the fields of these rows."""
        return ArrowColumn(self.array.take(rows))

    def blank(self, words: Collection[str]) -> ArrowColumn:
        """Return the column with these texts made empty."""
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        is_word = pc.is_in(self.array, value_set=pa.array(sorted(words), self.array.type))
        return ArrowColumn(pc.if_else(is_word, pa.scalar("", self.array.type), self.array))

    def distinct(self) -> tuple[list[str], Ints]:
        """Return the different texts, in the order of their first fields, and the position of each field's among them."""
        import pyarrow as pa  # noqa: PLC0415

        whole = self.array.combine_chunks() if isinstance(self.array, pa.ChunkedArray) else self.array
        encoded = whole.dictionary_encode()
        return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.intp)

    def parse_numbers(self) -> tuple[Floats, Mask]:
        """Return finite numbers where fields are such, and which fields were parsed."""
        if self._numbers is None:
            self._numbers = self._parse_numbers()
        numbers, parsed = self._numbers
        return numbers.copy(), parsed.copy()

    def _parse_numbers(self) -> tuple[Floats, Mask]:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        nothing = pa.scalar(None, self.array.type)
        present = pc.if_else(pc.equal(self.array, ""), nothing, self.array)
        try:
            cast = pc.cast(present, pa.float64())
        except pa.ArrowInvalid:
            present = pc.if_else(pc.match_substring_regex(self.array, _NUMBER), self.array, nothing)
            try:
                cast = pc.cast(present, pa.float64())
            except pa.ArrowInvalid:
                # A number out of range, such as 1e999.
                return np.full(len(self), np.nan), np.zeros(len(self), dtype=np.bool_)
        numbers = np.array(cast.to_numpy(zero_copy_only=False) if isinstance(cast, pa.Array) else cast.to_numpy())
        return numbers, np.isfinite(numbers)


def join_lines(numbers: Ints, before: Sequence[str], scores: Floats, after: Sequence[str], kind: Ints) -> str:
    """Return a line "number,before,score,after" for each row; what stands before and after its score is that of its kind.

    Scores are written as `repr` writes them, and NaN as nothing. Unlike a loop over the rows, this runs in several threads.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    text, kinds = pa.large_string(), pa.array(kind)
    fields = pc.cast(pa.array(scores), text)
    # Here Arrow and Python write the same digits; above, Arrow leaves out ".0", and below it writes no exponents.
    others = np.flatnonzero(~((scores >= _LEAST_SAME) & (scores < 1.0)))
    if len(others):
        written = [repr(score) if score == score else "" for score in scores[others].tolist()]  # noqa: PLR0124 - the test for NaN
        mask = np.zeros(len(scores), dtype=np.bool_)
        mask[others] = True
        fields = pc.replace_with_mask(fields, pa.array(mask), pa.array(written, text))
    starts, ends = (pa.array(texts, text).take(kinds) for texts in (before, after))
    lines = pc.binary_join_element_wise(pc.cast(pa.array(numbers), text), starts, fields, ends, pa.scalar(",", text))
    whole = pc.binary_join(pa.LargeListArray.from_arrays(pa.array([0, len(lines)], pa.int64()), lines), pa.scalar("\n", text))
    return f"{whole[0].as_py()}\n"


def is_plain_csv(path: str) -> bool:
    """Return whether every quote of a file is where the csv module allows one."""
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content.find(b'"') < 0:
            return True
        place = len(_BYTE_ORDER_MARK) if content[:3] == _BYTE_ORDER_MARK else 0
        while place < len(content):
            match = _FIELDS.match(content, place)
            if match is None:
                return False
            place = match.end()
    return True


def read_csv_chunks(path: str, header: Sequence[str], columns: Sequence[str]) -> Iterator[dict[str, ArrowColumn]]:
    """Read columns of a CSV file in chunks of rows.

    Raises
    ------
    InputError
        If the file cannot be read, or its header is another one; a reader that knows lines can say where.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.csv  # noqa: PLC0415

    text = pa.large_string()
    try:
        with pa.csv.open_csv(
            path,
            read_options=pa.csv.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(header, text), strings_can_be_null=False, include_columns=list(columns)
            ),
        ) as reader:
            for batch in reader:
                yield {name: ArrowColumn(batch.column(place)) for place, name in enumerate(columns)}
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: not readable as CSV: {str(error).splitlines()[0]}") from None


def read_parquet_names(path: str) -> list[str]:
    """Return the names of the columns of a Parquet file, or of a folder of them."""
    names: list[str] = _open_parquet(path).schema.names
    return names


def read_parquet_chunks(path: str, columns: Sequence[str]) -> Iterator[dict[str, Array]]:
    """Read columns of a Parquet file, or of the files of a folder in the order of their names, in chunks of rows.

    Numbers, booleans and text become arrays, with None or NaN for gaps. Lists become arrays: those of a fixed size one array
    [rows, size], with a row of NaN for a gap. No more than a few chunks, and one row group of a file, are held at a time.
    """
    import pyarrow as pa  # noqa: PLC0415

    try:
        dataset = _open_parquet(path)
        for group in _row_groups(dataset):
            yield from _read_group(dataset.schema, group, list(columns))
    except (pa.ArrowException, OSError) as error:
        raise _unreadable_parquet(path, error) from None


def _read_group(schema: Any, group: Any, columns: list[str]) -> Iterator[dict[str, Array]]:
    import pyarrow as pa  # noqa: PLC0415

    own = dict(zip(group.physical_schema.names, group.physical_schema.types, strict=True))
    # Whole numbers are read as they are: not all of them are floats, or fit a type with a sign.
    whole = {name: own[name] for name in columns if name in own and pa.types.is_integer(own[name])}
    read = pa.schema([schema.field(name).with_type(whole.get(name, schema.field(name).type)) for name in columns])
    try:
        for batch in group.to_batches(read, columns=columns, batch_size=_batch_rows(schema, columns)):
            if batch.num_rows:
                yield {name: _to_joined_array(batch.column(name), schema.field(name).type) for name in columns}
    except pa.ArrowException as error:
        others = [name for name in columns if name in own and own[name] != schema.field(name).type]
        types = ", ".join(f"{name} is {own[name]}, read as {schema.field(name).type}" for name in others)
        differs = InputError(
            f"{group.path}: other types than in other files, as which not every value can be read: {types} "
            f"({_first_line(error)}). Write all files of a folder with the same types"
        )
        raise (differs if others else _unreadable_parquet(group.path, error)) from None


def _to_joined_array(column: Any, kind: Any) -> Array:
    """Return a column as an array of the type of its folder; one with whole numbers that are too large for it as objects."""
    import pyarrow as pa  # noqa: PLC0415

    if column.type == kind:
        return to_array(column)
    try:
        return to_array(column.cast(kind))
    except pa.ArrowInvalid:
        return np.array(column.to_pylist(), dtype=object)


def _open_parquet(path: str) -> Any:
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.dataset  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise InputError(f"{path}: reading Parquet needs pyarrow: pip install 'emsco[parquet]', or give a CSV file") from None
    files = _list_files(path)
    try:
        _check_names(path, pa.parquet.read_schema(files[0]).names)
        dataset = pa.dataset.dataset(files, format="parquet", partitioning="hive", partition_base_dir=path)
        if len(files) > 1:
            # Of the same fragments, which have read what is at the end of each file.
            fragments = list(dataset.get_fragments())
            dataset = pa.dataset.FileSystemDataset(fragments, _join_schemas(dataset), dataset.format, dataset.filesystem)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable_parquet(path, error) from None
    return dataset


def _check_names(path: str, names: Sequence[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InputError(f"{path}: a column occurs twice: {', '.join(twice)}. Names must be unique")


def _row_groups(dataset: Any) -> Iterator[Any]:
    """Yield the pieces of a table: over a whole one, pyarrow reads a gigabyte ahead of a slow reader, whatever its options."""
    for fragment in dataset.get_fragments():
        yield from fragment.split_by_row_group()


def _batch_rows(schema: Any, columns: Sequence[str]) -> int:
    """Return the rows of a chunk: fewer where there are many columns, or wide vectors."""
    numbers = sum(max(1, getattr(schema.field(name).type, "list_size", 1)) for name in columns)
    return max(1, min(_BATCH_ROWS, _BATCH_NUMBERS // max(1, numbers)))


def _list_files(path: str) -> list[str]:
    """Return a file, or the Parquet files of a folder and those below; names that begin with "." or "_" are not for readers."""
    folder = Path(path)
    if not folder.is_dir():
        return [path]
    files = sorted(file for ending in PARQUET_ENDINGS for file in folder.rglob(f"*{ending}"))
    found = [str(file) for file in files if not any(part[0] in "._" for part in file.relative_to(folder).parts)]
    if not found:
        raise InputError(
            f"{path}: this directory has no Parquet files ({', '.join(PARQUET_ENDINGS)}). Give a file, or another folder"
        )
    return found


def _join_schemas(dataset: Any) -> Any:
    """Return the columns of a folder, each with a type for the values of all files; with that of the first where there is none.

    Files of different columns are refused: Arrow would take those of another file for missing values.
    """
    import pyarrow as pa  # noqa: PLC0415

    types = {field.name: field.type for field in dataset.schema}
    expected: set[str] | None = None
    joined: Any = None
    for fragment in dataset.get_fragments():
        # Most are alike as a whole, and a folder may have thousands of files, and they thousands of columns.
        if fragment.physical_schema == joined:
            continue
        joined = fragment.physical_schema
        _check_names(fragment.path, joined.names)
        names = set(joined.names)
        expected = expected or names
        if names != expected:
            others = ", ".join(sorted(names ^ expected))
            detail = "has other columns than the first file of the folder"
            raise InputError(f"{fragment.path}: {detail} (only one of them has {others}). All files of a folder are one table")
        for field in joined:
            if field.type != types[field.name]:
                types[field.name] = _join_types(types[field.name], field.type)
    return pa.schema([field.with_type(types[field.name]) for field in dataset.schema])


def _join_types(one: Any, other: Any) -> Any:
    """Return a type for the values of both, such as float64 for float32 and float64; the first one where there is none."""
    import pyarrow as pa  # noqa: PLC0415

    both = (one, other)
    if any(map(pa.types.is_decimal, both)) and any(map(pa.types.is_floating, both)):
        # Arrow would take the float, however narrow.
        return pa.float64()
    texts = [kind for kind in both if pa.types.is_string(kind) or pa.types.is_large_string(kind)]
    if texts and any(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) for kind in both):
        # Arrow would make bytes of text, which are the values of no feature.
        return texts[0]
    with contextlib.suppress(pa.ArrowException):
        return pa.unify_schemas([pa.schema([("", kind)]) for kind in both], promote_options="permissive").field(0).type
    return one


def _unreadable_parquet(path: str, error: Exception) -> InputError:
    return InputError(f"{path}: not readable as Parquet: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def to_array(column: Any) -> Array:
    """Return an Arrow array as `read_parquet_chunks` returns a column."""
    import pyarrow as pa  # noqa: PLC0415

    kind = column.type
    if pa.types.is_dictionary(kind) and pa.types.is_primitive(kind.value_type):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_dictionary(kind):
        array = _look_up(column)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        # One text object for all fields that hold it.
        array = _look_up(column.dictionary_encode())
    elif pa.types.is_integer(kind) and column.null_count and _has_large_numbers(column):
        # As floats, because of the gaps, codes would not be the same to the last digit.
        array = as_column(column.to_pylist())
    elif pa.types.is_fixed_size_list(kind):
        numbers = column.values.slice(column.offset * kind.list_size, len(column) * kind.list_size)
        array = numbers.to_numpy(zero_copy_only=False).reshape(len(column), kind.list_size)
        # Dates are refused, gaps or not, and numpy puts no NaN among them.
        if column.null_count and array.dtype.kind not in "mM":
            array = np.where(column.is_null().to_numpy(zero_copy_only=False)[:, None], np.nan, array)
    else:
        array = column.to_numpy(zero_copy_only=False)
    return array


def _look_up(encoded: Any) -> Array:
    """Return the values of a dictionary array as objects; Arrow itself decodes none of views of text, or of lists."""
    import pyarrow as pa  # noqa: PLC0415

    values = as_column([*encoded.dictionary.to_pylist(), None])
    # The position of None may be too large for the type of the others.
    positions = encoded.indices.cast(pa.int64()).fill_null(len(values) - 1)
    objects: Array = values.take(positions.to_numpy(zero_copy_only=False))
    return objects


def _has_large_numbers(column: Any) -> bool:
    """Return whether a column of whole numbers holds one that a float may not."""
    import pyarrow.compute as pc  # noqa: PLC0415

    ends = pc.min_max(column).as_py().values()
    return any(end is not None and abs(end) > LARGEST_EXACT for end in ends)
