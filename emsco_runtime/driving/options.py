"""What a cascade is made of: `CascadeOptions`, which `Cascade` documents and `ReloadingCascade` has too, and `CascadeState`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from emsco_runtime.acquirers import Acquirer, Acquirers, OnFailure
from emsco_runtime.bundle.reading import Bundle
from emsco_runtime.errors import BindError
from emsco_runtime.observing.observers import Observer, find_hook_faults
from emsco_runtime.observing.recording import Listener
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.support.arguments import is_count

__all__ = ["CascadeOptions", "CascadeState", "check_acquirers", "check_observers"]


class CascadeOptions(NamedTuple):
    """The options of a cascade; `on_failure` is checked with the acquirers that it is for."""

    on_failure: OnFailure
    pool: AcquirerPool | None
    concurrency: int
    observers: tuple[Observer, ...]
    listener: Listener | None

    def find_faults(self) -> list[str]:
        """Return what is wrong with them."""
        listener: object = self.listener
        faults = []
        if not isinstance(self.pool, AcquirerPool | None):
            faults.append(f"pool: expected an AcquirerPool, got {type(self.pool).__name__}")
        if not is_count(self.concurrency):
            faults.append(f"concurrency: expected a whole number of at least 1, got {self.concurrency!r}")
        faults += [f"observers: {fault}" for observer in self.observers for fault in find_hook_faults(observer)]
        if listener is not None and not callable(listener):
            faults.append(f"listener: {listener!r} is not callable")
        return faults


class CascadeState(NamedTuple):
    """All that another process needs to make the same cascade."""

    bundle: Bundle
    registered: tuple[Acquirer, ...] | None
    options: CascadeOptions
    # Features of the bundles that this one replaced: known values of them are allowed.
    earlier_names: frozenset[str] = frozenset()


def check_observers(observers: Iterable[Observer]) -> tuple[Observer, ...]:
    """Return observers as a tuple; raise `BindError` for a single one, or another object."""
    if not isinstance(observers, Iterable):
        raise BindError([f"observers: expected a list of observers, got {observers!r}. Put one into a list"])
    return tuple(observers)


def check_acquirers(acquirers: Acquirers) -> tuple[Acquirer, ...]:
    """Return what is registered; raise `BindError` for another object."""
    if not isinstance(acquirers, Acquirers):
        raise BindError([f"acquirers: expected an emsco_runtime.Acquirers, got {type(acquirers).__name__}"])
    return acquirers.entries
