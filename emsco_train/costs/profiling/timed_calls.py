"""Acquirers as they are called for one item, and the timing of one call.

Caches and breakers are bypassed: a price is the time of the source itself.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from emsco_runtime.acquirers import Acquirer, string_names
from emsco_runtime.bundle.encoding import ValueFault
from emsco_runtime.engine.outcomes import BatchCall, values_by_name
from emsco_runtime.engine.plan import is_async
from emsco_runtime.support.formatting import describe_in_one_line
from emsco_train.costs.profiling.clock import Clock
from emsco_train.support.validation_errors import raise_faults

__all__ = ["CallTimer", "ProfiledCall", "Timing", "resolve_calls"]


@dataclass(frozen=True, slots=True, eq=False)
class ProfiledCall:
    """One acquirer as `decide` would call it, with one item; `features` are those that no other acquirer serves."""

    entry: Acquirer
    features: tuple[str, ...]
    function: Callable[[Any], Any]
    is_async: bool

    def outcome_fault(self, outcome: Any) -> str | None:
        """Return what is wrong with an outcome, as far as that is known without a bundle; None when nothing is."""
        if inspect.isgenerator(outcome) or inspect.isasyncgen(outcome):
            return "returned a generator: use return instead of yield"
        if inspect.iscoroutine(outcome):
            outcome.close()
            return "returned a coroutine: write it as `async def`"
        if self.entry.shape == "feature" or (self.entry.shape == "batch" and len(self.entry.names) == 1):
            return None
        values = values_by_name(self.entry.names, outcome)
        faults = [f"{name}: {value}" for name, value in values.items() if name in self.features and isinstance(value, ValueFault)]
        return faults[0] if faults else None


class Timing(NamedTuple):
    """One call: seconds of the clock, seconds of wall time, and why it failed (None: it did not)."""

    seconds: float
    wall_s: float
    error: str | None


def resolve_calls(entries: Sequence[Acquirer]) -> tuple[ProfiledCall, ...]:
    """Return the calls that serve every registered feature of a single item, in the order of registration.

    Where a feature has an acquirer for single items and one for many, the first serves it, as in `decide`.
    """
    raise_faults("acquirers", _registry_faults(entries))
    # Stable sort: acquirers for single items come last, and the last one wins.
    chosen = {name: entry for entry in sorted(entries, key=lambda entry: entry.shape != "batch") for name in entry.names}
    served = [(entry, tuple(name for name in entry.names if chosen[name] is entry)) for entry in entries]
    return tuple(_make_call(entry, features) for entry, features in served if features)


def _make_call(entry: Acquirer, features: tuple[str, ...]) -> ProfiledCall:
    function = BatchCall(entry.function, entry.names) if entry.shape == "batch" else entry.function
    return ProfiledCall(entry, features, function, is_async(entry.function))


def _registry_faults(entries: Sequence[Acquirer]) -> list[str]:
    if not entries:
        return ['none is registered. Register them with @acquirers.feature("name")']
    owners: dict[tuple[str, bool], list[str]] = {}
    faults: list[str] = []
    for entry in entries:
        if not entry.names or len(string_names(entry.names)) < len(entry.names):
            faults.append(f"{entry} is registered for {entry.names!r}: expected feature names, as text")
            continue
        if not callable(entry.function):
            faults.append(f"what is registered for {', '.join(entry.names)} is not a function: {entry.function!r}")
        for name in entry.names:
            owners.setdefault((name, entry.shape == "batch"), []).append(str(entry))
    duplicates = [(name, found) for (name, _), found in owners.items() if len(found) > 1]
    return faults + [f"feature {name!r} has {len(found)} acquirers ({', '.join(found)}): keep one" for name, found in duplicates]


@dataclass(frozen=True, slots=True, eq=False)
class CallTimer:
    """Times calls; async ones run in one event loop, in which their connections may stay open."""

    clock: Clock
    runner: asyncio.Runner

    def time_call(self, call: ProfiledCall, item: Any) -> Timing:
        """Call an acquirer once with an item; whatever it raises is a failure, described in one line."""
        start = self.clock.wall()
        try:
            outcome, seconds = self.runner.run(self._run_async(call, item)) if call.is_async else self._run_sync(call, item)
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed call
            return Timing(0.0, self.clock.wall() - start, describe_in_one_line(error))
        wall_s = self.clock.wall() - start
        fault = call.outcome_fault(outcome)
        limit = call.entry.timeout_s
        if fault is None and limit is not None and wall_s > limit:
            fault = f"took {wall_s:.3g} s, and its timeout_s is {limit:g}"
        return Timing(seconds, wall_s, fault)

    def _run_sync(self, call: ProfiledCall, item: Any) -> tuple[Any, float]:
        function, read = call.function, self.clock.read
        start = read()
        outcome = function(item)
        end = read()
        return outcome, self.clock.seconds(start, end)

    async def _run_async(self, call: ProfiledCall, item: Any) -> tuple[Any, float]:
        function, read = call.function, self.clock.read
        async with asyncio.timeout(call.entry.timeout_s):
            start = read()
            outcome = await function(item)
            end = read()
        return outcome, self.clock.seconds(start, end)
