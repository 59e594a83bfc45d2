"""Waiting in tests: for a condition, and for threads to end; and sources that hang until they are let go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any


def wait_until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Wait until a condition holds; it is a failure, and no slow machine, if that takes a minute."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"waited {seconds} s in vain: {what}"
        time.sleep(0.002)


def our_threads() -> list[threading.Thread]:
    """Return the threads that the runtime has started and that still run."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("emsco-")]


class HangingSource:
    """A plain source that hangs until it is let go."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = value
        self.release_event = threading.Event()
        self.entered = 0
        self.ended = 0

    def __call__(self, item: Any) -> float:
        """Hang, then return the value."""
        self.entered += 1
        assert self.release_event.wait(60)
        self.ended += 1
        return self.value
