"""Columns compared with the labels: numbers that are rather codes, and columns that alone tell the label."""

from __future__ import annotations

import numpy as np

from emsco_runtime.bundle.summary import percent
from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.data.finding import Finding

__all__ = ["check_codes", "check_leak"]

# Codes: at most this many different whole numbers, of at least this many rows each, whose labels follow no trend: that is by
# chance in one column of a million (this many deviations of a normal variable), and explains this share of a label.
_MAX_CODES, _MIN_CODE_ROWS, _CODE_DEVIATIONS, _MIN_CODE_EFFECT = 30, 20, 4.75, 0.02
# A leak: one column alone leaves at most this share of the errors of always giving the most common label.
_LEAK_ERROR_SHARE, _MIN_LEAK_ROWS = 0.05, 20


def check_codes(name: str, values: Floats, target: Ints) -> Finding | None:
    """Find whole numbers whose labels follow no trend: as a number, such a column says less than as categories."""
    is_present = ~np.isnan(values)
    numbers, codes = np.unique(values[is_present], return_inverse=True)
    if not 3 <= len(numbers) <= _MAX_CODES or not (numbers == np.floor(numbers)).all():
        return None
    counts = _cross_count(codes, target[is_present])
    # Rare ones say nothing about a trend.
    common = counts.sum(axis=1) >= _MIN_CODE_ROWS
    numbers, counts = numbers[common], counts[common][:, counts[common].sum(axis=0) > 0]
    rows, labels = float(counts.sum()), counts.shape[1]
    if len(numbers) < 3 or labels < 2:
        return None
    weight, share = counts.sum(axis=1), counts.sum(axis=0) / rows
    # What is left of a chi-squared value where the share of each label may rise with the numbers, or fall.
    rest = sum(_unexplained(weight, column / weight) / part for column, part in zip(counts.T, share, strict=True))
    if _to_normal(rest, (len(numbers) - 2) * (labels - 1)) < _CODE_DEVIATIONS or rest < _MIN_CODE_EFFECT * rows:
        return None
    what = "whole numbers in which the labels follow no trend, as with codes"
    return Finding("codes", name, what, f"try `kinds={{{name!r}: 'categorical'}}`")


def _unexplained(weight: Floats, shares: Floats) -> float:
    """Return the least squares from shares that only rise, or only fall, to these."""
    return min(float(weight @ (side - _rising(weight, side)) ** 2) for side in (shares, -shares))


def _rising(weight: Floats, shares: Floats) -> Floats:
    """Return the isotonic regression of these numbers, at most some tens, by its formula: the largest of the smallest means."""
    ends, sums = np.cumsum(weight), np.cumsum(weight * shares)
    before, sums_before = ends - weight, sums - weight * shares
    means = (sums[None, :] - sums_before[:, None]) / np.maximum(ends[None, :] - before[:, None], weight.min())
    return np.array([means[: place + 1, place:].min(axis=1).max() for place in range(len(shares))])


def _to_normal(value: float, freedom: int) -> float:
    """Return a chi-squared value as a standard normal one of about the same tail (Wilson and Hilferty)."""
    variance = 2 / (9 * freedom)
    return float(((value / freedom) ** (1 / 3) - (1 - variance)) / variance**0.5)


def check_leak(name: str, values: Floats | Ints, target: Ints) -> Finding | None:
    """Find a column that alone predicts the label: each row is given the most common one of its value among half of the rows.

    Or of the nearest smaller value; gaps are a value. Categories are given as numbers.
    """
    filled = np.where(np.isnan(values), -np.inf, values)
    learned: Mask = np.arange(len(filled)) % 2 == 0
    known, codes = np.unique(filled[learned], return_inverse=True)
    nearest = np.searchsorted(known, filled[~learned], side="right") - 1
    truth, guess = target[~learned], _cross_count(codes, target[learned]).argmax(axis=1)[np.maximum(nearest, 0)]
    wrong, wrong_base = int((guess != truth).sum()), int((truth != np.bincount(target).argmax()).sum())
    if wrong_base < _MIN_LEAK_ROWS or wrong > _LEAK_ERROR_SHARE * wrong_base:
        return None
    share = percent(len(truth) - wrong, len(truth))
    what = f"this column alone predicts the label of {share} of the rows: it may contain the label (a leak)"
    return Finding("leak", name, what, f"if it is known only after the label, leave it out with `drop=({name!r},)`")


def _cross_count(codes: Ints, target: Ints) -> Floats:
    rows, labels = int(codes.max()) + 1, int(target.max()) + 1
    return np.bincount(codes * labels + target, minlength=rows * labels).reshape(rows, labels).astype(np.float64)
