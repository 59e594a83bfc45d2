"""One figure and its spread out of many timings.

Two kinds of scatter are kept apart. Between repeats on one item there is only disturbance, which adds and never subtracts: the
least of them is nearest to the work itself. Waiting differs from one time to the next by its own nature: there, the middle one is
taken. Between items the scatter is real, and is what the quartiles show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from emsco_runtime.support.arrays import Floats
from emsco_train.costs.profiling.clock import ClockName

__all__ = ["Spread", "Statistic", "compute_spread", "reduce_repeats"]

Statistic: TypeAlias = Literal["median", "mean"]


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds over the items.

    Parameters
    ----------
    value
        The figure: median or mean.
    low, high
        The quartiles: half of the items lie between them.
    """

    value: float
    low: float
    high: float


def reduce_repeats(table: Floats, clock: ClockName) -> Floats:
    """Return one timing per item out of its repeats (the last axis); NaN where there is none.

    Examples
    --------
    >>> reduce_repeats(np.array([[5.0, 4.0, 9.0], [7.0, np.nan, 6.0]]), "cpu").tolist()
    [4.0, 6.0]
    >>> reduce_repeats(np.array([[5.0, 4.0, 9.0], [np.nan, np.nan, np.nan]]), "wall").tolist()
    [5.0, nan]
    """
    if clock == "cpu":
        return np.asarray(np.fmin.reduce(table, axis=-1))
    known = ~np.isnan(table).all(axis=-1)
    found = np.full(table.shape[:-1], np.nan)
    found[known] = np.nanmedian(table[known], axis=-1)
    return found


def compute_spread(times: Floats, statistic: Statistic) -> Spread:
    """Return the figure over the items, leaving out those without a timing; there is one at least.

    Examples
    --------
    >>> compute_spread(np.array([1.0, 2.0, 9.0, np.nan]), "median"), compute_spread(np.array([1.0, 2.0, 9.0]), "mean").value
    (Spread(value=2.0, low=1.5, high=5.5), 4.0)
    """
    known = times[~np.isnan(times)]
    low, middle, high = np.quantile(known, [0.25, 0.5, 0.75]).tolist()
    return Spread(float(known.mean()) if statistic == "mean" else middle, low, high)
