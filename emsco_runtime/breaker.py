"""`CircuitBreaker`: a source that keeps failing is left alone for a while.

Closed, calls go through. After so many failures in a row it opens: calls fail at once, with the kind "breaker_open", and the
source is not asked. After a pause it is half-open: one call goes through as a probe. If that succeeds the breaker closes, if it
fails another pause begins. Exceptions and time-outs count as failures; a value that a feature does not allow does not, since the
source has answered. Calls that were under way when it opened do not make the pause longer; one of them that succeeds closes it.

A breaker belongs to its acquirer and lives as long as the registry, across reloads of a bundle. Each process has its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal, TypeAlias

from emsco_runtime._arguments import check_count, check_seconds
from emsco_runtime._process import forks

__all__ = ["BreakerState", "CircuitBreaker"]

BreakerState: TypeAlias = Literal["closed", "open", "half-open"]


class CircuitBreaker:
    """Guards one source; thread-safe.

    Parameters
    ----------
    failures
        Failures in a row that open it.
    pause_s
        Seconds that it stays open before a probe.
    clock
        Tells seconds.

    Examples
    --------
    >>> now = 0.0
    >>> breaker = CircuitBreaker(failures=2, pause_s=10.0, clock=lambda: now)
    >>> for _ in range(2):
    ...     if breaker.enter():
    ...         breaker.failed()
    >>> breaker.state, breaker.enter()
    ('open', False)
    >>> now = 10.0
    >>> breaker.enter(), breaker.enter()                 # one probe, and no second one meanwhile
    (True, False)
    >>> breaker.succeeded()
    >>> breaker.state
    'closed'
    """

    def __init__(self, *, failures: int = 5, pause_s: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        check_count("failures", failures)
        check_seconds("pause_s", pause_s)
        self._settings = (failures, float(pause_s), clock)
        self.begin_anew()
        forks.watch(self)

    def begin_anew(self) -> None:
        """Begin closed: each process finds out by itself."""
        self._most, self._pause_s, self._clock = self._settings
        self._lock = threading.Lock()
        self._in_a_row = 0
        self._opened_at: float | None = None
        self._probing = False

    def __getstate__(self) -> tuple[int, float, Callable[[], float]]:
        """Return the settings: another process finds out by itself."""
        return self._settings

    def __setstate__(self, settings: tuple[int, float, Callable[[], float]]) -> None:
        """Begin closed."""
        self._settings = settings
        self.begin_anew()
        forks.watch(self)

    @property
    def state(self) -> BreakerState:
        """Return what the next call would meet."""
        with self._lock:
            if self._opened_at is None:
                return "closed"
            return "half-open" if self._clock() - self._opened_at >= self._pause_s else "open"

    def enter(self) -> bool:
        """Return whether a call may go through; one that may must end in `succeeded`, `failed` or `left`."""
        # Read without the lock: a closed breaker is the common case, and a call that slips through as it opens does no harm.
        if self._opened_at is None:
            return True
        with self._lock:
            if self._opened_at is None:
                return True
            if self._probing or self._clock() - self._opened_at < self._pause_s:
                return False
            self._probing = True
            return True

    def succeeded(self) -> None:
        """Note that the source answered."""
        if self._in_a_row == 0 and self._opened_at is None:
            return
        with self._lock:
            self._in_a_row = 0
            self._opened_at = None
            self._probing = False

    def failed(self) -> None:
        """Note that the source raised, or did not answer in time."""
        with self._lock:
            self._in_a_row += 1
            if self._probing or (self._opened_at is None and self._in_a_row >= self._most):
                self._opened_at = self._clock()
                self._probing = False

    def left(self) -> None:
        """Note that a call was given up for reasons of the caller's own: it tells nothing about the source."""
        with self._lock:
            self._probing = False
