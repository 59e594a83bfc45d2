"""Where a library rounds a value before it compares it: the same comparison on the value as it is, in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.arrays import Array, Floats

__all__ = ["largest_at_most"]


def largest_at_most(function: Callable[[Floats], Array], limits: Array) -> Floats:
    """Return, for each limit, the largest float64 that a function which never decreases takes to that limit or below.

    So ``function(x) <= limit`` and ``x <= result`` are the same for every number x. Each limit must be at least what the function
    gives for minus infinity.

    Examples
    --------
    >>> largest_at_most(np.floor, np.array([0.0, 2.0]))
    array([1., 3.])
    >>> _ < np.array([1.0, 3.0])
    array([ True,  True])
    """
    # Floats of one sign are in the order of their bits: bisection over these ends after 64 steps, to the last bit.
    low = np.full(len(limits), _to_order(np.array([-np.inf]))[0])
    high = np.full(len(limits), _to_order(np.array([np.inf]))[0])
    for _ in range(64):
        # The mean of both, rounded up, without the sum of both, which may be too large.
        middle = (low >> 1) + (high >> 1) + ((low | high) & 1)
        below = function(_from_order(middle)) <= limits
        low, high = np.where(below, middle, low), np.where(below, high, middle - 1)
    return _from_order(low)


def _to_order(values: Floats) -> NDArray[np.int64]:
    bits = values.view(np.int64)
    return np.where(bits >= 0, bits, np.iinfo(np.int64).min - bits)


def _from_order(order: NDArray[np.int64]) -> Floats:
    return np.where(order >= 0, order, np.iinfo(np.int64).min - order).view(np.float64)
