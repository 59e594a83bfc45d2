"""`CircuitBreaker`: a source that keeps failing is not called for a while.

Closed, calls go through. After `failures` failures in a row it opens: calls fail at once, with the kind "breaker_open", and the
source is not called. After a pause it is half-open: one call goes through as a probe. If that succeeds the breaker closes, if it
fails another pause starts. Exceptions and timeouts count as failures, and so does the answer of a batch acquirer that does not
fit the items (wrong length, not a sequence); a value that a feature does not allow does not, since the source has answered.

A call belongs to the phase in which it was started, and only counts while that phase lasts. So a call that was running when the
breaker opened neither closes it, nor makes the pause longer, nor lets a second probe through: the probe alone decides. Give the
acquirer a timeout as well: while a probe hangs, no other goes through for the length of another pause. After that the probe
counts as lost (it hangs, or its thread was killed) and another one goes through; the first of them to end decides.

A breaker belongs to its acquirer and lives as long as the registry, across reloads of a bundle. Each process has its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from emsco_runtime.support.arguments import check_count, check_seconds
from emsco_runtime.support.fork import PickledBySettings

__all__ = ["BreakerPhase", "BreakerState", "CircuitBreaker"]

BreakerState: TypeAlias = Literal["closed", "open", "half-open"]


@dataclass(slots=True, eq=False)
class BreakerPhase:
    """The state of a breaker from one change to the next; the phase in which a call was started is the token of that call."""

    # None while it is closed.
    opened_at: float | None = None
    # Probes that are running (more than one only if the others seem to be lost), and when the latest was started.
    probes: int = 0
    probed_at: float = 0.0
    consecutive_failures: int = 0


class CircuitBreaker(PickledBySettings[tuple[int, float, Callable[[], float]]]):
    """Guards one source; thread-safe.

    Parameters
    ----------
    failures
        Failures in a row that open it.
    pause_s
        Seconds that it stays open before a probe.
    clock
        Returns seconds.

    Examples
    --------
    >>> now = 0.0
    >>> breaker = CircuitBreaker(failures=2, pause_s=10.0, clock=lambda: now)
    >>> for _ in range(2):
    ...     token = breaker.enter()
    ...     breaker.failed(token)
    >>> breaker.state, breaker.enter()
    ('open', None)
    >>> now = 10.0
    >>> probe = breaker.enter()
    >>> breaker.enter()                                  # no second probe meanwhile
    >>> breaker.succeeded(probe)
    >>> breaker.state
    'closed'
    """

    def __init__(self, *, failures: int = 5, pause_s: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        check_count("failures", failures)
        check_seconds("pause_s", pause_s)
        self._settings = (failures, float(pause_s), clock)
        self._start()

    def reset_after_fork(self) -> None:
        """Start over closed: each process finds out by itself."""
        super().reset_after_fork()
        self._max_failures, self._pause_s, self._clock = self._settings
        self._phase = BreakerPhase()

    @property
    def state(self) -> BreakerState:
        """Return what the next call would meet; "half-open" also while a probe is running and no other call goes through."""
        opened_at = self._phase.opened_at
        if opened_at is None:
            return "closed"
        return "half-open" if self._clock() - opened_at >= self._pause_s else "open"

    def enter(self) -> BreakerPhase | None:
        """Return the token of a call that may go through, to be passed to one of the three methods below; None: it may not."""
        # Read without the lock: a closed breaker is the common case, and one call more as it opens does no harm.
        phase = self._phase
        if phase.opened_at is None:
            return phase
        with self._lock:
            phase = self._phase
            if phase.opened_at is None:
                return phase
            now = self._clock()
            since = phase.probed_at if phase.probes else phase.opened_at
            if now - since < self._pause_s:
                return None
            phase.probes += 1
            phase.probed_at = now
            return phase

    def has_opened_since(self, token: BreakerPhase) -> bool:
        """Return whether it is not closed, and was opened after a call with this token was let through."""
        phase = self._phase
        return phase is not token and phase.opened_at is not None

    def succeeded(self, token: BreakerPhase) -> None:
        """Note that the source answered; a token of an earlier phase is ignored, here and below."""
        if token.consecutive_failures == 0 and not token.probes:
            return
        with self._lock:
            token.consecutive_failures = 0
            if token is self._phase and token.probes:
                self._phase = BreakerPhase()

    def failed(self, token: BreakerPhase) -> None:
        """Note that the source raised, or did not answer in time."""
        with self._lock:
            if token is not self._phase:
                return
            token.consecutive_failures += 1
            if token.probes or token.consecutive_failures >= self._max_failures:
                self._phase = BreakerPhase(self._clock())

    def cancelled(self, token: BreakerPhase) -> None:
        """Note that the caller cancelled the call, which says nothing about the source."""
        with self._lock:
            if token is self._phase and token.probes:
                # The pause is over already, so that the next call is the probe.
                token.probes -= 1

    left = cancelled  # the public name
