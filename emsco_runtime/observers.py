"""Observers: called with each finished `Decision`; they cannot change it, and cannot break it.

An `Observer` is anything that can be called with a decision. It may have further methods, each of them optional:

==================================  ======================================================================================
``on_bind(manifest)``               a cascade that will tell it is ready; again for every bundle that is loaded
``on_call(call)``                   the function of an acquirer has ended: an `AcquirerCall`, told from the thread that ran it
``on_error(error, bundle)``         an item ended in an `AcquisitionError`, so that there is no decision of it
``on_observer_failure(error)``      an observer raised
==================================  ======================================================================================

One that raises is counted, and logged at most once a minute. Acquirers are timed only where an observer has ``on_call``; whoever
has none pays nothing. Supplied are `emsco_runtime.DecisionLogger`, `emsco_runtime.AuditWriter`, `emsco_runtime.DriftMonitor`,
`emsco_runtime.metrics.Metrics` and `emsco_runtime.drift_metrics.DriftGauges` (extra ``metrics``), and
`emsco_runtime.tracing.DecisionTracer` (extra ``otel``).

`Cascade.decide_many` tells when it ends, in the order of the items; if an item raises, of the decisions that were made before,
then of the error. `Cascade.decide_columns` makes no `Decision` and tells nobody, errors included: rows of a table that is
evaluated are no traffic.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from emsco_runtime._process import forks

if TYPE_CHECKING:
    from emsco_runtime.decision import Decision, FailureKind
    from emsco_runtime.errors import AcquisitionError
    from emsco_runtime.manifest import Manifest

__all__ = ["AcquirerCall", "CallOutcome", "Observer", "Observers"]

CallOutcome: TypeAlias = "Literal['ok', 'cancelled'] | FailureKind"

_log = logging.getLogger("emsco_runtime.observers")
_LOG_EVERY_S = 60.0


class Observer(Protocol):
    """What can be called with each finished decision: a function, or an object that may have the further methods listed above.

    Examples
    --------
    >>> from emsco_runtime import Cascade
    >>> from emsco_runtime.testing import sample_bundle
    >>> told = []
    >>> _ = Cascade(sample_bundle(), observers=[told.append]).decide({"size": 2.0})
    >>> [decision.label for decision in told]
    ['spam']
    """

    def __call__(self, decision: Decision, /) -> object:
        """Take note of a decision; what is returned is ignored."""


class AcquirerCall(NamedTuple):
    """One call of an acquirer's function, as the function saw it.

    What happens around the function is not in here but in the decision: a value out of a cache, an open breaker, a time-out. A
    plain function that was given up keeps its thread, so its call is told when it ends, with the time that it really took.

    Parameters
    ----------
    features
        What it obtains.
    elapsed_s
        Seconds from its beginning to its end; waiting for a thread is not in them.
    outcome
        "ok" when it returned (the value may still be none that its feature allows), "exception" or another kind of failure when
        it raised, "cancelled" when it was stopped from outside: a time-out or deadline of async code, or the end of the process.
    items
        How many items it was called with; more than 1 only for batch acquirers.
    bundle
        The id of the bundle that asked.
    """

    features: tuple[str, ...]
    elapsed_s: float
    outcome: CallOutcome
    items: int
    bundle: str


class Observers:
    """The observers of a cascade.

    Parameters
    ----------
    observers
        In the order in which they are called.
    clock
        Tells seconds.

    Examples
    --------
    >>> told = []
    >>> observers = Observers([told.append])
    >>> observers.tell("a decision")
    >>> told, observers.failures, observers.want_calls
    (['a decision'], 0, False)
    """

    def __init__(self, observers: Sequence[Observer], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._observers = tuple(observers)
        self._on_bind = self._hooks("on_bind")
        self._on_call = self._hooks("on_call")
        self._on_error = self._hooks("on_error")
        self._on_failure = self._hooks("on_observer_failure")
        self._clock = clock
        self._failures = 0
        self._logged_at: dict[str, float] = {}
        self.begin_anew()
        forks.watch(self)

    def begin_anew(self) -> None:
        """Make a lock of this process's own."""
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._observers)

    @property
    def failures(self) -> int:
        """Return how often an observer raised."""
        return self._failures

    @property
    def want_calls(self) -> bool:
        """Return whether any of them is to be told of the calls of acquirers."""
        return bool(self._on_call)

    def tell(self, decision: Decision) -> None:
        """Call every observer, whatever the others do."""
        for observer in self._observers:
            try:
                observer(decision)
            except Exception as error:  # noqa: BLE001 - an observer never breaks a decision
                self._note(observer, error)

    def tell_call(self, call: AcquirerCall) -> None:
        """Tell of a call of an acquirer."""
        for hook in self._on_call:
            try:
                hook(call)
            except Exception as error:  # noqa: BLE001 - nor does it become a failed feature
                self._note(hook, error)

    def tell_bind(self, manifest: Manifest) -> None:
        """Tell that a cascade with this bundle is ready."""
        self._tell_hooks(self._on_bind, manifest)

    def tell_error(self, error: AcquisitionError, bundle: str) -> None:
        """Tell of an item that ended in an error."""
        self._tell_hooks(self._on_error, error, bundle)

    def _hooks(self, name: str) -> tuple[Callable[..., object], ...]:
        found = [getattr(observer, name, None) for observer in self._observers]
        return tuple(hook for hook in found if callable(hook))

    def _tell_hooks(self, hooks: Sequence[Callable[..., object]], *told: Any) -> None:
        for hook in hooks:
            try:
                hook(*told)
            except Exception as error:  # noqa: BLE001 - as above
                self._note(hook, error)

    def _note(self, observer: Callable[..., object], error: Exception) -> None:
        """Count a failure, hand it on, and log it unless one of the same observer was logged within a minute."""
        failures = [error]
        for hook in self._on_failure:
            try:
                hook(error)
            except Exception as another:  # noqa: BLE001 - counted, but not handed on again: that would have no end
                failures.append(another)
        name = _name(observer)
        with self._lock:
            self._failures += len(failures)
            now = self._clock()
            if now - self._logged_at.get(name, -_LOG_EVERY_S) < _LOG_EVERY_S:
                return
            self._logged_at[name] = now
            count = self._failures
        _log.error("observer %s raised (%d failures of observers so far)", name, count, exc_info=error)


def _name(observer: Callable[..., object]) -> str:
    # Not its repr, which is code of the user's that may raise.
    named = observer if hasattr(observer, "__qualname__") else type(observer)
    return f"{named.__module__}.{named.__qualname__}"
