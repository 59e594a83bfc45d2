"""What was measured: seconds by call, item and repeat, the failures, and one figure with its spread out of many timings.

Two kinds of variation are kept apart. Between repeats on one item there is only disturbance, which adds and never subtracts: the
minimum is nearest to the work itself. Waiting varies by its own nature: there, the median is taken. Between items the variation
is real, and the quartiles show it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from emsco_runtime.support.arrays import Floats
from emsco_train.costs.profiling.call_groups import Role
from emsco_train.costs.profiling.clock import ClockName
from emsco_train.costs.profiling.timed_calls import Timing

__all__ = ["CallCounts", "Spread", "Statistic", "Timings", "compute_spread", "reduce_repeats"]

Statistic: TypeAlias = Literal["median", "mean"]


@dataclass(slots=True)
class CallCounts:
    """Calls of one acquirer so far: how many, how many failed, and the error of the first failure.

    `seconds` and `wall_s` are minima over the successful calls: a call that was interrupted by others did not wait.
    """

    calls: int = 0
    failures: int = 0
    error: str | None = None
    seconds: float = math.inf
    wall_s: float = math.inf

    def add(self, timing: Timing) -> None:
        """Count a call."""
        self.calls += 1
        if timing.error is not None:
            self.failures += 1
            self.error = self.error or timing.error
            return
        self.seconds = min(self.seconds, timing.seconds)
        self.wall_s = min(self.wall_s, timing.wall_s)


@dataclass(frozen=True, slots=True, eq=False)
class Timings:
    """Seconds [calls, items, repeats] in each role, NaN where a call failed or was not made, and the counts of each call."""

    first: Floats
    after: Floats
    mixed: Floats
    call_counts: tuple[CallCounts, ...]

    @classmethod
    def empty(cls, calls: int, items: int, repeats: int) -> Timings:
        """Return tables of this size with nothing in them."""
        first, after, mixed = np.full((3, calls, items, repeats), np.nan)
        return cls(first, after, mixed, tuple(CallCounts() for _ in range(calls)))

    def record(self, role: Role, call: int, item: int, repeat: int, timing: Timing) -> None:
        """Keep the timing of one call."""
        self.call_counts[call].add(timing)
        if timing.error is None:
            table = {"first": self.first, "after": self.after, "mixed": self.mixed}[role]
            table[call, item, repeat] = timing.seconds


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds over the items: median or mean, and the quartiles, between which half of the items are."""

    value: float
    low: float
    high: float

    def at_least(self, seconds: float) -> Spread:
        """Return the same with no number below this one."""
        return Spread(max(seconds, self.value), max(seconds, self.low), max(seconds, self.high))


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
    """Return the figure over the items that have a timing; there must be at least one.

    Examples
    --------
    >>> compute_spread(np.array([1.0, 2.0, 9.0, np.nan]), "median"), compute_spread(np.array([1.0, 2.0, 9.0]), "mean").value
    (Spread(value=2.0, low=1.5, high=5.5), 4.0)
    """
    known = times[~np.isnan(times)]
    low, middle, high = np.quantile(known, [0.25, 0.5, 0.75]).tolist()
    return Spread(float(known.mean()) if statistic == "mean" else middle, low, high)
