"""The soak's world: what every source would answer for every item, what goes wrong instead, and how each item is to be decided.

All of it is drawn in advance from a seed, per item and source, so that nothing depends on who asks when.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

CATEGORIES = ("far", "near", "home")
SENDERS = 307
CHUNK = 25
# Source -> the features that it obtains in one call.
SOURCES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "size": ("size",),
        "links": ("links",),
        "country": ("country",),
        "auth": ("spf", "dkim"),
        "reputation": ("reputation",),
        "body": ("body",),
    }
)
SOURCE_OF: Mapping[str, str] = MappingProxyType({name: source for source, names in SOURCES.items() for name in names})
# These depend on the sender alone, so that they may be cached.
BY_SENDER = ("country", "reputation")
# Hanging needs a timeout: a source without one is never hurried.
HANGING = ("links", "auth", "reputation", "body")
BUDGETS = (0.5, 4.0, 12.0, 30.0)


class Fault(IntEnum):
    """What a source does to an item."""

    NONE = 0
    RAISE = 1
    HANG = 2
    NAN = 3
    WRONG = 4


# 5 % raise, 1 % hang, and of NaN and wrong types a little more than 1 % each: outages take the place of some.
_SHARES = (0.918, 0.05, 0.01, 0.011, 0.011)
_FOR_MANY = (0.94, 0.05, 0.01)


class Options(NamedTuple):
    """How one item is to be decided."""

    budget: float | None
    deadline_s: float | None
    known: Mapping[str, Any] | None


class Outage(NamedTuple):
    """A source that is dead for a stretch of items, again and again."""

    source: str
    fault: Fault
    start: int
    length: int


OUTAGE_PERIOD = 5000
OUTAGES = (
    Outage("links", Fault.HANG, 0, 6 * CHUNK),
    Outage("auth", Fault.RAISE, 1000, 6 * CHUNK),
    Outage("reputation", Fault.RAISE, 2500, 8 * CHUNK),
    Outage("auth", Fault.HANG, 4000, 6 * CHUNK),
)


class World:
    """Values, faults and options of `items` items.

    Parameters
    ----------
    items
        How many.
    seed
        Of everything that is drawn.
    """

    def __init__(self, items: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.items = items
        self._values = {name: _draw_values(rng, items, source in BY_SENDER) for name, source in SOURCE_OF.items()}
        self._faults = {source: _draw_faults(rng, items, source) for source in SOURCES}
        chunks = -(-items // CHUNK)
        self._batch_faults = rng.choice(len(_FOR_MANY), size=chunks, p=_FOR_MANY).astype(np.uint8).tobytes()
        self._kinds = rng.random(items).astype(np.float32).tobytes()
        self._draws = np.frombuffer(self._kinds, dtype=np.float32)

    def value(self, name: str, item: int) -> Any:
        """Return what a healthy source answers."""
        value = self._values[name][item % SENDERS if SOURCE_OF[name] in BY_SENDER else item]
        return CATEGORIES[int(abs(value) * 10) % len(CATEGORIES)] if name == "country" else value

    def fault(self, source: str, item: int, *, many: bool) -> Fault:
        """Return what happens instead; a batch source raises and hangs for whole chunks, and answers wrongly for single items."""
        own = Fault(self._faults[source][item])
        if not (many and source == "links"):
            return own
        whole = self.batch_fault(item)
        return whole if whole or own in (Fault.RAISE, Fault.HANG) else own

    def batch_fault(self, item: int) -> Fault:
        """Return what happens to the batch source when it is asked for an item's chunk."""
        return Fault(self._batch_faults[item // CHUNK])

    def options(self, item: int) -> Options:
        """Return how an item is to be decided: mostly plainly; some with a budget, a deadline, or values that are known."""
        draw = float(self._draws[item])
        known = None
        if draw < 0.10:
            # Not what the sources say: a runtime that used theirs would be found out.
            known = {"size": 1.25, "spf": -0.75} if draw < 0.05 else {"country": "home", "reputation": 0.5}
        if 0.08 <= draw < 0.20:
            return Options(BUDGETS[int(draw * 1000) % len(BUDGETS)], None, known)
        if 0.20 <= draw < 0.28:
            return Options(None, 0.04, None)
        if 0.28 <= draw < 0.29:
            return Options(None, -1.0 if draw < 0.285 else 0.0, None)
        return Options(None, None, known)

    def injected(self) -> dict[str, float]:
        """Return the share of each fault among all items and sources."""
        total = self.items * len(SOURCES)
        pluralize = {fault.name: sum(faults.count(fault) for faults in self._faults.values()) for fault in Fault}
        return {name: count / total for name, count in pluralize.items()}


def chunks(items: int) -> Iterator[range]:
    """Yield the items in stretches of one length."""
    return (range(start, min(start + CHUNK, items)) for start in range(0, items, CHUNK))


def _draw_values(rng: np.random.Generator, items: int, by_sender: bool) -> array[float]:
    return array("d", rng.normal(size=SENDERS if by_sender else items).tolist())


def _draw_faults(rng: np.random.Generator, items: int, source: str) -> bytes:
    drawn = rng.choice(len(_SHARES), size=items, p=_SHARES).astype(np.uint8)
    places = np.arange(items) % OUTAGE_PERIOD
    for outage in OUTAGES:
        if outage.source == source:
            drawn[(places >= outage.start) & (places < outage.start + outage.length)] = outage.fault
    if source not in HANGING:
        drawn[drawn == Fault.HANG] = Fault.RAISE
    return drawn.tobytes()


def expected_answer(world: World, source: str, item: int, fault: Fault) -> Any:
    """Return the answer of a source that neither raises nor hangs: a value, or a mapping where it has several features."""
    values = {name: world.value(name, item) for name in SOURCES[source]}
    if source == "auth":
        if fault is Fault.NAN:
            values["spf"] = math.nan
        elif fault is Fault.WRONG:
            del values["dkim"]
        return values
    if fault is Fault.NAN:
        return None if source == "country" else math.nan
    if fault is Fault.WRONG:
        return "Atlantis" if source == "country" else "many"
    return values[source]


def expected_failures(source: str, fault: Fault) -> dict[str, str]:
    """Return which features fail, and how, when a source does this; the contract's words."""
    names = SOURCES[source]
    if fault is Fault.RAISE:
        return dict.fromkeys(names, "exception")
    if fault is Fault.HANG:
        return dict.fromkeys(names, "timeout")
    if fault is Fault.NAN:
        # A gap in the body is a value: the bundle imputes it.
        return {} if source == "body" else {names[0]: "missing"}
    if fault is Fault.WRONG:
        odd = {"country": "unknown_category", "auth": "missing_key"}
        return {names[-1]: odd.get(source, "wrong_type")}
    return {}
