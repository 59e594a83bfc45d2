"""The weights of rows as whole units, so that sums of them are exact and equal designs have equal figures.

A search compares the figures of many designs, and sums of decimal weights would depend in their last bits on the order of adding.
Whole weights, and those with a few decimals, become units without loss. Others are rounded, each by at most half a unit of about
a 67 millionth of their total: a share of n rows is wrong by less than n times that, 0.0002 for 10,000 rows, and far less as
roundings cancel out. A row that weighs less than half a unit counts nothing.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.errors import DataError

__all__ = ["MAX_UNITS", "row_units"]

# Most rows, or units of all rows together. Up to here two different fractions right / accepted are two different doubles (they
# differ by more than 2^-52), and equal ones are equal doubles (division is correctly rounded): float64 orders accuracies exactly.
MAX_UNITS = 2**26
# Weights with more decimals are rounded: no need to look for them.
_MAX_DECIMALS = 7


def row_units(weights: Floats, split: str) -> Ints:
    """Return the weights of the rows of a split as whole units of the same size.

    Examples
    --------
    >>> row_units(np.array([1.0, 3.0, 0.0]), "test").tolist(), row_units(np.array([0.1, 0.25, 2.0]), "test").tolist()
    ([1, 3, 0], [10, 25, 200])
    """
    largest = float(weights.max())
    if not largest:
        raise DataError(f"sample_weight is 0 for every {split} row: give some of them weight, or leave the weights out")
    decimals = _count_decimals(weights)
    if decimals is not None and largest < MAX_UNITS and weights.sum() * 10**decimals <= MAX_UNITS:
        return np.asarray(np.rint(weights * 10**decimals), dtype=np.int64)
    # Of the largest, so that the sum is finite. Rounding can add half a unit for every row.
    shares = weights / largest
    return np.asarray(np.rint(shares * (max(1, MAX_UNITS - len(weights) // 2 - 1) / shares.sum())), dtype=np.int64)


def _count_decimals(weights: Floats) -> int | None:
    """Return how many decimals the weights have, as people write them; None: more than a few."""
    decimals = 0
    for weight in np.unique(weights).tolist():
        decimals = max(decimals, -int(Decimal(repr(weight)).normalize().as_tuple().exponent))
        if decimals > _MAX_DECIMALS:
            return None
    return decimals
