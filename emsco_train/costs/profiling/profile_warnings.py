"""What the user should know before trusting the prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emsco_runtime.bundle.summary import pluralize
from emsco_train.costs.profiling.clock import Clock
from emsco_train.costs.profiling.cost_profile import CallFigures, GroupFigures
from emsco_train.costs.profiling.timings import CallCounts, Spread

__all__ = ["call_warnings", "group_warnings", "total_warnings"]

# On a busy machine wall time may be a few times CPU time; ten times, and more than a millisecond, is waiting.
_WAIT_RATIO, _MIN_WAIT_S = 10.0, 1e-3
# Prices that exceed the time of all calls together by this much hide shared work.
_EXCESS_RATIO = 1.25
# A call that becomes this much cheaper after others shares their work.
_CHEAPER_RATIO = 0.5
# Members of a group whose shared work differs this much do not share the same work.
_UNEQUAL_RATIO = 2.0


def call_warnings(calls: Sequence[CallFigures], call_counts: Sequence[CallCounts], clock: Clock) -> list[str]:
    """Warn of failures, of calls too short for the clock, and of waiting that CPU time does not count."""
    warnings = [
        f"{call.label} failed in {call.failures} of {pluralize(call.calls, 'call')}, which are left out; the first: {call.error}"
        for call in calls
        if call.failures
    ]
    short = [call.label for call in calls if call.first.value <= clock.resolution_s]
    if short:
        resolution = _format_seconds(clock.resolution_s)
        warnings.append(f"{', '.join(short)}: too short for the clock, and priced at its resolution, {resolution}")
    waiting = [
        f"{call.label} ({_format_seconds(counts.wall_s)} at least, of which {_format_seconds(max(counts.seconds, 0.0))} CPU)"
        for call, counts in zip(calls, call_counts, strict=True)
        if clock.name == "cpu" and counts.wall_s > max(_WAIT_RATIO * counts.seconds, _MIN_WAIT_S)
    ]
    if waiting:
        warnings.append(f"{', '.join(waiting)}: mostly waits, which CPU time does not count; wall time would")
    return warnings


def group_warnings(groups: Sequence[GroupFigures], members: Mapping[str, Mapping[str, float]], clock: Clock) -> list[str]:
    """Warn of named groups that share nothing, and of those whose members share different work.

    `members`: named group -> feature -> seconds that it takes longer as the first of its group.
    """
    warnings: list[str] = []
    for group in groups:
        extra = members.get(group.name)
        if extra is None:
            continue
        most, least = max(extra, key=lambda name: extra[name]), min(extra, key=lambda name: extra[name])
        if group.shared.value <= clock.resolution_s:
            warnings.append(f"group {group.name}: no shared work was found; its features need no group")
        elif extra[most] > _UNEQUAL_RATIO * max(extra[least], 0.0):
            longest, shortest = _format_seconds(extra[most]), _format_seconds(max(extra[least], 0.0))
            warnings.append(
                f"group {group.name}: its features do not share the same work ({most} takes {longest} longer as the first of "
                f"them, {least} {shortest}); smaller groups are more exact"
            )
    return warnings


def total_warnings(priced_s: float, together: Spread | None, alone: Mapping[str, float], mixed: Mapping[str, float]) -> list[str]:
    """Warn of shared work that no group names: together, the calls take less than the sum of their prices.

    `alone` and `mixed`: features of a call outside of any named group -> its seconds as the first, and among others, on an item.
    """
    if together is None or priced_s <= _EXCESS_RATIO * together.value:
        return []
    sharing = [name for name, seconds in alone.items() if mixed.get(name, seconds) < _CHEAPER_RATIO * seconds]
    hint = f"; cheaper after others: {', '.join(sharing)}. Name what shares work as a group" if sharing else ""
    priced, measured = _format_seconds(priced_s), _format_seconds(together.value)
    return [f"all features are priced at {priced}, but take {measured} together on one item{hint}"]


def _format_seconds(seconds: float) -> str:
    """Return seconds in the unit that suits them.

    Examples
    --------
    >>> _format_seconds(2.5e-7), _format_seconds(0.00123), _format_seconds(2.0)
    ('0.25 us', '1.23 ms', '2 s')
    """
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} us"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
