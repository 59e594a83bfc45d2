"""From the frame of a partition to coded rows: which split each row belongs to, what columns hold, codes and labels."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import LARGEST_EXACT, Floats, Ints, Mask
from emsco_train.data.features import ColumnSummary, FeatureOptions, declared_kind, encode_table
from emsco_train.data.labels import label_positions, plain_labels
from emsco_train.data.table import Table
from emsco_train.errors import DataError

__all__ = ["CodedRows", "Encoding", "FramePart", "PartSummary", "PartitionColumns", "code_part", "sample_part", "summarise_part"]

SPLITS = ("train", "validation")
# Splits of a table of all four: rows that a search does not use.
_UNUSED = ("test", "certify")


@dataclass(frozen=True, slots=True, eq=False)
class FramePart:
    """The data frame of one partition, and its number."""

    number: int
    frame: Any


@dataclass(frozen=True, slots=True)
class PartitionColumns:
    """What the columns of a table are for.

    Parameters
    ----------
    names
        The features.
    label
        The column of the labels.
    split
        The column that says "train" or "validation" for each row; None: rows are drawn.
    keys
        Columns by whose hash rows are drawn: rows with the same keys are in the same split. Without, every row is drawn by
        itself, by its place in its partition.
    share
        Of the validation rows among those drawn.
    seed
        Of the draw.
    options
        Of the features, by name.
    """

    names: tuple[str, ...]
    label: str
    split: str | None
    keys: tuple[str, ...]
    share: float
    seed: int
    options: Mapping[str, FeatureOptions]


@dataclass(frozen=True, slots=True, eq=False)
class PartSummary:
    """What a partition says about features and labels; those of several partitions add up.

    `columns` are those of the train rows. `labels` counts the rows of each label by split.
    """

    columns: tuple[ColumnSummary, ...]
    labels: Mapping[str, Counter[Label]]

    def __add__(self, other: PartSummary) -> PartSummary:
        """Return the summary of both."""
        # Of a partition without train rows, nothing is known about columns.
        columns = tuple(map(operator.add, self.columns, other.columns)) if self.columns and other.columns else ()
        return PartSummary(
            columns or self.columns or other.columns, {split: self.labels[split] + other.labels[split] for split in SPLITS}
        )


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """How rows become codes and labels become positions."""

    columns: PartitionColumns
    features: tuple[Feature, ...]
    labels: tuple[Label, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CodedRows:
    """The rows of a partition by split: codes [rows, codes], and the position of each row's label."""

    codes: Mapping[str, Floats]
    target: Mapping[str, Ints]

    def __sizeof__(self) -> int:
        """Return the bytes of the rows."""
        return sum(array.nbytes for arrays in (self.codes, self.target) for array in arrays.values())


def summarise_part(part: FramePart, columns: PartitionColumns) -> PartSummary:
    """Summarise the rows of a partition."""
    rows = _split_rows(part, columns)
    labels = {split: Counter(_read_labels(part, columns, rows[split])) for split in SPLITS}
    if not rows["train"].any():
        return PartSummary((), labels)
    table = _read_table(part, columns, rows["train"])
    options = [columns.options.get(name, FeatureOptions()) for name in columns.names]
    summaries = tuple(
        ColumnSummary.of(name, table.columns[name], declared_kind(name, table, own))
        for name, own in zip(columns.names, options, strict=True)
    )
    return PartSummary(summaries, labels)


def code_part(part: FramePart, encoding: Encoding) -> CodedRows:
    """Read the rows of a partition into codes."""
    columns, rows = encoding.columns, _split_rows(part, encoding.columns)
    codes = {split: np.empty((0, len(encoding.features))) for split in SPLITS}
    for split, mask in rows.items():
        if mask.any():
            where = f"partition {part.number}, {split}"
            codes[split] = encode_table(encoding.features, _read_table(part, columns, mask), where)
    target = {split: label_positions(_read_labels(part, columns, mask), encoding.labels) for split, mask in rows.items()}
    return CodedRows(codes, target)


def sample_part(part: FramePart, wanted: tuple[PartitionColumns, float]) -> Any:
    """Return about this share of the rows of a partition, drawn, as a data frame; `_split` says the split of each."""
    columns, share = wanted
    rows = _split_rows(part, columns)
    drawn = np.random.default_rng((columns.seed, part.number, 1)).random(len(part.frame)) < share
    names = np.where(rows["train"], "train", np.where(rows["validation"], "validation", ""))
    kept = drawn & (names != "")
    return Samples((part.frame[[*columns.names, columns.label]][kept].assign(_split=names[kept]),))


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Rows drawn from partitions."""

    frames: tuple[Any, ...]

    def __add__(self, other: Samples) -> Samples:
        """Return the rows of both."""
        return Samples(self.frames + other.frames)


def _split_rows(part: FramePart, columns: PartitionColumns) -> dict[str, Mask]:
    frame = part.frame
    if columns.split is not None:
        names = np.asarray(frame[columns.split].astype(object))
        strange = sorted({str(name) for name in set(names.tolist())} - {*SPLITS, *_UNUSED})
        if strange:
            expected = ", ".join(map(repr, (*SPLITS, *_UNUSED)))
            raise DataError(f"column {columns.split!r}, partition {part.number}: expected {expected}, got {strange[0]!r}")
        return {split: np.asarray(names == split) for split in SPLITS}
    is_validation = _draw(part, columns) < columns.share
    return {"train": ~is_validation, "validation": is_validation}


def _draw(part: FramePart, columns: PartitionColumns) -> Floats:
    """Return a number from 0 to 1 for each row, the same whenever the partition is read."""
    if not columns.keys:
        return np.random.default_rng((columns.seed, part.number)).random(len(part.frame))
    from pandas.util import hash_pandas_object  # noqa: PLC0415 - only frames come here

    keys = part.frame[list(columns.keys)].apply(_with_whole_numbers)
    # The last steps of SplitMix64 mix the seed in: other seeds are other draws.
    mixed = hash_pandas_object(keys, index=False).to_numpy(dtype=np.uint64)
    mixed = mixed + np.uint64(columns.seed * 0x9E3779B97F4A7C15 % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) / 2**53)


def _with_whole_numbers(column: Any) -> Any:
    """Return a column of keys in which equal numbers have equal hashes, whatever else the partition holds.

    Where some keys of a partition are missing, pandas holds the others as floats, whose hashes are not those of whole numbers.
    """
    import pandas as pd  # noqa: PLC0415 - as above

    if pd.api.types.is_integer_dtype(column.dtype):
        nullable = "UInt64" if pd.api.types.is_unsigned_integer_dtype(column.dtype) else "Int64"
        return column.astype(nullable) if column.hasnans else column
    if not pd.api.types.is_float_dtype(column.dtype):
        return column
    numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    is_whole = (np.abs(numbers) <= LARGEST_EXACT) & (np.trunc(numbers) == numbers)
    # All others by their bits.
    codes = np.where(is_whole, np.where(is_whole, numbers, 0.0).astype(np.int64), numbers.view(np.int64))
    return pd.Series(pd.arrays.IntegerArray(codes, np.isnan(numbers)), index=column.index)


def _read_table(part: FramePart, columns: PartitionColumns, rows: Mask) -> Table:
    return Table.of(part.frame[list(columns.names)][rows])


def _read_labels(part: FramePart, columns: PartitionColumns, rows: Mask) -> list[Label]:
    where = f"column {columns.label!r}, partition {part.number}"
    return plain_labels(part.frame[columns.label][rows], rows=int(rows.sum()), where=where)
