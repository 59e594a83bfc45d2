"""`AcquirerCache`: values of one acquirer kept across items, for a while; and one call at a time for each key."""

from __future__ import annotations

import inspect
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Literal, NamedTuple, TypeAlias

from emsco_runtime.errors import InputError
from emsco_runtime.sources.in_flight import InFlightCall
from emsco_runtime.support.arguments import check_count, check_seconds
from emsco_runtime.support.fork import PickledBySettings

__all__ = ["AcquirerCache", "CacheClaim", "CacheCounts", "Charge"]

Charge: TypeAlias = Literal["free", "full"]
_Settings: TypeAlias = tuple[Callable[[Any], Hashable | None], float, int, Charge, Callable[[], float]]


class CacheCounts(NamedTuple):
    """How often a key was found, how often not, and how many values are held that have not expired."""

    hits: int
    misses: int
    size: int


class CacheClaim(NamedTuple):
    """The value of a key (`AcquirerCache.MISS` if there is none), or the running call for it, which the leader has to make."""

    value: Any
    flight: InFlightCall | None
    is_leader: bool


class AcquirerCache(PickledBySettings[_Settings]):
    """Keeps what an acquirer returned, by a key of the item; thread-safe, least recently used values go first.

    At most one call for a key runs at a time: other items with that key wait for it, in whatever thread or task they are decided.
    They get its value as a hit, or its failure; if it is cancelled, one of them makes the call. They do not wait longer than
    their own deadline, or than the acquirer's timeout.

    Failures are never kept, nor are values that a feature does not allow. A cache belongs to its acquirer and lives as long as
    the registry, across reloads of a bundle. Each process has its own, empty at first.

    Parameters
    ----------
    key
        Item -> something hashable; None for an item that must not be cached. What it raises is a failure of the acquirer.
    ttl_s
        Seconds that a value is kept. One that has expired is never used; it is removed when the next value is stored, its own key
        is looked up, or `counts` is read.
    size
        Most values kept.
    charge
        What a hit costs: "free" (the features are not billed), or "full".
    clock
        Returns seconds.

    Examples
    --------
    >>> cache = AcquirerCache(key=lambda message: message["sender"], ttl_s=60.0)
    >>> cache.put("a@example.org", 0.7)
    >>> cache.get("a@example.org"), cache.get("b@example.org") is AcquirerCache.MISS
    (0.7, True)
    """

    MISS: Any = type("Miss", (), {"__repr__": lambda _: "MISS"})()

    def __init__(
        self,
        *,
        key: Callable[[Any], Hashable | None],
        ttl_s: float,
        size: int = 10_000,
        charge: Charge = "free",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not callable(key):
            raise InputError(f"key: expected a function from item to a hashable value, got {key!r}")
        if inspect.iscoroutinefunction(key):
            raise InputError("key: expected a function from item to a hashable value, got a coroutine function")
        check_seconds("ttl_s", ttl_s)
        check_count("size", size)
        if charge not in ("free", "full"):
            raise InputError(f'charge: expected "free" or "full", got {charge!r}')
        self._settings = (key, float(ttl_s), size, charge, clock)
        self._start()

    def reset_after_fork(self) -> None:
        """Start over empty: each process has its own values."""
        super().reset_after_fork()
        self.key, self._ttl_s, self._size, self.charge, self._clock = self._settings
        # In the order of their last use; and their keys in the order in which they expire.
        self._entries: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._by_expiry: OrderedDict[Hashable, None] = OrderedDict()
        self._flights: dict[Hashable, InFlightCall] = {}
        self._hits = self._misses = 0

    @property
    def counts(self) -> CacheCounts:
        """Return hits and misses so far, and how many values are held that have not expired."""
        with self._lock:
            self._remove_expired(self._clock())
            return CacheCounts(self._hits, self._misses, len(self._entries))

    def get(self, key: Hashable) -> Any:
        """Return the value of a key, or `MISS`."""
        with self._lock:
            value = self._get_fresh(key)
            self._count(is_hit=value is not self.MISS)
            return value

    def put(self, key: Hashable, value: Any) -> None:
        """Keep a value for its time to live."""
        with self._lock:
            self._store(key, value)

    def claim(self, key: Hashable, unusable: Any = MISS) -> CacheClaim:
        """Return the value of a key, or the running call for it; without one, the caller leads a new one.

        A value that the caller found before and cannot use is `unusable`: it counts as missing.
        """
        with self._lock:
            value = self._get_fresh(key)
            if value is not self.MISS and value is not unusable:
                self._hits += 1
                return CacheClaim(value, None, is_leader=False)
            if unusable is not self.MISS:
                self._hits -= 1  # the caller could not use it
            flight = self._flights.get(key)
            if flight is not None and flight.can_be_joined:
                return CacheClaim(self.MISS, flight, is_leader=False)
            self._misses += 1
            flight = self._flights[key] = InFlightCall()
            return CacheClaim(self.MISS, flight, is_leader=True)

    def finish(self, key: Hashable, flight: Future[Any], value: Any = MISS) -> None:
        """Note that a call has ended, and keep its value if there is one to keep."""
        with self._lock:
            if self._flights.get(key) is flight:
                del self._flights[key]
            if value is not self.MISS:
                self._store(key, value)

    end = finish  # the public name

    def count_follower(self, *, hit: bool) -> None:
        """Count an item that waited for the call of another."""
        with self._lock:
            self._count(is_hit=hit)

    note = count_follower  # the public name

    def _get_fresh(self, key: Hashable) -> Any:
        found = self._entries.get(key)
        if found is None:
            return self.MISS
        if self._clock() >= found[0]:
            # Ctrl-C may come between the two, here and below, and then one of them has no such key.
            self._entries.pop(key, None)
            self._by_expiry.pop(key, None)
            return self.MISS
        self._entries.move_to_end(key)
        return found[1]

    def _store(self, key: Hashable, value: Any) -> None:
        now = self._clock()
        self._remove_expired(now)
        self._entries[key] = (now + self._ttl_s, value)
        self._by_expiry[key] = None
        for keys in (self._entries, self._by_expiry):
            keys.move_to_end(key)
        while len(self._entries) > self._size:
            least_used, _ = self._entries.popitem(last=False)
            self._by_expiry.pop(least_used, None)

    def _remove_expired(self, now: float) -> None:
        """Remove values that have expired: each is looked at once, and the first that has not ends the search."""
        while self._by_expiry:
            oldest = next(iter(self._by_expiry))
            found = self._entries.get(oldest)
            if found is not None and now < found[0]:
                return
            self._by_expiry.popitem(last=False)
            self._entries.pop(oldest, None)

    def _count(self, *, is_hit: bool) -> None:
        self._hits += is_hit
        self._misses += not is_hit
