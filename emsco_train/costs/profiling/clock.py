"""The clocks that calls are timed with: what reading one takes, and the least that it can tell."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

__all__ = ["CLOCKS", "Clock", "ClockName", "calibrate_clock"]

ClockName: TypeAlias = Literal["cpu", "wall"]

# Of the process, not of the thread: an acquirer may work in threads of its own.
CLOCKS: dict[ClockName, Callable[[], int]] = {"cpu": time.process_time_ns, "wall": time.perf_counter_ns}

_N_READINGS = 2001
_NS = 1e-9


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock that was looked at closely.

    Parameters
    ----------
    name
        "cpu" or "wall".
    read
        Tells nanoseconds.
    overhead_s
        Seconds between two readings with nothing in between; taken off every timing.
    resolution_s
        The least that a timing can tell from nothing, in seconds: how much two readings in a row differ from one time to the
        next, and the clock's own step.
    wall
        Tells seconds on the wall, whatever is measured: to notice waiting, and calls that exceed their time-out.
    """

    name: ClockName
    read: Callable[[], int]
    overhead_s: float
    resolution_s: float
    wall: Callable[[], float] = time.perf_counter

    def seconds(self, start: int, end: int) -> float:
        """Return the seconds between two readings, without what reading takes; a little below 0 when there was nothing.

        Examples
        --------
        >>> Clock("cpu", int, overhead_s=1e-6, resolution_s=1e-8).seconds(5_000, 9_000)
        3e-06
        """
        return round((end - start) * _NS - self.overhead_s, 12)


def calibrate_clock(name: ClockName, read: Callable[[], int] | None = None) -> Clock:
    """Return a clock after reading it many times in a row.

    Parameters
    ----------
    name
        Which time.
    read
        The clock itself, in nanoseconds; that of the name unless given.
    """
    read = CLOCKS[name] if read is None else read
    intervals = np.empty(_N_READINGS)
    for place in range(_N_READINGS):
        start = read()
        intervals[place] = read() - start
    low, middle, high = np.quantile(intervals, [0.25, 0.5, 0.75])
    # A coarse clock stands still between its steps, and nothing shorter than one of them can be told.
    shortest = float(high - low) if middle > 0 else _measure_step(read)
    return Clock(name, read, float(middle) * _NS, max(shortest, 1.0) * _NS)


def _measure_step(read: Callable[[], int]) -> float:
    """Return the step of a clock that stands still between readings."""
    start = read()
    while (now := read()) == start:
        pass
    return float(now - start)
