"""What was measured: seconds by call, item and repeat, and the failures."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from emsco_runtime.support.arrays import Floats
from emsco_train.costs.profiling.schedule import Role
from emsco_train.costs.profiling.timed_calls import Timing

__all__ = ["CallCounts", "Timings"]


@dataclass(slots=True)
class CallCounts:
    """Calls of one acquirer so far.

    Parameters
    ----------
    calls, failures
        How many were made, and how many of them failed.
    error
        Why the first failure failed.
    seconds, wall_s
        The least that one of the others took, by the clock and on the wall: a call that was interrupted did not wait.
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
    """Tables to be filled while calls are made.

    Parameters
    ----------
    first, after, mixed
        Seconds [calls, items, repeats] in each role; NaN where a call failed or was not due.
    call_counts
        One per call.
    """

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
