"""`Guard`: what stands between the walk and an acquirer: its cache, its breaker, its time-out.

The same guard serves every way of calling: in this thread, in a pool, as a coroutine. A call begins with `open`, which may have
the answer already, and ends with one of `took`, `broke` or `left`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emsco_runtime._encoding import ValueFault
from emsco_runtime.cache import AcquirerCache

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from emsco_runtime.breaker import BreakerPhase, CircuitBreaker

__all__ = ["Cached", "Guard", "Opened"]


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
    """

    key: Hashable | None
    entered: BreakerPhase | None


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

    def open(self, item: Any) -> Opened | Cached:
        """Begin a call.

        Raises
        ------
        ValueFault
            If the breaker is open. What the cache's key function raises passes through: it is a failure like any other.
        """
        key: Hashable | None = None
        if self.cache is not None:
            key = self.cache.key(item)
            found = AcquirerCache.MISS if key is None else self.cache.get(key)
            if found is not AcquirerCache.MISS and self.sound(found):
                return Cached(found, self.cache.charge == "free")
        entered = None if self.breaker is None else self.breaker.enter()
        if self.breaker is not None and entered is None:
            raise ValueFault("breaker_open", "its source failed too often in a row and is left alone for a while")
        return Opened(key, entered)

    def took(self, opened: Opened, outcome: Any) -> None:
        """End a call that returned."""
        if self.breaker is not None and opened.entered is not None:
            self.breaker.succeeded(opened.entered)
        if self.cache is not None and opened.key is not None and self.sound(outcome):
            self.cache.put(opened.key, outcome)

    def broke(self, opened: Opened) -> None:
        """End a call that raised, or took too long."""
        if self.breaker is not None and opened.entered is not None:
            self.breaker.failed(opened.entered)

    def left(self, opened: Opened) -> None:
        """End a call that nobody waits for any more, through no fault of its source."""
        if self.breaker is not None and opened.entered is not None:
            self.breaker.left(opened.entered)

    def late(self) -> ValueFault:
        """Return the fault of a call that took too long."""
        return ValueFault("timeout", f"its acquirer gave no answer within {self.timeout_s:g} s")
