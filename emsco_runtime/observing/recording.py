"""Listening to a walk: the raw values that it was sent, for a second opinion (`shadow`) on the same item.

A walk that is listened to is wrapped; one that is not costs what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from emsco_runtime.engine.plan import AcquireRequest
from emsco_runtime.engine.walk import Expired, Walk, record_outcomes

if TYPE_CHECKING:
    from emsco_runtime.decision import Decision

__all__ = ["ItemRecorder", "Listener", "RecordedItem"]


class RecordedItem(NamedTuple):
    """One item that was decided, and all that became known of it.

    Parameters
    ----------
    item
        As it was handed in.
    known
        What the caller knew.
    budget
        The most that could be billed; infinity for no limit.
    values
        Feature -> what its acquirer, or its cache, gave: a raw value, or a `Failed`.
    free
        Those of them that came out of a cache and were left out of the bill.
    decision
        What was decided.
    """

    item: Any
    known: Mapping[str, object]
    budget: float
    values: Mapping[str, Any]
    free: frozenset[str]
    decision: Decision


Listener: TypeAlias = Callable[[RecordedItem], object]


@dataclass(slots=True, eq=False)
class ItemRecorder:
    """Collects what one walk is sent, for a listener."""

    listener: Listener
    item: Any
    known: Mapping[str, object]
    budget: float
    values: dict[str, Any] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)

    def record(self, steps: Walk) -> Walk:
        """Return a walk that does the same, and is listened to."""
        reply: Any = None
        try:
            while True:
                request = steps.send(reply)
                reply = yield request
                if isinstance(request, AcquireRequest):
                    outcomes = reply.outcomes if isinstance(reply, Expired) else reply
                    self.free.update(record_outcomes(request.calls, outcomes, self.values).free_names)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def report(self, decision: Decision) -> None:
        """Tell the listener what was heard."""
        self.listener(RecordedItem(self.item, self.known, self.budget, self.values, frozenset(self.free), decision))
