"""The soak's sources: plain and async acquirers that raise, hang and answer wrongly as the world says, and count their calls."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

from emsco_runtime import Acquirers
from emsco_runtime.sources.breaker import CircuitBreaker
from emsco_runtime.sources.cache import AcquirerCache
from tests.runtime.soak_world import SENDERS, SOURCES, Fault, World, expected_answer

TIMEOUT_S = 0.06
HANG_S = 0.3
POLICIES = {
    "size": "reject",
    "links": "default",
    "country": "default",
    "auth": "default",
    "reputation": "reject",
    "body": "default",
}
# In addition to the faults of the world, these may come of the load: by their sources' guards.
TIMED = ("links", "auth", "reputation", "body")
BREAKING = ("auth", "reputation")
# A hit in the first is free, in the second it is billed.
FREE, FULL = "country", "reputation"


# How long a source that hangs waits for the first refusal: long enough for any machine, and not for ever.
REFUSAL_S = 60.0


class Calls:
    """Counts the calls of each source for each item; the batch source's are one for each of its items.

    Parameters
    ----------
    items
        How many items there are.
    until_refused
        Whether calls that hang go on until the pool has refused one. How many are abandoned at the same time would otherwise
        depend on how fast the machine is: on a slow one the first ends before there are enough.
    """

    def __init__(self, items: int, *, until_refused: bool = False) -> None:
        self._refused = threading.Event()
        if not until_refused:
            self._refused.set()
        # Written to, so that the memory is taken before it is first measured.
        self._counts = {source: bytearray(b"\1") * items for source in SOURCES}
        for counts in self._counts.values():
            counts[:] = bytes(items)

    def note(self, source: str, item: int) -> None:
        """Count a call."""
        self._counts[source][item] += 1

    def note_refusal(self) -> None:
        """Let calls that hang end."""
        self._refused.set()

    def hang(self) -> None:
        """Hang, as a plain source does."""
        time.sleep(HANG_S)
        self._refused.wait(REFUSAL_S)

    def of(self, source: str, item: int) -> int:
        """Return how often a source was called for an item."""
        return self._counts[source][item]

    def repeated(self) -> int:
        """Return for how many items a source was called more than once."""
        return sum(count > 1 for counts in self._counts.values() for count in counts)

    def total(self) -> int:
        """Return the calls of all sources."""
        return sum(map(sum, self._counts.values()))


class SourceError(Exception):
    """What a source raises."""


def plain_source(world: World, calls: Calls, source: str) -> Any:
    """Return the plain function of a source."""

    def ask(item: int) -> Any:
        calls.note(source, item)
        fault = world.fault(source, item, many=False)
        if fault is Fault.RAISE:
            raise SourceError(f"{source} does not know {item}")
        if fault is Fault.HANG:
            calls.hang()
        return expected_answer(world, source, item, fault)

    return ask


def async_source(world: World, calls: Calls, source: str) -> Any:
    """Return the async function of a source."""

    async def ask(item: int) -> Any:
        calls.note(source, item)
        fault = world.fault(source, item, many=False)
        await asyncio.sleep(HANG_S if fault is Fault.HANG else 0)
        if fault is Fault.RAISE:
            raise SourceError(f"{source} does not know {item}")
        return expected_answer(world, source, item, fault)

    return ask


def batch_source(world: World, calls: Calls, source: str) -> Any:
    """Return the batch function of a source."""

    def ask(items: Sequence[int]) -> list[Any]:
        for item in items:
            calls.note(source, item)
        whole = world.batch_fault(items[0])
        if whole is Fault.RAISE:
            raise SourceError(f"{source} does not know {len(items)} items")
        if whole is Fault.HANG:
            calls.hang()
        return [expected_answer(world, source, item, world.fault(source, item, many=True)) for item in items]

    return ask


def registry(world: World, calls: Calls, *, asynchronous: bool) -> Acquirers:
    """Return the acquirers of all sources, with timeouts, breakers and caches of their own."""
    made = Acquirers()
    remote = async_source if asynchronous else plain_source
    made.feature("size", on_failure="reject")(plain_source(world, calls, "size"))
    made.feature("links", on_failure="default", timeout_s=TIMEOUT_S)(plain_source(world, calls, "links"))
    if not asynchronous:
        made.batch("links", on_failure="default", timeout_s=TIMEOUT_S)(batch_source(world, calls, "links"))
    made.feature("country", on_failure="default", cache=AcquirerCache(key=_sender, ttl_s=0.5, size=SENDERS // 2))(
        plain_source(world, calls, "country")
    )
    made.features(*SOURCES["auth"], on_failure="default", timeout_s=TIMEOUT_S, breaker=_breaker())(remote(world, calls, "auth"))
    made.feature(
        "reputation",
        on_failure="reject",
        timeout_s=TIMEOUT_S,
        breaker=_breaker(),
        cache=AcquirerCache(key=_sender, ttl_s=0.2, charge="full"),
    )(remote(world, calls, "reputation"))
    made.feature("body", on_failure="default", timeout_s=TIMEOUT_S)(remote(world, calls, "body"))
    return made


def _breaker() -> CircuitBreaker:
    return CircuitBreaker(failures=3, pause_s=0.05)


def _sender(item: int) -> int:
    return item % SENDERS
