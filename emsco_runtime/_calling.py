"""One call of an acquirer in the calling thread, through its guard."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from emsco_runtime._batch import plain
from emsco_runtime._encoding import ValueFault
from emsco_runtime._guard import Cached, Guard, Joined, Opened
from emsco_runtime._walk import NOT_DONE, Failed
from emsco_runtime.pool import place_free

if TYPE_CHECKING:
    from emsco_runtime._plan import Call
    from emsco_runtime.pool import PoolFull

__all__ = ["UNGUARDED", "call_here", "call_opened", "landed", "open_call", "open_to_wait", "refused", "to_run"]

# Without a cache nobody asks whether an outcome is sound.
UNGUARDED = Guard(None, None, None, bool)


def open_call(call: Call, item: Any, *, alone: bool = False) -> Opened | Cached | Joined | Failed:
    """Begin a call through its guard: it may be made, somebody else makes it already, or its outcome is here."""
    try:
        return (call.guard or UNGUARDED).open(item, alone=alone)
    except Exception as error:  # noqa: BLE001 - a failure like any other
        return Failed(error)


def open_to_wait(call: Call, item: Any) -> Opened | Cached | Joined | Failed:
    """Begin a call whose caller holds its thread while it waits.

    In the thread of an event loop it never waits for the call of another: that one may need the loop to end.
    """
    opened = open_call(call, item)
    return open_call(call, item, alone=True) if isinstance(opened, Joined) and _in_event_loop() else opened


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def landed(call: Call, joined: Joined) -> Any:
    """Return what a call that somebody else made came to; `NOT_DONE` if it was given up, so that it is to be made again."""
    if joined.flight.cancelled():
        return NOT_DONE
    error = joined.flight.exception()
    return Failed(error) if isinstance(error, Exception) else (call.guard or UNGUARDED).shared(joined)


def refused(call: Call, opened: Opened, error: PoolFull) -> Failed:
    """End a call that was begun and that the pool does not take."""
    (call.guard or UNGUARDED).left(opened)
    return Failed(ValueFault("refused", f"the pool takes no more calls: {error}"))


def to_run(call: Call, opened: Opened) -> Callable[[Any], Any]:
    """Return the function of a plain call that was begun: it tells whoever waits for the same key how it ended."""
    function, flight = call.function, opened.flight

    def run(item: Any) -> Any:
        return plain(function(item))

    return run if flight is None else lambda item: flight.run(run, item)


def call_here(call: Call, item: Any) -> Any:
    """Return the outcome: what the acquirer or its cache gave, or `Failed`."""
    opened = open_to_wait(call, item)
    while isinstance(opened, Joined):
        with place_free(), contextlib.suppress(CancelledError):
            opened.flight.exception()
        outcome = landed(call, opened)
        if outcome is not NOT_DONE:
            return outcome
        opened = open_to_wait(call, item)
    return call_opened(call, opened, item) if isinstance(opened, Opened) else opened


def call_opened(call: Call, opened: Opened, item: Any) -> Any:
    """Make a call that was begun, and note how it ended."""
    guard = call.guard or UNGUARDED
    try:
        outcome = to_run(call, opened)(item)
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
        guard.broke(opened, error)
        return Failed(error)
    except BaseException:
        guard.left(opened)
        raise
    guard.took(opened, outcome)
    return outcome
