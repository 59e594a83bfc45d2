"""Recording a walk: the raw values that it was sent, for a listener such as `Shadow`, which decides the same item again.

A walk that is recorded is wrapped; the others take no more time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from emsco_runtime.decision import Decision
from emsco_runtime.engine.plan import AcquireRequest
from emsco_runtime.engine.walk import Expired, RawValues, Walk

__all__ = ["ItemRecorder", "Listener", "RecordedItem"]


class RecordedItem(NamedTuple):
    """One item that was decided, and everything that was learned about it.

    Parameters
    ----------
    item
        As it was given to `decide`.
    known
        What the caller knew.
    budget
        The most that could be billed; infinity for no limit.
    values
        Feature -> what its acquirer, or its cache, gave: a raw value, or a `Failed`.
    free
        Those of them that came from a cache and were not billed.
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
    raw: RawValues = field(default_factory=RawValues)

    def record(self, steps: Walk) -> Walk:
        """Return a walk that does the same, and is recorded."""
        reply: Any = None
        try:
            while True:
                request = steps.send(reply)
                reply = yield request
                if isinstance(request, AcquireRequest):
                    self.raw.add(request.calls, reply.outcomes if isinstance(reply, Expired) else reply)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def report(self, decision: Decision) -> None:
        """Call the listener with what was recorded."""
        self.listener(RecordedItem(self.item, self.known, self.budget, self.raw.values, frozenset(self.raw.free), decision))
