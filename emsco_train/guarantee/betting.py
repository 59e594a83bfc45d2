"""Tests and bounds for the mean of bounded values, by betting: valid for every distribution and every number of rows.

Suppose that the true mean is `limit` or more. A gambler starts with a capital of 1 and, before each row, stakes a part of it on
the value being below the limit: the capital is multiplied by 1 + bet * (limit - value). Whatever the bets, which may depend on
earlier rows alone, he cannot expect to win, and so his capital ever reaches 1 / level with a probability of at most `level`
(Ville's inequality). If it does, the mean is below the limit, at confidence 1 - level. Nothing is approximate, and a small spread
of the values helps, which Hoeffding's bound cannot use.

The bets are the "predictable plug-in" of Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting"
(Journal of the Royal Statistical Society B, 2024): by the spread of the rows so far, and by how many rows there are. They do not
depend on the limit. So the capital only grows with the limit, and the smallest limit that passes is an upper bound.

With weights it is the weighted mean: the same bet, multiplied by the row's weight. The largest weight must be known in advance,
since it limits the bets: weight / largest is between 0 and 1, as the values are.

The result depends on the order of the rows, so the order must be fixed without looking at them: `row_order`. A seed that could
be chosen would be another way to try until it fits, so there is one for all, which the certificate states.
"""

from __future__ import annotations

import math

import numpy as np

from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.errors import DesignError

__all__ = ["ORDER_SEED", "BoundedValues", "row_order"]

ORDER_SEED = 0

# The largest part of the capital that one row can lose: all of it would end the game with the first unlucky row.
_LARGEST_BET = 0.75
# Before the first row: the mean and the largest possible variance of a value between 0 and 1.
_FIRST_MEAN, _FIRST_VARIANCE = 0.5, 0.25
# Rows of no weight have no spread; nothing is bet on them, but numbers must stay finite.
_SMALLEST_SPREAD = 1e-300
# Halvings of an interval from 0 to 1: a bound is right to about nine digits.
_HALVINGS = 30


def row_order(rows: int, seed: int = ORDER_SEED) -> Ints:
    """Return the order in which the tests read `rows` certify rows."""
    return np.random.default_rng(seed).permutation(rows)


class BoundedValues:
    """Values between two bounds, in the order of testing, perhaps with weights, whose true mean is asked for.

    Parameters
    ----------
    values
        One for each row.
    low, high
        No value can lie outside them; known in advance, not taken from these values.
    weights
        One for each row, 0 or more; None: all rows count alike.
    max_weight
        No weight can be larger; known in advance, too.

    Examples
    --------
    >>> costs = BoundedValues(np.tile([1.0, 1.0, 1.0, 5.0], 100), low=1.0, high=5.0)
    >>> costs.mean, round(costs.upper_bound(0.95), 3), costs.is_mean_below(2.3, 0.95), costs.is_mean_below(2.2, 0.95)
    (2.0, 2.222, True, False)
    """

    def __init__(
        self, values: Floats, *, low: float, high: float, weights: Floats | None = None, max_weight: float = 1.0
    ) -> None:
        self.low, self.high = float(low), float(high)
        self._check(values, weights, max_weight)
        width = self.high - self.low
        # With one possible value there is nothing to bet on.
        self._units = (values - self.low) / width if width else np.zeros(len(values))
        self._shares = np.ones(len(values)) if weights is None else weights / max_weight
        total = math.fsum(self._shares.tolist())
        weighted = math.fsum((self._shares * self._units).tolist())
        # Rounding can put the mean of equal numbers slightly outside them.
        self._unit_mean = min(max(weighted / total, self._units.min()), self._units.max()) if total else None

    @property
    def mean(self) -> float | None:
        """The mean of these values, by weight; None without rows of any weight."""
        return None if self._unit_mean is None else self._scale_back(self._unit_mean)

    def is_mean_below(self, limit: float, confidence: float) -> bool:
        """Return whether the true mean is shown to be below a limit; never where the mean of these values is above it."""
        if limit >= self.high:
            return True
        if limit < self.low or self._unit_mean is None:
            return False
        return self._shows((limit - self.low) / (self.high - self.low), self._bets(confidence), confidence)

    def upper_bound(self, confidence: float) -> float:
        """Return the upper bound on the true mean: the smallest limit that the test passes, rounded up; `high` without rows."""
        if self._unit_mean is None or self.high == self.low:
            return self.high
        bets = self._bets(confidence)
        failing, passing = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (failing + passing) / 2
            if self._shows(middle, bets, confidence):
                passing = middle
            else:
                failing = middle
        return self._scale_back(passing)

    def _shows(self, limit: float, bets: Floats, confidence: float) -> bool:
        # The mean itself is asked for too: capital that was won early does not count if the rows after it say otherwise.
        if self._unit_mean is None or self._unit_mean > limit:
            return False
        capital = np.log1p(bets * (limit - self._units)).cumsum()
        return bool(capital.max() >= -math.log1p(-confidence))

    def _bets(self, confidence: float) -> Floats:
        """Return the bet on each row, weight included, which earlier rows alone decide."""
        shares, units = self._shares, self._units
        rows = len(units)
        before = np.arange(rows + 1)
        mean = (_FIRST_MEAN + _sums(shares * units)) / (1.0 + _sums(shares))
        squares = _sums((shares * (units - mean[:-1])) ** 2)
        # The first guess at the spread is for rows of full weight; it shrinks with the weights that are met.
        typical = np.concatenate([[1.0], _sums(shares**2)[1:] / before[1:]])
        spread = (_FIRST_VARIANCE * typical + squares) / (before + 1)
        stakes = -2.0 * math.log1p(-confidence) / (rows * np.maximum(spread[:-1], _SMALLEST_SPREAD))
        return np.minimum(np.sqrt(stakes), _LARGEST_BET) * shares

    def _scale_back(self, unit: float) -> float:
        return min(self.low + unit * (self.high - self.low), self.high)

    def _check(self, values: Floats, weights: Floats | None, max_weight: float) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise DesignError(
                f"values are between {self.low} and {self.high}: expected two finite numbers, the smaller one first"
            )
        if len(values) and not (self.low <= values.min() and values.max() <= self.high):
            raise DesignError(f"values from {values.min()} to {values.max()}: expected none outside {self.low} to {self.high}")
        if weights is None:
            return
        if len(weights) != len(values):
            raise DesignError(f"{pluralize(len(weights), 'weight')} for {pluralize(len(values), 'value')}: expected one for each")
        if not 0 < max_weight < math.inf or (len(weights) and not 0 <= weights.min() <= weights.max() <= max_weight):
            raise DesignError(f"weights must be between 0 and max_weight, a finite number above 0: max_weight is {max_weight}")


def _sums(values: Floats) -> Floats:
    """Return the sum of the values before each row, and of all of them."""
    return np.concatenate([[0.0], np.cumsum(values)])
