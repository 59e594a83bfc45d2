"""Which features are paid for together, and which calls are made on which item to measure that.

Features of one call cost nothing more once it was made: they are a group, named after its function. Features of several calls
that share work on the item, such as parsing a message, which the first of them does, are a group only if the user says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from emsco_train.costs.profiling.timed_calls import ProfiledCall
from emsco_train.support.validation_errors import raise_faults

__all__ = ["CallGroups", "CallStep", "Role", "group_calls", "plan_steps"]

# first: nothing was called on the item before. after: another member of its group was. mixed: all are called, in any order.
Role: TypeAlias = Literal["first", "after", "mixed"]


@dataclass(frozen=True, slots=True)
class CallGroups:
    """Groups of calls, by position: those that the user named, of one feature each, and single calls of several features."""

    named: Mapping[str, tuple[int, ...]]
    single: Mapping[str, int]

    def group_of(self, position: int) -> str | None:
        """Return the group of a call, or None."""
        groups = {**self.named, **{name: (only,) for name, only in self.single.items()}}
        return next((name for name, positions in groups.items() if position in positions), None)


def group_calls(calls: Sequence[ProfiledCall], groups: Mapping[str, Sequence[str]]) -> CallGroups:
    """Check the groups that the user names, and return them with those of calls that yield several features."""
    raise_faults("groups", _group_faults(calls, groups))
    position = {name: place for place, call in enumerate(calls) for name in call.features}
    # In the order of registration, each once.
    found = {name: tuple(sorted({position[member] for member in members})) for name, members in groups.items()}
    named = {name: positions for name, positions in found.items() if len(positions) > 1}
    single = {name: positions[0] for name, positions in found.items() if len(positions) == 1}
    for place, call in enumerate(calls):
        if len(call.features) > 1 and place not in single.values():
            single[_group_name(call, {*named, *single})] = place
    return CallGroups(named, single)


class CallStep(NamedTuple):
    """Calls on one fresh item, by position, each in its role."""

    item: int
    calls: tuple[tuple[int, Role], ...]


def plan_steps(items: int, calls: int, call_groups: CallGroups, rng: np.random.Generator) -> list[CallStep]:
    """Return one pass: each call first on each item, each member of a named group after another one, and all calls mixed.

    Every step starts with a fresh item, since work that acquirers share is kept on the item: the first call does it.

    Examples
    --------
    >>> steps = plan_steps(1, 3, CallGroups({"html": (0, 1)}, {}), np.random.default_rng(0))
    >>> for step in sorted(steps):
    ...     print(step.calls)
    ((0, 'first'), (1, 'after'))
    ((1, 'first'), (0, 'after'))
    ((2, 'first'),)
    ((2, 'mixed'), (0, 'mixed'), (1, 'mixed'))
    """
    grouped = [position for positions in call_groups.named.values() for position in positions]
    alone = [position for position in range(calls) if position not in grouped]
    steps: list[CallStep] = []
    for item in range(items):
        steps += [CallStep(item, ((position, "first"),)) for position in alone]
        for positions in call_groups.named.values():
            # Each member first, then its neighbour in a random circle.
            cycle = rng.permutation(positions).tolist()
            pairs = zip(cycle, [*cycle[1:], cycle[0]], strict=True)
            steps += [CallStep(item, ((one, "first"), (other, "after"))) for one, other in pairs]
        steps.append(CallStep(item, tuple((position, "mixed") for position in rng.permutation(calls).tolist())))
    # Shuffled, so that what disturbs the machine for a while does not affect one acquirer alone.
    return [steps[place] for place in rng.permutation(len(steps))]


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
            faults.append(f"{group!r} is {members!r}: expected two features or more, since one alone shares nothing")
            continue
        for name in dict.fromkeys(members):
            if name not in call_of:
                known = ", ".join(list(call_of)[:20])
                faults.append(f"{group!r} holds {name!r}, which no acquirer returns: correct it ({known})")
            elif name in owner:
                faults.append(f"{name!r} is in {owner[name]!r} and in {group!r}: keep it in one")
            owner.setdefault(name, group)
        faults += _mixed_call_faults(group, members, call_of)
    return faults


def _mixed_call_faults(group: str, members: Sequence[str], call_of: Mapping[str, ProfiledCall]) -> list[str]:
    """Refuse a call of several features among other calls: a call cannot be a group and a part of another one."""
    several = {id(call_of[name]): call_of[name] for name in members if name in call_of and len(call_of[name].features) > 1}
    return [
        f"{group!r} holds {' and '.join(call.features)} of one call, {call.entry}, which are a group of their own: leave them "
        "out, or give each an acquirer"
        for call in several.values()
        if set(call.features) != set(members)
    ]
