"""From timings to prices: the figures of every call and group, and what there is to say about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from emsco_runtime._arrays import Floats
from emsco_train.errors import DataError
from emsco_train.profiling.calls import ProfiledCall
from emsco_train.profiling.cautions import call_cautions, group_cautions, total_cautions
from emsco_train.profiling.clock import Clock
from emsco_train.profiling.figures import Spread, Statistic, per_item, spread_of
from emsco_train.profiling.result import CallFigures, GroupFigures, Profile
from emsco_train.profiling.sharing import Sharing
from emsco_train.profiling.timings import Timings

__all__ = ["Reckoning"]


@dataclass(frozen=True, slots=True, eq=False)
class Reckoning:
    """Turns timings into prices.

    Parameters
    ----------
    calls, sharing
        What was called, and what is paid for together.
    timings
        What the calls took.
    clock, statistic
        What they were measured with, and which figure over the items is the price.
    """

    calls: tuple[ProfiledCall, ...]
    sharing: Sharing
    timings: Timings
    clock: Clock
    statistic: Statistic

    def profile(self, items: int, repeats: int) -> Profile:
        """Return the figures of all calls and groups."""
        self._refuse_failures()
        first, after = (per_item(table, self.clock.name) for table in (self.timings.first, self.timings.after))
        calls = tuple(self._call(position, first, after) for position in range(len(self.calls)))
        extra = {name: first[list(positions)] - after[list(positions)] for name, positions in self.sharing.named.items()}
        groups = tuple(self._group(name, positions, extra[name]) for name, positions in self.sharing.named.items())
        groups += tuple(self._one_call(name, position, calls) for name, position in self.sharing.single.items())
        together = self._together()
        cautions = (
            *call_cautions(calls, self.timings.tallies, self.clock),
            *group_cautions(groups, self._members(extra), self.clock),
            *self._total_cautions(calls, groups, together),
        )
        return Profile(
            calls=calls,
            groups=groups,
            items=items,
            repeats=repeats,
            clock=self.clock.name,
            statistic=self.statistic,
            resolution_s=self.clock.resolution_s,
            together=together,
            measured=datetime.now(UTC),
            cautions=cautions,
        )

    def _refuse_failures(self) -> None:
        faults = [
            f"{call.entry} ({', '.join(call.features)}) failed on every item; the first time: {tally.error}"
            for call, tally in zip(self.calls, self.timings.tallies, strict=True)
            if tally.failures == tally.calls
        ]
        if faults:
            raise DataError("; ".join(faults) + ". Mend it, or give items that suit it")

    def _call(self, position: int, first: Floats, after: Floats) -> CallFigures:
        call, tally, group = self.calls[position], self.timings.tallies[position], self.sharing.group_of(position)
        alone = self._spread(first[position], f"{call.entry} succeeds on no fresh item")
        if group in self.sharing.single:
            own = Spread(0.0, 0.0, 0.0)
        elif group is None:
            own = self._at_least(alone)
        else:
            told = f"group {group}: {call.entry} and another of its acquirers succeed together on no item"
            own = self._at_least(self._spread(after[position], told))
        return CallFigures(str(call.entry), call.features, group, own, alone, tally.calls, tally.failures, tally.error)

    def _group(self, name: str, positions: Sequence[int], extra: Floats) -> GroupFigures:
        """Return what being the first takes in addition: on each item the mean over the members, then the figure over items."""
        known = ~np.isnan(extra).all(axis=0)
        shared = self._spread(np.nanmean(extra[:, known], axis=0), f"group {name}: no item tells what its features share")
        features = tuple(feature for position in positions for feature in self.calls[position].features)
        return GroupFigures(name, features, Spread(*(max(0.0, seconds) for seconds in (shared.value, shared.low, shared.high))))

    def _one_call(self, name: str, position: int, calls: Sequence[CallFigures]) -> GroupFigures:
        return GroupFigures(name, self.calls[position].features, self._at_least(calls[position].first))

    def _members(self, extra: Mapping[str, Floats]) -> dict[str, dict[str, float]]:
        return {
            name: {
                self.calls[position].features[0]: float(np.nanmedian(row))
                for position, row in zip(self.sharing.named[name], rows, strict=True)
            }
            for name, rows in extra.items()
        }

    def _together(self) -> Spread | None:
        sums = self.timings.company.sum(axis=0)
        found = per_item(sums, self.clock.name)
        return None if np.isnan(found).all() else spread_of(found, self.statistic)

    def _total_cautions(self, calls: Sequence[CallFigures], groups: Sequence[GroupFigures], together: Spread | None) -> list[str]:
        priced = sum(call.own.value * len(call.features) for call in calls) + sum(group.shared.value for group in groups)
        # The least of the repeats for waiting, too: which of the others went before is a matter of chance.
        company = per_item(self.timings.company, "cpu")
        known = [position for position in range(len(calls)) if not np.isnan(company[position]).all()]
        named = [position for positions in self.sharing.named.values() for position in positions]
        alone = {calls[position].label: calls[position].first.value for position in known if position not in named}
        among = {calls[position].label: spread_of(company[position], self.statistic).value for position in known}
        return total_cautions(priced, together, alone, among)

    def _spread(self, times: Floats, fault: str) -> Spread:
        if np.isnan(times).all():
            raise DataError(f"{fault}: give items that suit it")
        return spread_of(times, self.statistic)

    def _at_least(self, spread: Spread) -> Spread:
        """Return a price that is never 0: no call is free, even if the clock cannot tell what it takes."""
        return Spread(*(max(self.clock.resolution_s, seconds) for seconds in (spread.value, spread.low, spread.high)))
