"""Which features are paid for together.

Features of one call cost nothing more once it was made: they are a group, named after its function. Features of several calls
that share work on the item, such as one parse of a message that the first of them does, are a group only if the user says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emsco_train.costs.profiling.timed_calls import ProfiledCall
from emsco_train.errors import DesignError

__all__ = ["CallGroups", "group_calls"]


@dataclass(frozen=True, slots=True)
class CallGroups:
    """How calls are grouped.

    Parameters
    ----------
    named
        Group that the user named -> positions of its calls, one feature each: its price is solved for.
    single
        Group -> position of the one call that yields all its features: its price is that of the call.
    """

    named: Mapping[str, tuple[int, ...]]
    single: Mapping[str, int]

    def group_of(self, position: int) -> str | None:
        """Return the group of a call, or None."""
        owners = [name for name, positions in self.named.items() if position in positions]
        owners += [name for name, only in self.single.items() if only == position]
        return owners[0] if owners else None


def group_calls(calls: Sequence[ProfiledCall], groups: Mapping[str, Sequence[str]]) -> CallGroups:
    """Check the groups that the user names, and return them with those of calls that yield several features."""
    faults = _group_faults(calls, groups)
    if faults:
        raise DesignError("groups: " + "; ".join(faults))
    position = {name: place for place, call in enumerate(calls) for name in call.features}
    # In the order of registration, each once.
    found = {name: tuple(sorted({position[member] for member in members})) for name, members in groups.items()}
    named = {name: positions for name, positions in found.items() if len(positions) > 1}
    single = {name: positions[0] for name, positions in found.items() if len(positions) == 1}
    for place, call in enumerate(calls):
        if len(call.features) > 1 and place not in single.values():
            single[_group_name(call, {*named, *single})] = place
    return CallGroups(named, single)


def _group_name(call: ProfiledCall, taken: set[str]) -> str:
    plain = getattr(call.entry.function, "__name__", "").strip("<>") or call.features[0]
    names = [plain, *(f"{plain}_{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)


def _group_faults(calls: Sequence[ProfiledCall], groups: Mapping[str, Sequence[str]]) -> list[str]:
    call_of = {name: call for call in calls for name in call.features}
    faults: list[str] = []
    owner: dict[str, str] = {}
    for group, members in groups.items():
        if not group:
            faults.append("a group has no name: give it one")
        if isinstance(members, str) or len(set(members)) < 2:
            faults.append(f"{group!r} is {members!r}: two features or more are due, since one alone shares nothing")
            continue
        for name in dict.fromkeys(members):
            if name not in call_of:
                faults.append(
                    f"{group!r} holds {name!r}, which no acquirer obtains: correct it ({', '.join(list(call_of)[:20])})"
                )
            elif name in owner:
                faults.append(f"{name!r} is in {owner[name]!r} and in {group!r}: keep it in one")
            owner.setdefault(name, group)
        faults += _mixed_call_faults(group, members, call_of)
    return faults


def _mixed_call_faults(group: str, members: Sequence[str], call_of: Mapping[str, ProfiledCall]) -> list[str]:
    """Refuse a call of several features among others: what it shares inside and outside cannot both be one group."""
    several = {id(call_of[name]): call_of[name] for name in members if name in call_of and len(call_of[name].features) > 1}
    return [
        f"{group!r} holds {' and '.join(call.features)} of one call, {call.entry}, which are a group of their own: leave them "
        "out, or give each an acquirer"
        for call in several.values()
        if set(call.features) != set(members)
    ]
