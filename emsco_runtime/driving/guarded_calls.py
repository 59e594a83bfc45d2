"""One call of an acquirer in the calling thread, through its guard."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from emsco_runtime.bundle.encoding import ValueFault
from emsco_runtime.engine.outcomes import reject_coroutine
from emsco_runtime.engine.walk import NOT_DONE, Failed
from emsco_runtime.sources.guard import CachedOutcome, CallTicket, Guard, JoinedCall
from emsco_runtime.sources.pool import released_slot

if TYPE_CHECKING:
    from emsco_runtime.engine.plan import Call
    from emsco_runtime.sources.pool import PoolFull

__all__ = [
    "UNGUARDED",
    "begin_blocking_call",
    "begin_call",
    "call_in_thread",
    "joined_outcome",
    "make_runner",
    "refuse",
    "run_call",
]

# Without a cache nobody asks whether an outcome is sound.
UNGUARDED = Guard(None, None, None, bool)


def begin_call(call: Call, item: Any, *, never_wait: bool = False) -> CallTicket | CachedOutcome | JoinedCall | Failed:
    """Begin a call through its guard: it may be made, somebody else makes it already, or its outcome is here."""
    try:
        return (call.guard or UNGUARDED).begin(item, never_wait=never_wait)
    except Exception as error:  # noqa: BLE001 - a failure like any other
        return Failed(error)


def begin_blocking_call(call: Call, item: Any) -> CallTicket | CachedOutcome | JoinedCall | Failed:
    """Begin a call whose caller holds its thread while it waits.

    In the thread of an event loop it never waits for the call of another: that one may need the loop to end.
    """
    ticket = begin_call(call, item)
    return begin_call(call, item, never_wait=True) if isinstance(ticket, JoinedCall) and _in_event_loop() else ticket


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def joined_outcome(call: Call, joined_call: JoinedCall) -> Any:
    """Return what a call that somebody else made came to; `NOT_DONE` if it was given up, so that it is to be made again."""
    if joined_call.flight.cancelled():
        return NOT_DONE
    error = joined_call.flight.exception()
    return Failed(error) if isinstance(error, Exception) else (call.guard or UNGUARDED).read_joined(joined_call)


def refuse(call: Call, ticket: CallTicket, error: PoolFull) -> Failed:
    """End a call that was begun and that the pool does not take."""
    (call.guard or UNGUARDED).cancelled(ticket)
    return Failed(ValueFault("refused", f"the pool takes no more calls: {error}"))


def make_runner(call: Call, ticket: CallTicket) -> Callable[[Any], Any]:
    """Return the function of a plain call that was begun: it tells whoever waits for the same key how it ended."""
    function, flight = call.function, ticket.flight

    def run(item: Any) -> Any:
        return reject_coroutine(function(item))

    return run if flight is None else lambda item: flight.run(run, item)


def call_in_thread(call: Call, item: Any) -> Any:
    """Return the outcome: what the acquirer or its cache gave, or `Failed`."""
    ticket = begin_blocking_call(call, item)
    while isinstance(ticket, JoinedCall):
        with released_slot(), contextlib.suppress(CancelledError):
            ticket.flight.exception()
        outcome = joined_outcome(call, ticket)
        if outcome is not NOT_DONE:
            return outcome
        ticket = begin_blocking_call(call, item)
    return run_call(call, ticket, item) if isinstance(ticket, CallTicket) else ticket


def run_call(call: Call, ticket: CallTicket, item: Any) -> Any:
    """Make a call that was begun, and note how it ended."""
    guard = call.guard or UNGUARDED
    try:
        outcome = make_runner(call, ticket)(item)
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
        guard.failed(ticket, error)
        return Failed(error)
    except BaseException:
        guard.cancelled(ticket)
        raise
    guard.succeeded(ticket, outcome)
    return outcome
