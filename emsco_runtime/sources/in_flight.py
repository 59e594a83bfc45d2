"""`InFlightCall`: one call under way for everybody who wants its answer ("single flight").

The first who wants the value of a key leads: it makes the call. Those who come before the call has ended follow: they wait and
get what it got, the answer or the failure. If the leader gives up for reasons of its own (it was cancelled, its deadline came,
its pool was full), one of the followers leads in its place.
"""

from __future__ import annotations

import contextlib
import contextvars
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any

__all__ = ["InFlightCall"]


class InFlightCall(Future[Any]):
    """One call, as a future: its result, its exception, or cancelled if its leader gave it up. The first end counts.

    It ends as the call does, in whatever thread that runs: followers do not wait until the leader looks at its outcome.
    """

    def __init__(self) -> None:
        super().__init__()
        # When the call began, by `time.perf_counter`.
        self.started: float | None = None

    @property
    def encloses_caller(self) -> bool:
        """Whether the code that asks runs inside this very call: to wait for it would be to wait for ever."""
        return self in _enclosing.get()

    @property
    def can_be_joined(self) -> bool:
        """Whether somebody who comes now may wait for it: it is under way, or was answered this moment."""
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
        """End it with a failure; an interrupt or a cancellation is none: the call is given up."""
        if not isinstance(error, Exception):
            self.cancel()
            return
        with contextlib.suppress(InvalidStateError):
            self.set_exception(error)


# The flights inside whose calls some code runs; a context variable, so that threads of a pool and tasks know them too.
_enclosing: contextvars.ContextVar[tuple[InFlightCall, ...]] = contextvars.ContextVar("emsco_flights_around", default=())
