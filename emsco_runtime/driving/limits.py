"""What bounds a decision: its deadline, its budget, and the threads and tasks that it may use."""

from __future__ import annotations

import math
import numbers
import time
from dataclasses import dataclass

from emsco_runtime.errors import InputError
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.support.formatting import format_value

__all__ = ["Limits", "check_budget", "deadline_from"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds the calls of one decision."""

    # By `time.perf_counter`; infinity for none.
    deadline: float
    # Threads for plain acquirers that need one.
    pool: AcquirerPool
    # Run all plain acquirers of a stage in the pool, at the same time.
    parallel: bool
    # Async acquirers of a stage that run at the same time.
    concurrency: int = 1


def check_budget(budget: float | None) -> float:
    """Return the budget of a decision, infinity for None; raise `InputError` if it is not a number of at least 0."""
    if budget is None:
        return math.inf
    if isinstance(budget, bool) or not isinstance(budget, numbers.Real) or not budget >= 0:
        raise InputError(f"budget: expected a number of at least 0, got {format_value(budget)}. Leave it out for no limit")
    # Not converted: a whole number may be too large for a float.
    return budget


def deadline_from(deadline_s: float | None) -> float:
    """Return the deadline by `time.perf_counter`, infinity for None; raise `InputError` if it is not a number of seconds."""
    if deadline_s is None:
        return math.inf
    if isinstance(deadline_s, bool) or not isinstance(deadline_s, numbers.Real) or deadline_s != deadline_s:  # noqa: PLR0124 - NaN
        raise InputError(f"deadline_s: expected a number of seconds, got {format_value(deadline_s)}. Leave it out for no limit")
    try:
        return time.perf_counter() + float(deadline_s)
    except OverflowError:
        # A whole number too large for a float.
        return math.inf if deadline_s > 0 else -math.inf
