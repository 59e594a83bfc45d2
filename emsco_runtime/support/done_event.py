"""`WaitableFuture`: a future that ends in another thread, for which event loops wait."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import Future
from functools import partial
from typing import Any

__all__ = ["WaitableFuture"]


class WaitableFuture(Future[Any]):
    """A call in another thread, or of another task; event loops that wait for it no longer leave nothing behind.

    Not `asyncio.wrap_future`: it never ends if the call raised StopIteration, logs errors that are not retrieved, and leaves a
    callback here for each wait, as `add_done_callback` does; of a call that hangs they would become more for ever.
    """

    def __init__(self) -> None:
        super().__init__()
        self._events: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._notifies_events = False

    def add_event(self) -> asyncio.Event:
        """Return an event of the running loop that is set when the call has ended."""
        ended = asyncio.Event()
        self._events[ended] = asyncio.get_running_loop()
        if not self._notifies_events:
            self._notifies_events = True
            # Nothing that refers to this object: it would keep its item alive until the garbage is collected.
            self.add_done_callback(partial(_set_events, self._events))
        if self.done():
            # It may have notified the others before this one was there.
            ended.set()
        return ended

    def remove_event(self, ended: asyncio.Event) -> None:
        """Forget an event that nobody waits for any more."""
        self._events.pop(ended, None)


def _set_events(events: dict[asyncio.Event, asyncio.AbstractEventLoop], _: object) -> None:
    # A copy, in one step: others come and go meanwhile.
    for ended, loop in events.copy().items():
        # In another thread; the loop may be closed by the time that an abandoned call ends, and then nobody waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)
