"""`profile`: run acquirers on sample items and measure the time of each."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from emsco_runtime.acquirers import Acquirers
from emsco_train.costs.profiling.call_groups import CallGroups, group_calls, plan_steps
from emsco_train.costs.profiling.clock import Clock, ClockName, calibrate_clock
from emsco_train.costs.profiling.cost_estimator import CostEstimator
from emsco_train.costs.profiling.cost_profile import Profile
from emsco_train.costs.profiling.timed_calls import CallTimer, ProfiledCall, resolve_calls
from emsco_train.costs.profiling.timings import Statistic, Timings
from emsco_train.errors import DataError, DesignError
from emsco_train.support.numbers import is_integer
from emsco_train.support.validation_errors import raise_faults

__all__ = ["profile"]

# Files are read, caches filled and code specialised by then.
_WARMUP_ITEMS = 3


def profile(
    acquirers: Acquirers,
    samples: Sequence[Any],
    *,
    rng: np.random.Generator,
    make: Callable[[Any], Any] = copy.deepcopy,
    groups: Mapping[str, Sequence[str]] | None = None,
    repeats: int = 5,
    clock: ClockName = "cpu",
    statistic: Statistic = "median",
    on_progress: Callable[[int, int], None] | None = None,
) -> Profile:
    r"""Measure the time that acquirers take on sample items.

    Each acquirer is called on a fresh item, `repeats` times for each sample, in shuffled order and after a warm-up. Its price is
    the median over the samples of the minimum over the repeats (for wall time, of their median). Several features of one call are
    a group with the price of the call. A group that is named here is measured twice: each member as the first on a fresh item,
    and after another member. The time after another is its own price; the additional time of the first, averaged over the
    members, is the price of the group.

    Parameters
    ----------
    acquirers
        The registry, as a cascade would get it. Caches and breakers are bypassed. Batch acquirers get one item at a time.
    samples
        What items are made from: typical ones, in typical proportions. A few hundred are enough.
    rng
        Source of the random order.
    make
        Makes a fresh item from a sample, without a trace of earlier calls; not measured. Copies the sample unless given.
    groups
        Group -> features of separate acquirers that share work on the item.
    repeats
        Calls per acquirer and sample.
    clock
        "cpu" for CPU time of the process; "wall" for sources that wait.
    statistic
        "median" over the samples, or "mean", which a few huge items change as much as they change the total.
    on_progress
        Called after each measurement with how many are done, and of how many.

    Raises
    ------
    DesignError
        The registry, the groups or the options are wrong.
    DataError
        There is no sample, an item cannot be made, or an acquirer fails on all of them.

    Examples
    --------
    >>> acquirers = Acquirers()
    >>> @acquirers.feature("digits")
    ... def digits(text):
    ...     return sum(map(str.isdigit, text))
    >>> @acquirers.features("words", "lines")
    ... def layout(text):
    ...     return len(text.split()), len(text.splitlines())
    >>> measured = profile(acquirers, ["7 bridges", "one\ntwo 3"], rng=np.random.default_rng(0))
    >>> costs = measured.cost_model(unit="us")
    >>> costs.features["digits"] > 0, costs.features["words"], costs.groups_of("words"), costs.unit
    (True, 0.0, ('layout',), 'us of CPU time')
    """
    _check(samples, repeats, clock, statistic)
    calls = resolve_calls(acquirers.entries)
    call_groups = group_calls(calls, groups or {})
    _check_no_running_loop(calls)
    calibrated_clock = calibrate_clock(clock)
    timings = _Measurement(calls, call_groups, samples, make, rng).run(calibrated_clock, repeats, on_progress)
    return CostEstimator(calls, call_groups, timings, calibrated_clock, statistic).profile()


def _check(samples: Sequence[Any], repeats: object, clock: str, statistic: str) -> None:
    if not len(samples):
        raise DataError("there is no sample item to call the acquirers with: give some, ideally a few hundred")
    faults = [] if is_integer(repeats) and repeats > 0 else [f"repeats is {repeats!r}: expected a whole number, 1 or more"]
    for name, value, known in (("clock", clock, get_args(ClockName)), ("statistic", statistic, get_args(Statistic))):
        if value not in known:
            faults.append(f"{name} is {value!r}: expected one of {', '.join(known)}")
    raise_faults("profile", faults)


def _check_no_running_loop(calls: Sequence[ProfiledCall]) -> None:
    if not any(call.is_async for call in calls):
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise DesignError("profile: async acquirers need an event loop of their own, and one is running here: call it in a thread")


@dataclass(frozen=True, slots=True, eq=False)
class _Measurement:
    """Makes items and calls."""

    calls: tuple[ProfiledCall, ...]
    call_groups: CallGroups
    samples: Sequence[Any]
    make: Callable[[Any], Any]
    rng: np.random.Generator

    def run(self, clock: Clock, repeats: int, on_progress: Callable[[int, int], None] | None) -> Timings:
        """Warm up, then make all calls."""
        count = len(self.samples)
        timings = Timings.empty(len(self.calls), count, repeats)
        with closing(asyncio.Runner()) as runner:
            timer = CallTimer(clock, runner)
            self._run_pass(timer, Timings.empty(len(self.calls), min(count, _WARMUP_ITEMS), 1), 0, None)
            for repeat in range(repeats):
                self._run_pass(timer, timings, repeat, on_progress)
        return timings

    def _run_pass(self, timer: CallTimer, timings: Timings, repeat: int, on_progress: Callable[[int, int], None] | None) -> None:
        calls, items, repeats = timings.first.shape
        steps = plan_steps(items, calls, self.call_groups, self.rng)
        for done, step in enumerate(steps, start=1):
            item = self._make_item(step.item)
            for position, role in step.calls:
                timing = timer.time_call(self.calls[position], item)
                timings.record(role, position, step.item, repeat, timing)
                if timing.error is not None and role == "first":
                    # It may not have done the shared work, which the next one would then do.
                    break
            if on_progress is not None:
                on_progress(repeat * len(steps) + done, repeats * len(steps))

    def _make_item(self, place: int) -> Any:
        try:
            return self.make(self.samples[place])
        except Exception as error:
            raise DataError(
                f"no item can be made from sample {place}: {type(error).__name__}: {error}. "
                "Give `make` a function that makes a fresh item from a sample"
            ) from error
