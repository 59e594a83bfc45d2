"""Observers: called with each finished `Decision`; they cannot change it, and cannot break it.

An `Observer` is anything that can be called with a decision. It may have further methods, each of them optional:

==================================  ======================================================================================
``on_bind(manifest)``               a cascade with this observer is ready; again for every bundle that is loaded
``on_start(bundle, items)``         deciding starts, with the bundle of this id, for this many items: more than 1 only in
                                    `Cascade.decide_many`. It may return a function: called in the same context after the
                                    observers, with the exception that ended it or None
``on_call(call)``                   the function of an acquirer has ended: an `AcquirerCall`, in the thread that ran it
``on_error(error, bundle)``         an item ended in an `AcquisitionError`, so that there is no decision for it
``on_reload(before, after)``        a `ReloadingCascade` has replaced its bundle: the two manifests; decisions of the old one may
                                    still be running
``on_reload_failure(error, id)``    it could not, and keeps the bundle of this id; at every reload that fails
``on_observer_failure(error)``      an observer raised
==================================  ======================================================================================

Methods of other names that begin with ``on_`` raise an error when a cascade is created: they would never be called.

An observer that raises is counted, and logged at most once a minute. Acquirers are timed only if an observer has ``on_call``.
Supplied are `emsco_runtime.DecisionLogger`, `emsco_runtime.AuditWriter`, `emsco_runtime.DriftMonitor`,
`emsco_runtime.metrics.Metrics` and `emsco_runtime.drift_metrics.DriftGauges` (extra ``metrics``), and
`emsco_runtime.tracing.DecisionTracer` (extra ``otel``).

`Cascade.decide_many` notifies when it ends, in the order of the items; if an item raises, of the decisions that were made before,
then of the error. `Cascade.decide_columns` makes no `Decision` and notifies of nothing, not even errors: rows of a table that is
evaluated are not traffic.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from emsco_runtime.decision import Decision, FailureKind
from emsco_runtime.support.fork import ForkSafe
from emsco_runtime.support.formatting import format_value, suggest_name
from emsco_runtime.support.throttle import Throttle

__all__ = ["AcquirerCall", "CallOutcome", "Observer", "Observers", "find_hook_faults"]

# The optional methods of an observer.
_HOOKS = ("on_bind", "on_call", "on_error", "on_observer_failure", "on_reload", "on_reload_failure", "on_start")

CallOutcome: TypeAlias = "Literal['ok', 'cancelled'] | FailureKind"

_log = logging.getLogger("emsco_runtime.observers")
_LOG_EVERY_S = 60.0


class Observer(Protocol):
    """Something that is called with each finished decision: a function, or an object that may have the methods listed above.

    Examples
    --------
    >>> from emsco_runtime import Cascade
    >>> from emsco_runtime.testing import sample_bundle
    >>> received = []
    >>> _ = Cascade(sample_bundle(), observers=[received.append]).decide({"size": 2.0})
    >>> [decision.label for decision in received]
    ['spam']
    """

    def __call__(self, decision: Decision, /) -> object:
        """Observe a decision; what is returned is ignored."""


class AcquirerCall(NamedTuple):
    """One call of an acquirer's function, as the function saw it.

    What happens around the function is part of the decision instead: a value out of a cache, an open breaker, a timeout. A plain
    function that was abandoned keeps its thread, so its call is reported when it ends, with the time that it really took.

    Parameters
    ----------
    features
        What it obtains.
    elapsed_s
        Seconds from its start to its end; waiting for a thread is not included.
    outcome
        "ok" when it returned (its feature may still not allow the value), "exception" or another kind of failure when it raised,
        "cancelled" when it was stopped from outside: a timeout or deadline of async code, or the end of the process.
    items
        How many items it was called with; more than 1 only for batch acquirers.
    bundle
        The id of the bundle that was deciding.
    """

    features: tuple[str, ...]
    elapsed_s: float
    outcome: CallOutcome
    items: int
    bundle: str


class Observers(ForkSafe):
    """The observers of a cascade, called in this order.

    Examples
    --------
    >>> received = []
    >>> observers = Observers([received.append])
    >>> observers.notify("a decision")
    >>> received, observers.failures, observers.wants_calls
    (['a decision'], 0, False)
    """

    def __init__(self, observers: Sequence[Observer], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._observers = tuple(observers)
        self._hooks = {
            name: [hook for observer in observers if callable(hook := getattr(observer, name, None))] for name in _HOOKS
        }
        self._on_call = self._hooks["on_call"]
        # Whether any of them observes the calls of acquirers, and when deciding starts.
        self.wants_calls, self.wants_starts = bool(self._on_call), bool(self._hooks["on_start"])
        # How often an observer raised.
        self.failures = 0
        self._throttle = Throttle(clock)
        self._start()

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._observers)

    @contextlib.contextmanager
    def decision_context(self, bundle: str, items: int) -> Iterator[None]:
        """Notify that deciding starts, and call the functions that the observers return for its end, the last one first."""
        end_hooks: list[Callable[..., object]] = []
        for hook in self._hooks["on_start"]:
            end = self._call(hook, bundle, items)
            end_hooks += [end] if callable(end) else []
        exception: BaseException | None = None
        try:
            yield
        except BaseException as error:
            exception = error
            raise
        finally:
            for end in reversed(end_hooks):
                self._call(end, exception)

    def notify(self, decision: Decision) -> None:
        """Call every observer with a decision, even if others raise."""
        for observer in self._observers:
            self._call(observer, decision)

    def notify_call(self, call: AcquirerCall) -> None:
        """Notify of a call of an acquirer; as `_call` does, without its time, since some acquirers take less."""
        for hook in self._on_call:
            try:
                hook(call)
            except Exception as error:  # noqa: BLE001 - an observer does not fail a feature either
                self._record_failure(hook, error)

    def run_hooks(self, name: str, *arguments: object) -> None:
        """Call a hook that is not part of every decision, such as ``on_bind``, with the arguments that it has above."""
        for hook in self._hooks[name]:
            self._call(hook, *arguments)

    def _call(self, observer: Callable[..., object], *arguments: object) -> object:
        try:
            return observer(*arguments)
        except Exception as error:  # noqa: BLE001 - an observer never breaks a decision
            self._record_failure(observer, error)
            return None

    def _record_failure(self, observer: Callable[..., object], error: Exception) -> None:
        """Count a failure, notify of it, and log it unless one of the same observer was logged within a minute."""
        failures = [error]
        for hook in self._hooks["on_observer_failure"]:
            try:
                hook(error)
            except Exception as another:  # noqa: BLE001 - counted, but not notified of again: that would never end
                failures.append(another)
        name = _qualified_name(observer)
        with self._lock:
            self.failures += len(failures)
            count = self.failures
            if not self._throttle.allows(name, _LOG_EVERY_S):
                return
        _log.error("observer %s raised (%d failures of observers so far)", name, count, exc_info=error)


def find_hook_faults(observer: object) -> list[str]:
    """Return what is wrong with an observer: it is not callable, or has a method that looks like a hook but is not one.

    Examples
    --------
    >>> class Counter:
    ...     def __call__(self, decision): ...
    ...     def on_eror(self, error, bundle): ...
    >>> find_hook_faults(Counter())[0].split("?")[0]
    "Counter.on_eror would never be called; did you mean 'on_error'"
    """
    owner = observer if inspect.isclass(observer) else type(observer)
    faults = []
    for name in sorted(_unknown_hooks(observer)):
        hint = suggest_name(name, _HOOKS, ".")
        detail = f"Hooks are {', '.join(_HOOKS)}, and __call__ for decisions. Rename it, or begin its name with an underscore"
        faults.append(f"{owner.__qualname__}.{name} would never be called{hint} {detail}")
    if not callable(observer):
        faults.append(f"{format_value(observer)} cannot be called")
    return faults


def _unknown_hooks(observer: object) -> set[str]:
    known = {_normalize_name(hook) for hook in _HOOKS}
    names = {name for name in dir(observer) if name.startswith("on_") or _normalize_name(name) in known} - {*_HOOKS}
    # Looked up without running properties, which are the user's code.
    found = {name: inspect.getattr_static(observer, name, None) for name in names}
    return {name for name, method in found.items() if callable(method) or isinstance(method, classmethod)}


def _normalize_name(name: str) -> str:
    """Return a name in the form in which names are compared: `onError` and `onerror` are meant as `on_error`."""
    return name.replace("_", "").casefold() if name.startswith("on") else name


def _qualified_name(observer: Callable[..., object]) -> str:
    # Not its repr, which is the user's code and may raise.
    owner = observer if hasattr(observer, "__qualname__") else type(observer)
    return f"{owner.__module__}.{owner.__qualname__}"
