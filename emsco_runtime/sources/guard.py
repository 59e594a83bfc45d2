"""`Guard`: what protects an acquirer and its source: a cache, a circuit breaker, a timeout.

The same guard serves every way of calling: in this thread, in a pool, as a coroutine. A call starts with `begin`, which may have
the outcome already, or know of a call under way that will have it; otherwise it ends with `succeeded`, `failed` or `cancelled`.
The guard only holds the timeout: drivers wait for it (`driving.timeouts`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from emsco_runtime.bundle.encoding import ValueFault
from emsco_runtime.sources.breaker import BreakerPhase, CircuitBreaker
from emsco_runtime.sources.cache import AcquirerCache
from emsco_runtime.sources.in_flight import InFlightCall
from emsco_runtime.support.formatting import describe_error

__all__ = ["UNGUARDED", "CachedOutcome", "CallTicket", "Guard", "JoinedCall"]


@dataclass(frozen=True, slots=True)
class CachedOutcome:
    """What the acquirer returned for an earlier item; `free` if it is not billed again."""

    outcome: Any
    free: bool


@dataclass(slots=True, eq=False)
class CallTicket:
    """A call about to be made: the key to cache its value under, the breaker's token, and what others with this key wait for."""

    key: Hashable | None
    breaker_token: BreakerPhase | None
    flight: InFlightCall | None = None
    # Whether the breaker knows how it went: each call counts once, for the first that sees that it has ended.
    is_counted: bool = False


@dataclass(frozen=True, slots=True)
class JoinedCall:
    """A call for the same key that is already under way elsewhere, and the cache that it is registered in."""

    flight: InFlightCall
    cache: AcquirerCache


@dataclass(frozen=True, slots=True)
class Guard:
    """The cache, breaker and timeout of one acquirer, each optional."""

    cache: AcquirerCache | None
    breaker: CircuitBreaker | None
    timeout_s: float | None
    # Whether an outcome holds an allowed value for every feature taken from it. No other is cached, or used if another bundle
    # cached it, whose features may allow more.
    is_valid: Callable[[Any], bool]

    def begin(self, item: Any, *, never_wait: bool = False) -> CallTicket | CachedOutcome | JoinedCall:
        """Begin a call for an item; with `never_wait` it does not join a call that is under way.

        Raises `ValueFault` if the breaker is open, or the cache's key function fails.
        """
        key = None if self.cache is None else _find_key(self.cache, item)
        if self.cache is None or key is None:
            return CallTicket(key, self._enter_breaker())
        claim = self.cache.claim(key)
        while claim.flight is None and not self.is_valid(claim.value):
            claim = self.cache.claim(key, claim.value)
        if claim.flight is None:
            return CachedOutcome(claim.value, self.cache.charge == "free")
        if claim.is_leader:
            return self._begin_in_flight(self.cache, key, claim.flight)
        if never_wait or not claim.flight.try_join():
            return CallTicket(key, self._enter_breaker())
        return JoinedCall(claim.flight, self.cache)

    def _begin_in_flight(self, cache: AcquirerCache, key: Hashable, flight: InFlightCall) -> CallTicket:
        flight.add_done_callback(partial(self._store, cache, key))
        try:
            return CallTicket(key, self._enter_breaker(), flight)
        except BaseException as error:
            flight.set_failure(error)
            raise

    def _store(self, cache: AcquirerCache, key: Hashable, flight: Future[Any]) -> None:
        """Remove a call that has ended from those under way in the cache, and cache its answer if it is valid."""
        answered = not flight.cancelled() and flight.exception() is None
        value = flight.result() if answered and self.is_valid(flight.result()) else AcquirerCache.MISS
        cache.finish(key, flight, value)

    def _enter_breaker(self) -> BreakerPhase | None:
        if self.breaker is None:
            return None
        breaker_token = self.breaker.enter()
        if breaker_token is None:
            raise _breaker_fault()
        return breaker_token

    def check_breaker(self, ticket: CallTicket) -> None:
        """Raise `ValueFault` if the breaker has opened since the call was started."""
        if self.breaker is not None and ticket.breaker_token is not None and self.breaker.has_opened_since(ticket.breaker_token):
            raise _breaker_fault()

    def count_answer(self, ticket: CallTicket) -> None:
        """Tell the breaker that the source answered, in the thread of the call: others that wait for a thread must know."""
        if self.breaker is not None and ticket.breaker_token is not None and not ticket.is_counted:
            ticket.is_counted = True
            self.breaker.succeeded(ticket.breaker_token)

    def count_failure(self, ticket: CallTicket) -> None:
        """Tell the breaker that the source failed, as `count_answer`."""
        if self.breaker is not None and ticket.breaker_token is not None and not ticket.is_counted:
            ticket.is_counted = True
            self.breaker.failed(ticket.breaker_token)

    def read_joined(self, joined_call: JoinedCall) -> Any:
        """Return the outcome of a joined call that succeeded: a hit, unless it holds a value that is not allowed."""
        outcome = joined_call.flight.result()
        is_valid = self.is_valid(outcome)
        joined_call.cache.count_follower(hit=is_valid)
        return CachedOutcome(outcome, joined_call.cache.charge == "free") if is_valid else outcome

    def succeeded(self, ticket: CallTicket, outcome: Any) -> None:
        """End a call that returned."""
        self.count_answer(ticket)
        if self.cache is not None and ticket.key is not None and ticket.flight is None and self.is_valid(outcome):
            self.cache.put(ticket.key, outcome)

    def failed(self, ticket: CallTicket, error: Exception) -> None:
        """End a call that raised or took too long; those who joined it get the same failure."""
        self.count_failure(ticket)
        if ticket.flight is not None:
            ticket.flight.set_failure(error)

    def cancelled(self, ticket: CallTicket) -> None:
        """End a call that is not waited for any more, though its source did not fail; one of those who joined it takes over."""
        if self.breaker is not None and ticket.breaker_token is not None and not ticket.is_counted:
            ticket.is_counted = True
            self.breaker.cancelled(ticket.breaker_token)
        if ticket.flight is not None:
            ticket.flight.cancel()


# Without a cache the validity of an outcome is not asked for.
UNGUARDED = Guard(None, None, None, bool)


def _breaker_fault() -> ValueFault:
    return ValueFault("breaker_open", "its source failed too often in a row, and it is not called for a while")


def _find_key(cache: AcquirerCache, item: Any) -> Hashable | None:
    try:
        key = cache.key(item)
        hash(key)
    except Exception as error:
        raise ValueFault("exception", f"the key function of its cache raised {describe_error(error)}") from error
    return key
