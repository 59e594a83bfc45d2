"""`Guard`: what stands between the walk and an acquirer: its cache, its breaker, its time-out.

The same guard serves every way of calling: in this thread, in a pool, as a coroutine. A call begins with `open`, which may have
the answer already, or know of a call under way that will have it; otherwise it ends with one of `took`, `broke` or `left`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emsco_runtime.bundle.encoding import ValueFault
from emsco_runtime.sources.cache import AcquirerCache

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from concurrent.futures import Future

    from emsco_runtime.sources.breaker import BreakerPhase, CircuitBreaker
    from emsco_runtime.sources.in_flight import InFlightCall

__all__ = ["CachedOutcome", "CallTicket", "Guard", "JoinedCall"]


@dataclass(frozen=True, slots=True)
class CachedOutcome:
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
class CallTicket:
    """A call about to be made.

    Parameters
    ----------
    key
        What its value will be kept under; None: not kept.
    breaker_token
        The breaker's token; None: there is no breaker.
    flight
        What others wait for meanwhile; None: nobody does.
    """

    key: Hashable | None
    breaker_token: BreakerPhase | None
    flight: InFlightCall | None = None


@dataclass(frozen=True, slots=True)
class JoinedCall:
    """A call that somebody else makes already, for the same key; and the cache that knows of it."""

    flight: InFlightCall
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
    is_valid
        Whether an outcome holds a value that is allowed for every feature taken from it: no other is kept, or used when it was
        kept for another bundle, whose features may allow more.
    """

    cache: AcquirerCache | None
    breaker: CircuitBreaker | None
    timeout_s: float | None
    is_valid: Callable[[Any], bool]

    def begin(self, item: Any, *, never_wait: bool = False) -> CallTicket | CachedOutcome | JoinedCall:
        """Begin a call.

        Parameters
        ----------
        item
            What to call the acquirer with.
        never_wait
            Do not wait for the call of another.

        Raises
        ------
        ValueFault
            If the breaker is open. What the cache's key function raises passes through: it is a failure like any other.
        """
        key = None if self.cache is None else self.cache.key(item)
        if self.cache is None or key is None:
            return CallTicket(key, self._enter_breaker())
        claim = self.cache.claim(key)
        while claim.flight is None and not self.is_valid(claim.value):
            claim = self.cache.claim(key, claim.value)
        if claim.flight is None:
            return CachedOutcome(claim.value, self.cache.charge == "free")
        if claim.is_leader:
            return self._begin_in_flight(self.cache, key, claim.flight)
        if never_wait or claim.flight.encloses_caller:
            return CallTicket(key, self._enter_breaker())
        return JoinedCall(claim.flight, self.cache)

    def _begin_in_flight(self, cache: AcquirerCache, key: Hashable, flight: InFlightCall) -> CallTicket:
        flight.add_done_callback(_StoreInCache(cache, key, self.is_valid))
        try:
            return CallTicket(key, self._enter_breaker(), flight)
        except BaseException as error:
            flight.set_failure(error)
            raise

    def _enter_breaker(self) -> BreakerPhase | None:
        if self.breaker is None:
            return None
        breaker_token = self.breaker.enter()
        if breaker_token is None:
            raise ValueFault("breaker_open", "its source failed too often in a row and is left alone for a while")
        return breaker_token

    def read_joined(self, joined_call: JoinedCall) -> Any:
        """Return the answer to a call that somebody else made: a hit, unless it holds a value that is not allowed."""
        outcome = joined_call.flight.result()
        is_valid = self.is_valid(outcome)
        joined_call.cache.count_follower(hit=is_valid)
        return CachedOutcome(outcome, joined_call.cache.charge == "free") if is_valid else outcome

    def succeeded(self, ticket: CallTicket, outcome: Any) -> None:
        """End a call that returned."""
        if self.breaker is not None and ticket.breaker_token is not None:
            self.breaker.succeeded(ticket.breaker_token)
        if self.cache is not None and ticket.key is not None and ticket.flight is None and self.is_valid(outcome):
            self.cache.put(ticket.key, outcome)

    def failed(self, ticket: CallTicket, error: Exception) -> None:
        """End a call that raised, or took too long; whoever waits for it gets the same failure."""
        if self.breaker is not None and ticket.breaker_token is not None:
            self.breaker.failed(ticket.breaker_token)
        if ticket.flight is not None:
            ticket.flight.set_failure(error)

    def cancelled(self, ticket: CallTicket) -> None:
        """End a call that nobody waits for any more, through no fault of its source; a follower makes it instead."""
        if self.breaker is not None and ticket.breaker_token is not None:
            self.breaker.cancelled(ticket.breaker_token)
        if ticket.flight is not None:
            ticket.flight.cancel()

    def timeout_fault(self) -> ValueFault:
        """Return the fault of a call that took too long."""
        return ValueFault("timeout", f"its acquirer gave no answer within {self.timeout_s:g} s")


@dataclass(frozen=True, slots=True, eq=False)
class _StoreInCache:
    """Takes a call that has ended out of the cache's list, and keeps its answer if it is one to keep."""

    cache: AcquirerCache
    key: Hashable
    is_valid: Callable[[Any], bool]

    def __call__(self, flight: Future[Any]) -> None:
        answered = not flight.cancelled() and flight.exception() is None
        value = flight.result() if answered and self.is_valid(flight.result()) else AcquirerCache.MISS
        self.cache.finish(self.key, flight, value)
