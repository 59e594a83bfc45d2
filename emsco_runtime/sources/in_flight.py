"""`InFlightCall`: one running call for all items that need its answer ("single flight").

The first item that needs the value of a key is the leader: it makes the call. Items that need it before the call has ended are
followers: they wait for its answer or its failure. If the leader cancels the call (it was cancelled itself, its deadline passed,
its pool was full), one of the followers leads in its place.

A call may decide inside itself, and so be a follower of other calls. It does not join one that waits for it, directly or through
others: both would wait for ever.
"""

from __future__ import annotations

import contextlib
import contextvars
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import InvalidStateError
from typing import Any

from emsco_runtime.support.done_event import WaitableFuture
from emsco_runtime.support.fork import ForkSafe

__all__ = ["InFlightCall"]


class InFlightCall(WaitableFuture):
    """One call, as a future: its result, its exception, or cancelled by its leader. The first end counts.

    It ends when the call does, in whatever thread that runs: followers do not wait until the leader reads its outcome.
    """

    def __init__(self) -> None:
        super().__init__()
        # When the call started, by `time.perf_counter`.
        self.started: float | None = None
        # Calls that code inside this one waits for, or has waited for.
        self.joined: tuple[InFlightCall, ...] = ()

    def try_join(self) -> bool:
        """Note that the calls inside which the calling code runs wait for this one; False if that would be a deadlock."""
        enclosing = _enclosing.get()
        return not enclosing or _joins.add(enclosing, self)

    @property
    def can_be_joined(self) -> bool:
        """Whether another item may wait for it: it is running, or was just answered."""
        return not self.done() or (not self.cancelled() and self.exception() is None)

    def run(self, function: Callable[[Any], Any], item: Any) -> Any:
        """Make the call."""
        token = self._start()
        try:
            outcome = function(item)
        except BaseException as error:
            self.set_failure(error)
            raise
        finally:
            _enclosing.reset(token)
        self.set_answer(outcome)
        return outcome

    async def run_async(self, function: Callable[[Any], Awaitable[Any]], item: Any) -> Any:
        """Make the call of a coroutine function, in a task of its own."""
        self._start()
        try:
            outcome = await function(item)
        except BaseException as error:
            self.set_failure(error)
            raise
        self.set_answer(outcome)
        return outcome

    def _start(self) -> contextvars.Token[tuple[InFlightCall, ...]]:
        self.started = time.perf_counter()
        return _enclosing.set((*_enclosing.get(), self))

    def set_answer(self, outcome: Any) -> None:
        """End it with an answer."""
        with contextlib.suppress(InvalidStateError):
            self.set_result(outcome)

    def set_failure(self, error: BaseException) -> None:
        """End it with a failure; after an interrupt or a cancellation it is cancelled instead."""
        if not isinstance(error, Exception):
            self.cancel()
            return
        with contextlib.suppress(InvalidStateError):
            self.set_exception(error)


class _Joins(ForkSafe):
    """Decides for one caller after the other, so that of two calls that want to wait for each other only one does."""

    def __init__(self) -> None:
        self._start()

    def add(self, enclosing: tuple[InFlightCall, ...], flight: InFlightCall) -> bool:
        """Note that all enclosing calls wait for this one, unless it waits for one of them; return whether they do."""
        with self._lock:
            if _reaches(flight, enclosing):
                return False
            for call in enclosing:
                call.joined = (*(one for one in call.joined if not one.done()), flight)
            return True


def _reaches(start: InFlightCall, targets: tuple[InFlightCall, ...]) -> bool:
    """Return whether a call is one of these, or waits for one of them."""
    pending, seen = [start], set[InFlightCall]()
    while pending:
        flight = pending.pop()
        if flight in targets:
            return True
        if flight not in seen and not flight.done():
            seen.add(flight)
            pending += flight.joined
    return False


_joins = _Joins()
# The calls inside which some code runs; a context variable, so that threads of a pool and tasks know them too.
_enclosing: contextvars.ContextVar[tuple[InFlightCall, ...]] = contextvars.ContextVar("emsco_flights_around", default=())
