"""`Guard`: what stands between the walk and an acquirer: its cache, its breaker, its time-out.

The same guard serves every way of calling: in this thread, in a pool, as a coroutine. A call begins with `open`, which may have
the answer already, or know of a call under way that will have it; otherwise it ends with one of `took`, `broke` or `left`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emsco_runtime._encoding import ValueFault
from emsco_runtime.cache import AcquirerCache

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from concurrent.futures import Future

    from emsco_runtime._flight import Flight
    from emsco_runtime.breaker import BreakerPhase, CircuitBreaker

__all__ = ["Cached", "Guard", "Joined", "Opened"]


@dataclass(frozen=True, slots=True)
class Cached:
    """An outcome that was kept from an earlier item.

    Parameters
    ----------
    outcome
        As the acquirer returned it then.
    free
        Whether it is left out of the bill.
    """

    outcome: Any
    free: bool


@dataclass(frozen=True, slots=True)
class Opened:
    """A call about to be made.

    Parameters
    ----------
    key
        What its value will be kept under; None: not kept.
    entered
        The breaker's token; None: there is no breaker.
    flight
        What others wait for meanwhile; None: nobody does.
    """

    key: Hashable | None
    entered: BreakerPhase | None
    flight: Flight | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """A call that somebody else makes already, for the same key; and the cache that knows of it."""

    flight: Flight
    cache: AcquirerCache


@dataclass(frozen=True, slots=True)
class Guard:
    """The cache, breaker and time-out of one acquirer.

    Parameters
    ----------
    cache, breaker
        None: there is none.
    timeout_s
        Seconds that a call may take; None for no limit.
    sound
        Whether an outcome holds a value that is allowed for every feature taken from it: no other is kept, or used when it was
        kept for another bundle, whose features may allow more.
    """

    cache: AcquirerCache | None
    breaker: CircuitBreaker | None
    timeout_s: float | None
    sound: Callable[[Any], bool]

    def open(self, item: Any, *, alone: bool = False) -> Opened | Cached | Joined:
        """Begin a call.

        Parameters
        ----------
        item
            What to call the acquirer with.
        alone
            Do not wait for the call of another.

        Raises
        ------
        ValueFault
            If the breaker is open. What the cache's key function raises passes through: it is a failure like any other.
        """
        key = None if self.cache is None else self.cache.key(item)
        if self.cache is None or key is None:
            return Opened(key, self._enter())
        claim = self.cache.claim(key)
        while claim.flight is None and not self.sound(claim.value):
            claim = self.cache.claim(key, claim.value)
        if claim.flight is None:
            return Cached(claim.value, self.cache.charge == "free")
        if claim.leads:
            return self._lead(self.cache, key, claim.flight)
        if alone or claim.flight.is_around:
            return Opened(key, self._enter())
        return Joined(claim.flight, self.cache)

    def _lead(self, cache: AcquirerCache, key: Hashable, flight: Flight) -> Opened:
        flight.add_done_callback(_Landing(cache, key, self.sound))
        try:
            return Opened(key, self._enter(), flight)
        except BaseException as error:
            flight.fail(error)
            raise

    def _enter(self) -> BreakerPhase | None:
        if self.breaker is None:
            return None
        entered = self.breaker.enter()
        if entered is None:
            raise ValueFault("breaker_open", "its source failed too often in a row and is left alone for a while")
        return entered

    def shared(self, joined: Joined) -> Any:
        """Return the answer to a call that somebody else made: a hit, unless it holds a value that is not allowed."""
        outcome = joined.flight.result()
        sound = self.sound(outcome)
        joined.cache.note(hit=sound)
        return Cached(outcome, joined.cache.charge == "free") if sound else outcome

    def took(self, opened: Opened, outcome: Any) -> None:
        """End a call that returned."""
        if self.breaker is not None and opened.entered is not None:
            self.breaker.succeeded(opened.entered)
        if self.cache is not None and opened.key is not None and opened.flight is None and self.sound(outcome):
            self.cache.put(opened.key, outcome)

    def broke(self, opened: Opened, error: Exception) -> None:
        """End a call that raised, or took too long; whoever waits for it gets the same failure."""
        if self.breaker is not None and opened.entered is not None:
            self.breaker.failed(opened.entered)
        if opened.flight is not None:
            opened.flight.fail(error)

    def left(self, opened: Opened) -> None:
        """End a call that nobody waits for any more, through no fault of its source; a follower makes it instead."""
        if self.breaker is not None and opened.entered is not None:
            self.breaker.left(opened.entered)
        if opened.flight is not None:
            opened.flight.cancel()

    def late(self) -> ValueFault:
        """Return the fault of a call that took too long."""
        return ValueFault("timeout", f"its acquirer gave no answer within {self.timeout_s:g} s")


@dataclass(frozen=True, slots=True, eq=False)
class _Landing:
    """Takes a call that has ended out of the cache's list, and keeps its answer if it is one to keep."""

    cache: AcquirerCache
    key: Hashable
    sound: Callable[[Any], bool]

    def __call__(self, flight: Future[Any]) -> None:
        answered = not flight.cancelled() and flight.exception() is None
        value = flight.result() if answered and self.sound(flight.result()) else AcquirerCache.MISS
        self.cache.end(self.key, flight, value)
