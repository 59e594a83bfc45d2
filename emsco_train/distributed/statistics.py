"""What an encoder learns from the train rows of all partitions: what fills gaps, means and deviations.

All of it is exact but for the last bits of sums: categories and most common values are counted, medians are found by counting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.data.encoder import BlockEncoder, make_block
from emsco_train.data.features import FeatureOptions, with_fallback
from emsco_train.distributed.medians import find_medians
from emsco_train.distributed.part_reading import CodedRows
from emsco_train.distributed.partitions import Partitions, Sums
from emsco_train.errors import DataError

__all__ = ["LearnedColumns", "find_reach", "learn_columns"]


@dataclass(frozen=True, slots=True, eq=False)
class LearnedColumns:
    """The features with their fallbacks, and their encoder, without curves."""

    features: tuple[Feature, ...]
    encoder: BlockEncoder


def learn_columns(
    partitions: Partitions[CodedRows], features: tuple[Feature, ...], options: Mapping[str, FeatureOptions], rows: int
) -> LearnedColumns:
    """Learn from the train rows of all partitions, `rows` in all; each feature has one code."""
    sizes = np.array([max(2, len(feature.categories)) if feature.kind != "numeric" else 0 for feature in features])
    present, common = partitions.total(_count_codes, sizes).arrays
    is_number = sizes == 0
    fill = np.array([float(np.argmax(counts)) for counts in common])
    numbers = np.flatnonzero(is_number)
    if len(numbers):
        fill[numbers] = find_medians(partitions, numbers, present[numbers])
    standardised = np.flatnonzero([feature.kind != "categorical" for feature in features])
    mean, scale = _mean_and_deviation(partitions, features, standardised, fill, rows)
    encoder = BlockEncoder(
        tuple(
            make_block(feature, code, own_mean, own_scale, 0 if feature.kind == "categorical" else rows)
            for feature, code, own_mean, own_scale in zip(features, fill.tolist(), mean.tolist(), scale.tolist(), strict=True)
        )
    )
    described = tuple(
        with_fallback(feature, options.get(feature.name, FeatureOptions()), np.array([code]))
        for feature, code in zip(features, fill.tolist(), strict=True)
    )
    return LearnedColumns(described, encoder)


def find_reach(partitions: Partitions[CodedRows], encoder: BlockEncoder) -> Floats:
    """Return the largest size of a number in each column of an encoder, among the train rows."""
    return partitions.total(_find_reach, encoder).values


def _mean_and_deviation(
    partitions: Partitions[CodedRows], features: tuple[Feature, ...], columns: Ints, fill: Floats, rows: int
) -> tuple[Floats, Floats]:
    """Return both of the filled columns; 0 and 1 for others."""
    mean, scale = np.zeros(len(features)), np.ones(len(features))
    with np.errstate(over="ignore", invalid="ignore"):
        mean[columns] = partitions.total(_sum_powers, (columns, fill, mean, 1)).arrays[0] / rows
        scale[columns] = np.sqrt(partitions.total(_sum_powers, (columns, fill, mean, 2)).arrays[0] / rows)
    bad = np.flatnonzero(~np.isfinite(scale))
    if len(bad):
        raise DataError(
            f"column {features[bad[0]].name!r} holds values too large to standardise it: correct them, make them missing values "
            "(None or NaN), or leave the column out"
        )
    return mean, scale


def _count_codes(part: CodedRows, sizes: Ints) -> Sums:
    """Return how many values of each column are no gaps, and how many there are of each of the codes of other kinds."""
    codes = part.codes["train"]
    common = np.zeros((len(sizes), int(sizes.max(initial=1))), dtype=np.int64)
    for column in np.flatnonzero(sizes).tolist():
        # A category that is not listed is -1.
        known = codes[:, column][codes[:, column] >= 0]
        common[column] = np.bincount(known.astype(np.int64), minlength=common.shape[1])
    return Sums(((~np.isnan(codes)).sum(axis=0), common))


def _sum_powers(part: CodedRows, wanted: tuple[Ints, Floats, Floats, int]) -> Sums:
    """Return the sums of a power of what filled columns differ from the numbers given."""
    columns, fill, mean, power = wanted
    totals = []
    with np.errstate(over="ignore", invalid="ignore"):
        for column in columns.tolist():
            values = part.codes["train"][:, column]
            filled = np.where(np.isnan(values), fill[column], values)
            totals.append(((filled - mean[column]) ** power).sum())
    return Sums((np.array(totals),))


@dataclass(frozen=True, slots=True, eq=False)
class _Largest:
    """The largest of numbers: its sum is that of two partitions."""

    values: Floats

    def __add__(self, other: _Largest) -> _Largest:
        """Return the larger ones."""
        return _Largest(np.maximum(self.values, other.values))


def _find_reach(part: CodedRows, encoder: BlockEncoder) -> _Largest:
    codes, largest = part.codes["train"], []
    for index, block in enumerate(encoder.blocks):
        single = (
            BlockEncoder((block,)).transform(codes[:, index : index + 1]) if not block.is_one_hot else np.ones((1, block.width))
        )
        largest.append(np.abs(single).max(axis=0, initial=0.0))
    return _Largest(np.concatenate(largest))
