"""Observers: called with each finished `Decision`; they cannot change it, and cannot break it.

An observer is anything that can be called with a decision. One that raises is counted, and logged at most once a minute.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from emsco_runtime.decision import Decision

__all__ = ["Observer", "Observers"]

Observer: TypeAlias = "Callable[[Decision], object]"

_log = logging.getLogger("emsco_runtime.observers")
_LOG_EVERY_S = 60.0


class Observers:
    """The observers of a cascade.

    Parameters
    ----------
    observers
        In the order in which they are called.
    clock
        Tells seconds.
    """

    def __init__(self, observers: Sequence[Observer], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._observers = tuple(observers)
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._logged_at: float | None = None

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._observers)

    @property
    def failures(self) -> int:
        """Return how often an observer raised."""
        return self._failures

    def tell(self, decision: Decision) -> None:
        """Call every observer, whatever the others do."""
        for observer in self._observers:
            try:
                observer(decision)
            except Exception as error:  # noqa: BLE001 - an observer never breaks a decision
                self._note(observer, error)

    def _note(self, observer: Observer, error: Exception) -> None:
        with self._lock:
            self._failures += 1
            now = self._clock()
            if self._logged_at is not None and now - self._logged_at < _LOG_EVERY_S:
                return
            self._logged_at = now
            count = self._failures
        _log.error("observer %r raised (%d failures of observers so far)", observer, count, exc_info=error)
