"""How many rows a guarantee takes, and which errors and confidences can be asked for."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache

from emsco_train.errors import DesignError
from emsco_train.support.binomial import binomial_cdf
from emsco_train.support.numbers import is_number

__all__ = ["check_confidence", "check_max_error", "max_wrong_allowed", "min_rows", "rows_needed"]

# How often the test of a design with half the largest error passes, at the number of rows that we advise.
_ADVISED_POWER = 0.75


def check_confidence(confidence: object) -> float:
    """Return a confidence that a guarantee can have, from 0.5 to below 1, or raise `DesignError`."""
    if not is_number(confidence) or not 0.5 <= confidence < 1:
        raise DesignError(f"confidence is {confidence!r}: expected a number of at least 0.5 and below 1, such as 0.95")
    return float(confidence)


def check_max_error(max_error: object, name: str = "max_error") -> float:
    """Return a largest error that can be asked for, above 0 and below 1, or raise `DesignError`."""
    if not is_number(max_error) or not 0 < max_error < 1:
        raise DesignError(f"{name} is {max_error!r}: expected a number above 0 and below 1, such as 0.03")
    return float(max_error)


def max_wrong_allowed(rows: int, max_error: float, confidence: float) -> int:
    """Return how many accepted rows may be wrong for the test of `max_error` to pass; -1 where it cannot pass at all.

    Examples
    --------
    >>> max_wrong_allowed(58, 0.05, 0.95), max_wrong_allowed(59, 0.05, 0.95), max_wrong_allowed(1000, 0.05, 0.95)
    (-1, 0, 38)
    """
    # The probability rises with the number of wrong rows; with the expected number or more it is at least a half, which fails.
    tried = range(min(rows, math.ceil(rows * max_error) + 1))
    return bisect_left(tried, True, key=lambda wrong: binomial_cdf(wrong, rows, max_error) > 1.0 - confidence) - 1  # noqa: FBT003


@lru_cache(maxsize=1024)
def min_rows(max_error: float, confidence: float, *, wrong: int = 0) -> int:
    """Return the least number of accepted rows with which the test can pass if `wrong` of them are wrong.

    Examples
    --------
    >>> min_rows(0.05, 0.95), min_rows(0.015, 0.95), min_rows(0.05, 0.95, wrong=1)
    (59, 199, 93)
    """

    def passes(rows: int) -> bool:
        return binomial_cdf(wrong, rows, max_error) <= 1.0 - confidence

    # The probability falls with the number of rows; where `wrong` wrong ones are expected, it is at least a half, which fails.
    failing = max(wrong, math.floor(wrong / max_error) - 1)
    passing = 2 * failing + 2
    while not passes(passing):
        failing, passing = passing, 2 * passing
    return failing + 1 + bisect_left(range(failing + 1, passing), True, key=passes)  # noqa: FBT003


@lru_cache(maxsize=1024)
def rows_needed(max_error: float, confidence: float) -> int:
    """Return about how many accepted rows it takes to certify a design whose true error is half of `max_error`.

    Exactly: the least number from which on the test passes with a probability of at least 3 in 4. ("From which on", since the
    probability falls a little with every further row, until one more wrong row is allowed.)

    Examples
    --------
    >>> [rows_needed(error, 0.95) for error in (0.015, 0.03, 0.05)]
    [1293, 645, 386]
    """
    wrong = 0
    start = min_rows(max_error, confidence)
    while True:
        after = min_rows(max_error, confidence, wrong=wrong + 1)
        # The last number of rows that allows just `wrong` wrong ones is the one with the lowest probability.
        if binomial_cdf(wrong, after - 1, max_error / 2) >= _ADVISED_POWER:
            return start
        wrong, start = wrong + 1, after
