"""Observers: called with each finished `Decision`; they cannot change it, and cannot break it.

An `Observer` is anything that can be called with a decision. It may have further methods, each of them optional:

==================================  ======================================================================================
``on_bind(manifest)``               a cascade that will tell it is ready; again for every bundle that is loaded
``on_start(bundle, items)``         deciding starts, with the bundle of this id, for so many items: more than 1 in
                                    `Cascade.decide_many` alone. It may return a function: called in the same context when the
                                    observers were told of the end, with the exception that ended it or None
``on_call(call)``                   the function of an acquirer has ended: an `AcquirerCall`, told from the thread that ran it
``on_error(error, bundle)``         an item ended in an `AcquisitionError`, so that there is no decision of it
``on_reload(before, after)``        a `ReloadingCascade` has replaced its bundle: the two manifests; decisions of the old one may
                                    still be under way
``on_reload_failure(error, id)``    it could not, and the bundle of this id stays; at every look that fails
``on_observer_failure(error)``      an observer raised
==================================  ======================================================================================

Methods of other names that begin with ``on_`` are refused when a cascade is made: they would never be called.

One that raises is counted, and logged at most once a minute. Acquirers are timed only where an observer has ``on_call``; whoever
has none pays nothing. Supplied are `emsco_runtime.DecisionLogger`, `emsco_runtime.AuditWriter`, `emsco_runtime.DriftMonitor`,
`emsco_runtime.metrics.Metrics` and `emsco_runtime.drift_metrics.DriftGauges` (extra ``metrics``), and
`emsco_runtime.tracing.DecisionTracer` (extra ``otel``).

`Cascade.decide_many` tells when it ends, in the order of the items; if an item raises, of the decisions that were made before,
then of the error. `Cascade.decide_columns` makes no `Decision` and tells nobody, errors included: rows of a table that is
evaluated are no traffic.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.decision import Decision, FailureKind
from emsco_runtime.errors import AcquisitionError
from emsco_runtime.support.fork import fork_hooks
from emsco_runtime.support.formatting import format_value

__all__ = ["AcquirerCall", "CallOutcome", "Observer", "Observers", "find_hook_faults"]

# The further methods that an observer may have.
_HOOKS = ("on_bind", "on_call", "on_error", "on_observer_failure", "on_reload", "on_reload_failure", "on_start")

CallOutcome: TypeAlias = "Literal['ok', 'cancelled'] | FailureKind"

_log = logging.getLogger("emsco_runtime.observers")
_LOG_EVERY_S = 60.0


class Observer(Protocol):
    """What can be called with each finished decision: a function, or an object that may have the further methods listed above.

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
    >>> received = []
    >>> observers = Observers([received.append])
    >>> observers.notify("a decision")
    >>> received, observers.failures, observers.wants_calls
    (['a decision'], 0, False)
    """

    def __init__(self, observers: Sequence[Observer], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._observers = tuple(observers)
        self._on_bind = self._hooks("on_bind")
        self._on_call = self._hooks("on_call")
        self._on_error = self._hooks("on_error")
        self._on_failure = self._hooks("on_observer_failure")
        self._on_reload = self._hooks("on_reload")
        self._on_reload_failure = self._hooks("on_reload_failure")
        self._on_start = self._hooks("on_start")
        self._clock = clock
        self._failures = 0
        self._logged_at: dict[str, float] = {}
        self.reset_after_fork()
        fork_hooks.register(self)

    def reset_after_fork(self) -> None:
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
    def wants_calls(self) -> bool:
        """Return whether any of them is to be told of the calls of acquirers."""
        return bool(self._on_call)

    @property
    def wants_starts(self) -> bool:
        """Return whether any of them is to be told when deciding starts."""
        return bool(self._on_start)

    @contextlib.contextmanager
    def decision_context(self, bundle: str, items: int) -> Iterator[None]:
        """Tell that deciding starts, and call what the observers return for its end, the last one first."""
        end_hooks: list[Callable[..., object]] = []
        for hook in self._on_start:
            try:
                end = hook(bundle, items)
            except Exception as error:  # noqa: BLE001 - an observer never breaks a decision
                self._record_failure(hook, error)
            else:
                end_hooks += [end] if callable(end) else []
        exception: BaseException | None = None
        try:
            yield
        except BaseException as error:
            exception = error
            raise
        finally:
            for end in reversed(end_hooks):
                self._run_hooks([end], exception)

    def notify(self, decision: Decision) -> None:
        """Call every observer, whatever the others do."""
        for observer in self._observers:
            try:
                observer(decision)
            except Exception as error:  # noqa: BLE001 - an observer never breaks a decision
                self._record_failure(observer, error)

    def notify_call(self, call: AcquirerCall) -> None:
        """Tell of a call of an acquirer."""
        for hook in self._on_call:
            try:
                hook(call)
            except Exception as error:  # noqa: BLE001 - nor does it become a failed feature
                self._record_failure(hook, error)

    def notify_bind(self, manifest: Manifest) -> None:
        """Tell that a cascade with this bundle is ready."""
        self._run_hooks(self._on_bind, manifest)

    def notify_error(self, error: AcquisitionError, bundle: str) -> None:
        """Tell of an item that ended in an error."""
        self._run_hooks(self._on_error, error, bundle)

    def notify_reload(self, before: Manifest, after: Manifest) -> None:
        """Tell that the bundle was replaced."""
        self._run_hooks(self._on_reload, before, after)

    def notify_reload_failure(self, error: Exception, bundle: str) -> None:
        """Tell that the bundle could not be replaced."""
        self._run_hooks(self._on_reload_failure, error, bundle)

    def _hooks(self, name: str) -> tuple[Callable[..., object], ...]:
        found = [getattr(observer, name, None) for observer in self._observers]
        return tuple(hook for hook in found if callable(hook))

    def _run_hooks(self, hooks: Sequence[Callable[..., object]], *arguments: Any) -> None:
        for hook in hooks:
            try:
                hook(*arguments)
            except Exception as error:  # noqa: BLE001 - as above
                self._record_failure(hook, error)

    def _record_failure(self, observer: Callable[..., object], error: Exception) -> None:
        """Count a failure, hand it on, and log it unless one of the same observer was logged within a minute."""
        failures = [error]
        for hook in self._on_failure:
            try:
                hook(error)
            except Exception as another:  # noqa: BLE001 - counted, but not handed on again: that would have no end
                failures.append(another)
        name = _qualified_name(observer)
        with self._lock:
            self._failures += len(failures)
            now = self._clock()
            if now - self._logged_at.get(name, -_LOG_EVERY_S) < _LOG_EVERY_S:
                return
            self._logged_at[name] = now
            count = self._failures
        _log.error("observer %s raised (%d failures of observers so far)", name, count, exc_info=error)


def find_hook_faults(observer: object) -> list[str]:
    """Return what is wrong with an observer: it cannot be called, or has a method that looks like a hook and is none.

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
        close = difflib.get_close_matches(name, _HOOKS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        detail = f"Hooks are {', '.join(_HOOKS)}, and __call__ for decisions. Rename it, or begin its name with an underscore"
        faults.append(f"{owner.__qualname__}.{name} would never be called{hint} {detail}")
    if not callable(observer):
        faults.append(f"{format_value(observer)} cannot be called")
    return faults


def _unknown_hooks(observer: object) -> set[str]:
    known = {_normalize_name(hook) for hook in _HOOKS}
    candidates = {
        name for name in dir(observer) if name not in _HOOKS and (name.startswith("on_") or _normalize_name(name) in known)
    }
    # Looked up without running properties, which are code of the user's.
    found = {name: inspect.getattr_static(observer, name, None) for name in candidates}
    return {name for name, method in found.items() if callable(method) or isinstance(method, classmethod)}


def _normalize_name(name: str) -> str:
    """Return a name as it is compared: `onError` and `onerror` are meant as `on_error`."""
    return name.replace("_", "").casefold() if name.startswith("on") else name


def _qualified_name(observer: Callable[..., object]) -> str:
    # Not its repr, which is code of the user's that may raise.
    owner = observer if hasattr(observer, "__qualname__") else type(observer)
    return f"{owner.__module__}.{owner.__qualname__}"
