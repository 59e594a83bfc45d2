"""`BlockEncoder`: from the numbers that enter a stage to the columns of its model.

Each feature is a block of columns, a vector a block for each of its numbers. Numbers and booleans: gaps filled, then standardised
to mean 0 and (population) deviation 1.
Categories: gaps filled with the most common, then one 0/1 column per category; an unknown one gives zeros.
A feature with a curve: its level, one column for two labels and a few for several; gaps have a level of their own.
A block is the same in every set of features, so one encoder serves them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.data.curve import Curve
from emsco_train.data.directions import Directions
from emsco_train.data.features import typical_code
from emsco_train.data.row_error import RowError

__all__ = ["Block", "BlockEncoder", "make_block"]


@dataclass(frozen=True, slots=True)
class Block:
    """How one feature, or one number of a vector, becomes columns."""

    name: str  # of the feature
    categories: int  # their number; 0 for numbers and booleans
    impute: bool  # whether gaps (NaN) are allowed and filled
    fill: float  # code that fills a gap: the median, or the most common value
    mean: float  # of the filled training column; 0 for categories
    scale: float  # likewise; 1 for categories
    curve: Curve | None = None  # instead of standardising and one-hot encoding

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.categories or 1 if self.curve is None else self.curve.width

    @property
    def is_one_hot(self) -> bool:
        """Whether each category has a column."""
        return bool(self.categories) and self.curve is None


@dataclass(frozen=True, slots=True)
class BlockEncoder:
    """The blocks of some features, in order: one for each code, so that a vector has several.

    Examples
    --------
    >>> size = Feature(name="size", kind="numeric", cost=1.0, missing="impute")
    >>> kind = Feature(name="kind", kind="categorical", categories=("a", "b"), cost=1.0)
    >>> encoder = BlockEncoder.fit([size, kind], np.array([[1.0, 0.0], [3.0, 1.0]]))
    >>> encoder.transform(np.array([[3.0, 1.0], [np.nan, -1.0]]))
    array([[1., 0., 1.],
           [0., 0., 0.]])
    >>> encoder.columns(["kind"]), encoder.column_owners, encoder.one_hot_groups
    (array([1, 2]), array([0, 1, 1]), (slice(1, 3, None),))
    """

    blocks: tuple[Block, ...]

    @classmethod
    def fit(cls, features: Sequence[Feature], codes: Floats, *, default: BlockEncoder | None = None) -> BlockEncoder:
        """Learn the statistics from training codes [rows, codes], as `encode_table` gives them.

        A feature without a value in these rows has the block that `default` has for it.
        """
        blocks = []
        owners = [feature for feature in features for _ in range(feature.width)]
        for index, feature in enumerate(owners):
            empty = default is not None and bool(np.isnan(codes[:, index]).all())
            blocks.append(default.blocks[index] if default is not None and empty else _fit_block(feature, codes[:, index]))
        return cls(tuple(blocks))

    @property
    def width(self) -> int:
        """Number of columns of the encoded matrix."""
        return sum(block.width for block in self.blocks)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(dict.fromkeys(block.name for block in self.blocks))

    @property
    def widths(self) -> list[int]:
        """Number of columns of each feature."""
        counts = Counter[str]()
        for block in self.blocks:
            counts[block.name] += block.width
        return list(counts.values())

    @property
    def column_owners(self) -> Ints:
        """The position of the feature that each column belongs to."""
        return np.repeat(np.arange(len(self.widths)), self.widths)

    @property
    def one_hot_groups(self) -> tuple[slice, ...]:
        """The columns of each categorical feature: one of them is 1 in a row, or none, and the others are 0."""
        stops = np.cumsum([block.width for block in self.blocks]).tolist()
        return tuple(slice(stop - block.width, stop) for block, stop in zip(self.blocks, stops, strict=True) if block.is_one_hot)

    def positions(self, names: Sequence[str]) -> list[int]:
        """Return the positions of features among the blocks, and so among the columns of the codes; of a vector, several."""
        index: dict[str, list[int]] = {}
        for position, block in enumerate(self.blocks):
            index.setdefault(block.name, []).append(position)
        return [position for name in names for position in index[name]]

    def columns(self, names: Sequence[str]) -> Ints:
        """Return the columns of these features in the encoded matrix, in the order of `names`."""
        return self.block_columns(self.positions(names))

    def block_columns(self, positions: Sequence[int]) -> Ints:
        """Return the columns of these blocks in the encoded matrix, in their order."""
        starts = np.concatenate(([0], np.cumsum([block.width for block in self.blocks])))
        return np.concatenate([np.arange(starts[at], starts[at + 1]) for at in positions]).astype(np.intp)

    def signs(self, directions: Directions) -> Ints:
        """Return which sign the weight of each column may have: 1 or -1, besides 0; 0 stands for any.

        A curve has the direction of its feature already.
        """
        own = [(directions.of(block.name), block) for block in self.blocks]
        each = [np.full(block.width, abs(sign) if block.curve is not None else sign, dtype=np.intp) for sign, block in own]
        return np.concatenate(each)

    def select(self, names: Sequence[str]) -> BlockEncoder:
        """Return the encoder of these features, in this order, with the same statistics."""
        return BlockEncoder(tuple(self.blocks[position] for position in self.positions(names)))

    def without_curves(self) -> BlockEncoder:
        """Return the encoder of the same features as they are."""
        return BlockEncoder(tuple(replace(block, curve=None) for block in self.blocks))

    def transform(self, codes: Floats) -> Floats:
        """Encode codes [rows, codes] into columns [rows, width]."""
        return np.hstack([_encode_block(block, codes[:, index]) for index, block in enumerate(self.blocks)])


def _fit_block(feature: Feature, codes: Floats) -> Block:
    fill = typical_code(feature, codes)
    if feature.kind == "categorical":
        return make_block(feature, fill)
    filled = np.where(np.isnan(codes), fill, codes)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, scale = float(filled.mean()), float(filled.std())
    if not np.isfinite(scale):
        raise _overflow_error(feature.name, filled)
    return make_block(feature, fill, mean, scale, len(filled))


def make_block(feature: Feature, fill: float, mean: float = 0.0, scale: float = 1.0, rows: int = 0) -> Block:
    """Return the block of a feature, given the code that fills gaps; for numbers, mean and deviation of `rows` filled ones."""
    # Rounding leaves a constant column a deviation of about this much; dividing by it would amplify noise.
    if scale <= rows * np.finfo(np.float64).eps * abs(mean):
        scale = 1.0
    return Block(feature.name, len(feature.categories), feature.missing == "impute", fill, mean, scale)


def _overflow_error(name: str, values: Floats) -> RowError:
    # Below this, no sum of squared deviations overflows.
    size = np.abs(values)
    large = size > np.sqrt(np.finfo(np.float64).max / len(values)) / 2
    row = int(np.argmax(size))
    # These are the rows that fit: the table may hold more such values.
    count = f"{int(large.sum()):,} of {len(values):,} train rows"
    what = f"column {name!r} holds values too large to standardise it (in {count}; the largest of these, in "
    advice = f"correct them, make them missing values (None or NaN), or leave the column out (of a run: `drop={(name,)!r}`)"
    return RowError(what, f"row {row}", f", is {values[row]:g}): {advice}", row)


def _encode_block(block: Block, codes: Floats) -> Floats:
    if block.curve is not None:
        return block.curve.transform(codes)
    filled = np.where(np.isnan(codes), block.fill, codes) if block.impute else codes
    if block.categories:
        return np.asarray(filled[:, None] == np.arange(block.categories), dtype=np.float64)
    standardised: Floats = (filled - block.mean) / block.scale
    return standardised[:, None]
