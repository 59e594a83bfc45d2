"""`make_done_event`: waiting in an event loop for what ends in another thread."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import Future
from typing import Any

__all__ = ["make_done_event"]


def make_done_event(call: Future[Any]) -> asyncio.Event:
    """Return an event of the running loop that is set when a call in another thread, or of another task, has ended.

    Not `asyncio.wrap_future`: it never ends if the call raised StopIteration, and logs errors that are not retrieved.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def notify(_: object) -> None:
        # In another thread; the loop may be closed by the time that an abandoned call ends, and then nobody waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)

    call.add_done_callback(notify)
    return ended
