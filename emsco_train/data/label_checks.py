"""Columns beside the labels: numbers that are rather codes, and columns that alone tell the label."""

from __future__ import annotations

import numpy as np

from emsco_runtime.bundle.summary import percent
from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.data.finding import Finding

__all__ = ["check_codes", "check_leak"]

# Codes: at most so many different whole numbers, of so many rows each, whose labels follow no trend: that is by chance in one
# column of a million (this many deviations of a normal variable), and explains this share of a label.
_MAX_CODES, _MIN_CODE_ROWS, _CODE_DEVIATIONS, _MIN_CODE_EFFECT = 30, 20, 4.75, 0.02
# A leak: one column alone leaves at most this share of the errors of always giving the most common label.
_LEAK_ERROR_SHARE, _MIN_LEAK_ROWS = 0.02, 20


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
    deviations = counts - np.outer(weight, share)
    every = float((deviations**2 / np.outer(weight, share)).sum())
    # A trend of the numbers, of their ranks (counts and amounts are often skewed), or from one of them on.
    scores = [numbers, np.cumsum(weight) - weight / 2, *((numbers > cut).astype(np.float64) for cut in numbers[:-1])]
    rest = max(every - max(_explained_by(score, weight, deviations, share) for score in scores), 0.0)
    if _to_normal(rest, (len(numbers) - 2) * (labels - 1)) < _CODE_DEVIATIONS or rest < _MIN_CODE_EFFECT * rows:
        return None
    what = "whole numbers in which the labels follow no trend, as with codes"
    return Finding("codes", name, what, f"try `kinds={{{name!r}: 'categorical'}}`")


def _explained_by(score: Floats, weight: Floats, deviations: Floats, share: Floats) -> float:
    """Return the part of a chi-squared value that a straight line explains: the shares of each label against a score."""
    centred = score - np.average(score, weights=weight)
    return float(((centred @ deviations) ** 2 / share).sum() / (weight @ centred**2))


def _to_normal(value: float, freedom: int) -> float:
    """Return a chi-squared value as a standard normal one of about the same tail (Wilson and Hilferty)."""
    variance = 2 / (9 * freedom)
    return float(((value / freedom) ** (1 / 3) - (1 - variance)) / variance**0.5)


def check_leak(name: str, values: Floats | Ints, target: Ints) -> Finding | None:
    """Find a column that alone tells the label: each row is given that of the nearest smaller value among half of the rows.

    Categories are given as numbers; equal ones are next to each other then, too.
    """
    filled = np.where(np.isnan(values), -np.inf, values)
    learned: Mask = np.arange(len(filled)) % 2 == 0
    order = np.argsort(filled[learned], kind="stable")
    nearest = np.searchsorted(filled[learned][order], filled[~learned], side="right") - 1
    truth, guess = target[~learned], target[learned][order][np.maximum(nearest, 0)]
    wrong, wrong_base = int((guess != truth).sum()), int((truth != np.bincount(target).argmax()).sum())
    if wrong_base < _MIN_LEAK_ROWS or wrong > _LEAK_ERROR_SHARE * wrong_base:
        return None
    what = f"alone, it tells the label of {percent(len(truth) - wrong, len(truth))} of the rows: the label may be in it"
    return Finding("leak", name, what, f"if it is known only after the label, leave it out with `drop=({name!r},)`")


def _cross_count(codes: Ints, target: Ints) -> Floats:
    rows, labels = int(codes.max()) + 1, int(target.max()) + 1
    return np.bincount(codes * labels + target, minlength=rows * labels).reshape(rows, labels).astype(np.float64)
