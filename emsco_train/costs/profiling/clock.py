"""The clocks that calls are timed with: what reading one takes, and its resolution."""

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
    """A calibrated clock: `read` gives nanoseconds."""

    name: ClockName
    read: Callable[[], int]
    # Between two readings with nothing in between; subtracted from every timing.
    overhead_s: float
    # The shortest time that differs from nothing: the variation of the overhead, or the clock's own step.
    resolution_s: float
    # Seconds of wall time, whatever is measured: to notice waiting, and calls that exceed their timeout.
    wall: Callable[[], float] = time.perf_counter

    def seconds(self, start: int, end: int) -> float:
        """Return the seconds between two readings, without the overhead; slightly below 0 when there was nothing.

        Examples
        --------
        >>> Clock("cpu", int, overhead_s=1e-6, resolution_s=1e-8).seconds(5_000, 9_000)
        3e-06
        """
        return round((end - start) * _NS - self.overhead_s, 12)


def calibrate_clock(name: ClockName, read: Callable[[], int] | None = None) -> Clock:
    """Return a clock after reading it many times in a row; `read` replaces the clock of this name."""
    read = CLOCKS[name] if read is None else read
    intervals = np.empty(_N_READINGS)
    for place in range(_N_READINGS):
        start = read()
        intervals[place] = read() - start
    low, middle, high = np.quantile(intervals, [0.25, 0.5, 0.75])
    # A coarse clock stands still between its steps, and cannot measure anything shorter than one of them.
    shortest = float(high - low) if middle > 0 else _measure_step(read)
    return Clock(name, read, float(middle) * _NS, max(shortest, 1.0) * _NS)


def _measure_step(read: Callable[[], int]) -> float:
    """Return the step of a clock that stands still between readings, in nanoseconds."""
    start = read()
    while (now := read()) == start:
        pass
    return float(now - start)
