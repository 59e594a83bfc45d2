"""Timeouts of acquirers: waiting for a call in another thread or task, in a thread and in an event loop.

A timeout counts from the moment that the call began. As long as it waits for a thread of the pool, none of its time has passed.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from concurrent.futures import CancelledError
from typing import Literal

from emsco_runtime.sources.in_flight import InFlightCall
from emsco_runtime.sources.pool import PoolCall, released_slot

__all__ = ["wait_for_call", "wait_for_call_async"]


def wait_for_call(
    call: PoolCall | InFlightCall, timeout_s: float | None, deadline: float
) -> Literal["done", "timeout", "deadline"]:
    """Wait until a call has ended, or for its timeout or the deadline, and return which of them came first."""
    with released_slot():
        while not call.done():
            now = time.perf_counter()
            left = _time_left(call, timeout_s, now)
            if deadline - now <= 0:
                return "deadline"
            if left <= 0:
                return "timeout"
            # Waits, and does not raise what the call raised; then the loop reads the clock again.
            with contextlib.suppress(TimeoutError, CancelledError):
                call.exception(min(left, deadline - now, threading.TIMEOUT_MAX))
    return "done"


async def wait_for_call_async(call: PoolCall | InFlightCall, timeout_s: float | None) -> None:
    """Wait until a call has ended; `TimeoutError` if it takes longer than its timeout. A deadline cancels the task."""
    ended = call.add_event()
    try:
        with released_slot():
            while not call.done():
                left = _time_left(call, timeout_s, time.perf_counter())
                if left <= 0:
                    raise TimeoutError
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if left == math.inf else left):
                        await ended.wait()
    finally:
        call.remove_event(ended)


def _time_left(call: PoolCall | InFlightCall, timeout_s: float | None, now: float) -> float:
    if timeout_s is None:
        return math.inf
    return timeout_s if call.started is None else timeout_s - (now - call.started)
