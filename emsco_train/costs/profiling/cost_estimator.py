"""From timings to prices: the figures of every call and group, and the warnings about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from emsco_runtime.support.arrays import Floats
from emsco_train.costs.profiling.call_groups import CallGroups
from emsco_train.costs.profiling.clock import Clock
from emsco_train.costs.profiling.cost_profile import CallFigures, GroupFigures, Profile
from emsco_train.costs.profiling.profile_warnings import call_warnings, group_warnings, total_warnings
from emsco_train.costs.profiling.timed_calls import ProfiledCall
from emsco_train.costs.profiling.timings import Spread, Statistic, Timings, compute_spread, reduce_repeats
from emsco_train.errors import DataError

__all__ = ["CostEstimator"]


@dataclass(frozen=True, slots=True, eq=False)
class CostEstimator:
    """Turns the timings of calls into prices: the statistic over the items."""

    calls: tuple[ProfiledCall, ...]
    call_groups: CallGroups
    timings: Timings
    clock: Clock
    statistic: Statistic

    def profile(self) -> Profile:
        """Return the figures of all calls and groups."""
        self._check_failures()
        first, after = (reduce_repeats(table, self.clock.name) for table in (self.timings.first, self.timings.after))
        calls = tuple(self._call_figures(position, first, after) for position in range(len(self.calls)))
        extra = {name: first[list(positions)] - after[list(positions)] for name, positions in self.call_groups.named.items()}
        groups = (
            *(self._group_figures(name, rows) for name, rows in extra.items()),
            *(
                # No call is free, even if the clock cannot measure what it takes.
                GroupFigures(name, calls[position].features, calls[position].first.at_least(self.clock.resolution_s))
                for name, position in self.call_groups.single.items()
            ),
        )
        together = self._total_spread()
        warnings = (
            *call_warnings(calls, self.timings.call_counts, self.clock),
            *group_warnings(groups, self._extra_by_member(extra), self.clock),
            *self._total_warnings(calls, groups, together),
        )
        return Profile(
            calls=calls,
            groups=groups,
            items=first.shape[1],
            repeats=self.timings.first.shape[2],
            clock=self.clock.name,
            statistic=self.statistic,
            together=together,
            measured=datetime.now(UTC),
            cautions=warnings,
        )

    def _check_failures(self) -> None:
        faults = [
            f"{call.entry} ({', '.join(call.features)}) failed on every item; the first time: {counts.error}"
            for call, counts in zip(self.calls, self.timings.call_counts, strict=True)
            if counts.failures == counts.calls
        ]
        if faults:
            raise DataError("; ".join(faults) + ". Fix it, or give items that suit it")

    def _call_figures(self, position: int, first: Floats, after: Floats) -> CallFigures:
        call, counts, group = self.calls[position], self.timings.call_counts[position], self.call_groups.group_of(position)
        alone = self._spread_or_raise(first[position], f"{call.entry} succeeds on no fresh item")
        if group in self.call_groups.single:
            own = Spread(0.0, 0.0, 0.0)
        elif group is None:
            own = alone.at_least(self.clock.resolution_s)
        else:
            fault = f"group {group}: {call.entry} and another of its acquirers succeed together on no item"
            own = self._spread_or_raise(after[position], fault).at_least(self.clock.resolution_s)
        return CallFigures(call.features, group, own, alone, counts.calls, counts.failures, counts.error)

    def _group_figures(self, name: str, extra: Floats) -> GroupFigures:
        """Return what being the first takes in addition: on each item the mean over the members, then the figure over items."""
        known = ~np.isnan(extra).all(axis=0)
        fault = f"group {name}: no item shows what its features share"
        shared = self._spread_or_raise(np.nanmean(extra[:, known], axis=0), fault)
        features = tuple(feature for position in self.call_groups.named[name] for feature in self.calls[position].features)
        return GroupFigures(name, features, shared.at_least(0.0))

    def _extra_by_member(self, extra: Mapping[str, Floats]) -> dict[str, dict[str, float]]:
        return {
            name: {
                self.calls[position].features[0]: float(np.nanmedian(row))
                for position, row in zip(self.call_groups.named[name], rows, strict=True)
            }
            for name, rows in extra.items()
        }

    def _total_spread(self) -> Spread | None:
        found = reduce_repeats(self.timings.mixed.sum(axis=0), self.clock.name)
        return None if np.isnan(found).all() else compute_spread(found, self.statistic)

    def _total_warnings(self, calls: Sequence[CallFigures], groups: Sequence[GroupFigures], together: Spread | None) -> list[str]:
        priced = sum(call.own.value * len(call.features) for call in calls) + sum(group.shared.value for group in groups)
        # The minimum of the repeats for waiting, too: which of the others went before is a matter of chance.
        mixed = reduce_repeats(self.timings.mixed, "cpu")
        known = [position for position in range(len(calls)) if not np.isnan(mixed[position]).all()]
        named = [position for positions in self.call_groups.named.values() for position in positions]
        alone = {calls[position].label: calls[position].first.value for position in known if position not in named}
        among = {calls[position].label: compute_spread(mixed[position], self.statistic).value for position in known}
        return total_warnings(priced, together, alone, among)

    def _spread_or_raise(self, times: Floats, fault: str) -> Spread:
        if np.isnan(times).all():
            raise DataError(f"{fault}: give items that suit it")
        return compute_spread(times, self.statistic)
