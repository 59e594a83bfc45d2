"""Exact medians of columns in partitions: by counting, digit after digit, as a radix sort does.

Floats are mapped to whole numbers in the same order. Six rounds count how many values have each of the next 11 bits, and keep the
bits of the value that is sought; so the result is exact, whatever the values, and only counts travel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.distributed.part_reading import CodedRows
from emsco_train.distributed.partitions import Partitions, Sums

__all__ = ["find_medians"]

_Words: TypeAlias = NDArray[np.uint64]

# From the highest bits to the lowest; the last round has fewer.
_SHIFTS = (53, 42, 31, 20, 9, 0)
_SIGN = np.uint64(1) << np.uint64(63)


@dataclass(frozen=True, slots=True, eq=False)
class _Round:
    """The columns whose values are sought, the bits known so far of each, and which bits come next."""

    columns: Ints
    prefix: _Words
    shift: int
    width: int


def find_medians(partitions: Partitions[CodedRows], columns: Ints, present: Ints) -> Floats:
    """Return the median of the values of some columns of the train codes; `present` says how many of each are no gaps."""
    # Of an even number, the two in the middle.
    both = np.concatenate([columns, columns])
    ranks = np.concatenate([(present - 1) // 2, present // 2])
    prefix, known = np.zeros(len(both), dtype=np.uint64), 64
    for shift in _SHIFTS:
        width, known = known - shift, shift
        counts = partitions.total(_count_digits, _Round(both, prefix, shift, width)).arrays[0]
        below = np.cumsum(counts, axis=1)
        digit = (below <= ranks[:, None]).sum(axis=1)
        ranks = ranks - np.where(digit > 0, np.take_along_axis(below, np.maximum(digit - 1, 0)[:, None], axis=1)[:, 0], 0)
        prefix = (prefix << np.uint64(width)) | digit.astype(np.uint64)
    low, high = _from_ordered(prefix).reshape(2, len(columns))
    # As numpy does: the mean of two, which are often one.
    return np.asarray(np.where(low == high, low, (low + high) / 2.0))


def _count_digits(part: CodedRows, step: _Round) -> Sums:
    counts = np.zeros((len(step.columns), 1 << step.width), dtype=np.int64)
    codes = part.codes["train"]
    for place, column in enumerate(step.columns.tolist()):
        values = codes[:, column]
        words = _to_ordered(values[~np.isnan(values)])
        upper = step.shift + step.width
        if upper < 64:
            words = words[words >> np.uint64(upper) == step.prefix[place]]
        digits = (words >> np.uint64(step.shift)) & np.uint64((1 << step.width) - 1)
        counts[place] = np.bincount(digits.astype(np.int64), minlength=1 << step.width)
    return Sums((counts,))


def _to_ordered(values: Floats) -> _Words:
    """Return whole numbers in the order of the values; -0.0 counts as 0.0."""
    words = np.ascontiguousarray(values + 0.0).view(np.uint64)
    return np.asarray(np.where(words & _SIGN, ~words, words | _SIGN))


def _from_ordered(words: _Words) -> Floats:
    return np.where(words & _SIGN, words ^ _SIGN, ~words).view(np.float64)
