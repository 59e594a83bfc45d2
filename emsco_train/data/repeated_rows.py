"""Rows that occur again, in another fold or split, though chance does not explain it.

Rows of features with few values are equal by chance, and that does no harm: the next item may be equal to them too. So a row
counts only where its values are so rare that, were the features independent of each other, an equal row would be expected in
fewer than one table in a hundred. Features that depend on each other make equal rows likelier than that: the count is a caution.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emsco_runtime.support.arrays import Array, Floats, Ints, Mask

__all__ = ["MIN_REPEATED_SHARE", "count_repeated_rows", "count_seen_rows"]

# Fewer rows than this share change no figure that people look at.
MIN_REPEATED_SHARE = 0.01
_MAX_EXPECTED = 0.01
# Odd, with bits in all places: of the 64-bit finaliser of MurmurHash3, and the golden ratio.
_MULTIPLIER, _STEP = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


def count_repeated_rows(codes: Sequence[Floats], targets: Sequence[Ints]) -> int:
    """Return how many rows occur again in another part, with equal features and label, though not by chance.

    The parts hold codes [rows, features], as `encode_table` gives them, and the positions of labels. Where there are too few such
    rows to matter, chance is not looked at, and the number may be too large.

    Examples
    --------
    >>> rows, target = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    >>> count_repeated_rows([rows[:21], rows[20:]], [target[:21], target[20:]])
    2
    """
    return int(_find_repeated(codes, targets).sum())


def count_seen_rows(seen: tuple[Floats, Ints], new: tuple[Floats, Ints]) -> int:
    """Return how many of some new rows, given by their codes and labels, occur among others that were seen before.

    Examples
    --------
    >>> rows, target = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    >>> count_seen_rows((rows[:25], target[:25]), (rows[20:], target[20:]))
    5
    """
    repeated = _find_repeated([seen[0], new[0]], [seen[1], new[1]], min_share=0.0)
    return int(repeated[len(seen[1]) :].sum())


def _find_repeated(codes: Sequence[Floats], targets: Sequence[Ints], min_share: float = MIN_REPEATED_SHARE) -> Mask:
    """Return which rows of all parts occur again in another part; where `min_share` do, those that are not equal by chance."""
    matrix = np.column_stack([np.concatenate(codes), np.concatenate(targets)])
    part = np.repeat(np.arange(len(codes)), [len(rows) for rows in codes])
    repeated = _find_in_several_parts(_hash_rows(matrix), part)
    if repeated.any() and repeated.sum() >= min_share * len(matrix):
        repeated[repeated] = _expected_equal_rows(matrix, repeated) < _MAX_EXPECTED
    return repeated


def _hash_rows(matrix: Floats) -> Array:
    """Return a number per row, equal for equal rows; others are equal with a chance of one in 2**64, or so."""
    result = np.zeros(len(matrix), dtype=np.uint64)
    for column in matrix.T:
        # One zero, and one missing value: both have several representations.
        values = np.where(np.isnan(column), np.nan, column + 0.0).view(np.uint64)
        result = (result ^ values) * _MULTIPLIER
        result = (result ^ (result >> _HALF)) * _STEP
    return result


def _find_in_several_parts(keys: Array, part: Ints) -> Mask:
    _, group = np.unique(keys, return_inverse=True)
    first, last = np.full(int(group.max()) + 1, len(part)), np.full(int(group.max()) + 1, -1)
    np.minimum.at(first, group, part)
    np.maximum.at(last, group, part)
    return np.asarray((first < last)[group])


def _expected_equal_rows(matrix: Floats, chosen: Mask) -> Floats:
    """Return, for each chosen row, how many others were equal to it if columns were independent of each other."""
    logarithm = np.zeros(int(chosen.sum()))
    for column in matrix.T:
        _, group, counts = np.unique(column, return_inverse=True, return_counts=True)
        logarithm += np.log(counts[group[chosen]] / len(column))
    return np.asarray((len(matrix) - 1) * np.exp(logarithm))
