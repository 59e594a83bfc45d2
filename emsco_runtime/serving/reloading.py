"""`ReloadingCascade`: a cascade that takes up a new bundle without a pause.

The new bundle is read, audited, bound and replayed aside, then put in the place of the old one at once. A call takes the cascade
that is in service when it begins and keeps it to its end: no decision mixes two bundles, and the old one goes when its last call
has ended. A bundle that cannot be loaded, for whatever reason, leaves the old one in service and is reported.

Acquirers, their breakers and caches, threads and observers stay what they are. Observers are told of each change and of each
failure (`on_reload`, `on_reload_failure`): a `DriftMonitor` follows the new bundle.

Known values are taken of every feature that the acquirers or one of the bundles so far have, since a caller cannot know which
bundle is in service; those that it has no use for are ignored. A name that none of them has is an error.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from emsco_runtime.acquirers import Acquirers, OnFailure
from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.bundle.reading import MANIFEST_FILE, read_bundle, read_manifest
from emsco_runtime.cascade import Cascade
from emsco_runtime.decider import Decider
from emsco_runtime.decision import Decision
from emsco_runtime.driving.columns import ColumnDecisions
from emsco_runtime.driving.options import CascadeOptions
from emsco_runtime.errors import ClosedError, InputError
from emsco_runtime.observing.observers import Observer
from emsco_runtime.observing.recording import Listener
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.support.arguments import check_seconds
from emsco_runtime.support.fork import fork_hooks

__all__ = ["OnReload", "Reload", "ReloadOutcome", "ReloadingCascade"]

ReloadOutcome: TypeAlias = Literal["changed", "unchanged", "failed"]

_log = logging.getLogger("emsco_runtime.reload")
_REPORT_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Reload:
    """One look at the bundle's folder.

    Parameters
    ----------
    outcome
        "changed" (a new bundle is in service), "unchanged", or "failed" (what is in the folder cannot be used).
    before, after
        Ids of the bundles in service before and after it; the same unless it is "changed".
    when
        The time at which it ended, in UTC.
    error
        Why it failed; None when it did not.
    """

    outcome: ReloadOutcome
    before: str
    after: str
    when: datetime
    error: Exception | None = None


OnReload: TypeAlias = Callable[[Reload], object]


class _Settings(NamedTuple):
    """All that another process needs to make the same."""

    path: str
    acquirers: Acquirers | None
    options: CascadeOptions
    period_s: float | None
    on_reload: OnReload | None


class _PickledState(NamedTuple):
    """What a copy in another process starts from: the settings, and the bundle that the observers follow."""

    settings: _Settings
    manifest: Manifest
    known_names: frozenset[str]


class ReloadingCascade(Decider):
    """A cascade that follows its bundle's folder: thread-safe, fork-safe, picklable; a context manager, as `Cascade` is.

    Parameters
    ----------
    path
        The bundle folder, or a symbolic link to one.
    acquirers, on_failure, pool, concurrency, observers, listener
        As in `Cascade`. Acquirers that are registered later are bound at the next change; a `Shadow` goes in as the listener.
    period_s
        Look for a new bundle every so many seconds, in a thread of its own. None: only `refresh` does.
    on_reload
        Called with each `Reload` that changed something or failed; a failure that the thread meets again and again is told, and
        logged, once a minute.

    Raises
    ------
    BundleError, BindError
        As `Cascade.load`, for the first bundle.

    Examples
    --------
    >>> import tempfile
    >>> from emsco_runtime.publish import write_bundle
    >>> from emsco_runtime.testing import make_bundle, sample_bundle
    >>> folder = tempfile.mkdtemp()
    >>> old, new = sample_bundle(), make_bundle([["size"]], threshold=0.5)
    >>> _ = write_bundle(folder, old.manifest, old.models)
    >>> with ReloadingCascade(folder) as cascade:
    ...     item = {"size": 3.0}
    ...     first = cascade.decide(item)
    ...     _ = write_bundle(folder, new.manifest, new.models, force=True)
    ...     result = cascade.refresh()
    ...     second = cascade.decide(item)
    >>> result.outcome, first.bundle == old.manifest.id, second.bundle == new.manifest.id
    ('changed', True, True)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        acquirers: Acquirers | None = None,
        *,
        on_failure: OnFailure = "raise",
        pool: AcquirerPool | None = None,
        concurrency: int = 32,
        observers: Sequence[Observer] = (),
        listener: Listener | None = None,
        period_s: float | None = None,
        on_reload: OnReload | None = None,
    ) -> None:
        if period_s is not None:
            check_seconds("period_s", period_s)
        if on_reload is not None and not callable(on_reload):
            raise InputError(f"on_reload: something that can be called is due, got {on_reload!r}")
        options = CascadeOptions(on_failure, pool, concurrency, tuple(observers), listener)
        self._set_up(_Settings(os.fspath(path), acquirers, options, period_s, on_reload), None)

    def _set_up(self, settings: _Settings, pickled: _PickledState | None) -> None:
        self._settings = settings
        # Asked before the bundle is read: a change in between is seen at the next look.
        self._last_stamp = _file_stamp(settings.path)
        self._current = Cascade.load(settings.path, settings.acquirers, **settings.options._asdict())
        if pickled is not None:
            self._current._allow_known_names(pickled.known_names)  # noqa: SLF001 - our own class
            self._notify_if_changed(pickled.manifest)
        self._last: Reload | None = None
        self._closed = False
        self._reported_at: float | None = None
        self._logged_at: float | None = None
        self.reset_after_fork()
        fork_hooks.register(self)

    def reset_after_fork(self) -> None:
        """Make a lock and, if there is a period, a watching thread of this process's own."""
        # Observers are told under it, in the order of the changes; one of them may look at the folder itself.
        self._refresh_lock = threading.RLock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        period_s = self._settings.period_s
        if period_s is not None and not self._closed:
            # The thread keeps nobody alive: it ends when the cascade is forgotten.
            reference = weakref.ref(self, _StopWatching(self._stop))
            self._thread = threading.Thread(
                target=_watch_folder, args=(reference, self._stop, period_s), name="emsco-reload", daemon=True
            )
            self._thread.start()

    def __getstate__(self) -> _PickledState:
        """Return what another process needs; it reads the folder for itself."""
        current = self._current
        return _PickledState(self._settings, current.manifest, current._inputs.names)  # noqa: SLF001 - our own class

    def __setstate__(self, pickled: _PickledState) -> None:
        """Load the bundle that is in the folder now; observers are told if it is another one."""
        self._set_up(pickled.settings, pickled)

    def __repr__(self) -> str:
        """Return the path and the cascade in service."""
        return f"<ReloadingCascade {self._settings.path!r}: {self._current!r}>"

    @property
    def current(self) -> Cascade:
        """Return the cascade in service."""
        return self._current

    @property
    def manifest(self) -> Manifest:
        """Return the manifest of the bundle in service."""
        return self._current.manifest

    @property
    def last(self) -> Reload | None:
        """Return what the last look came to; None before the first one."""
        return self._last

    def close(self) -> None:
        """Stop watching, and close the cascade in service, as `Cascade.close` does: no more decisions, and no more reloads."""
        self._closed = True
        self._stop.set()
        thread, self._thread = self._thread, None
        # From `on_reload` it may be called in the very thread that it ends.
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        # Whoever is refreshing puts nothing in service after this.
        with self._refresh_lock:
            self._current.close()

    async def aclose(self) -> None:
        """Close it, as `close` does; a look that is under way is waited for in another thread."""
        await asyncio.to_thread(self.close)

    def refresh(self) -> Reload:
        """Look at the folder, and take up a new bundle if there is one; one thread at a time.

        Nothing else is raised: a bundle that cannot be used is told in the record, to `on_reload`, and in the log.

        Raises
        ------
        ClosedError
            If it was closed.
        """
        result = self._refresh()
        self._report(result)
        return result

    def _refresh(self) -> Reload:
        with self._refresh_lock:
            if self._closed:
                raise ClosedError(f"{self!r} is closed and takes up no bundle. Make another one, or close it later")
            manifest = self._current.manifest
            before = manifest.id
            try:
                changed = self._load_if_changed()
            except Exception as error:  # noqa: BLE001 - whatever it is, the old bundle stays in service
                # Looked at again next time, even if the manifest stays: its models may be on their way.
                self._last_stamp = None
                result = Reload("failed", before, before, datetime.now(UTC), error)
                self._current._observers.notify_reload_failure(error, before)  # noqa: SLF001 - our own class
            else:
                after = self._current.manifest.id
                result = Reload("changed" if changed else "unchanged", before, after, datetime.now(UTC))
                self._notify_if_changed(manifest)
            self._last = result
            return result

    def _notify_if_changed(self, before: Manifest) -> None:
        after = self._current.manifest
        if after.id != before.id:
            self._current._observers.notify_reload(before, after)  # noqa: SLF001 - our own class

    def _load_if_changed(self) -> bool:
        """Put a new bundle in service, if there is one: first the file's marks are looked at, then its id, then all of it."""
        path = self._settings.path
        stamp = _file_stamp(path)
        if stamp is not None and stamp == self._last_stamp:
            return False
        current = self._current
        changed = read_manifest(path).id != current.manifest.id
        if changed:
            self._current = current.with_bundle(read_bundle(path), self._settings.acquirers)
        self._last_stamp = stamp
        return changed

    def _poll_once(self) -> None:
        """Look once, from the watching thread: the same trouble is not told at every look."""
        try:
            result = self._refresh()
        except ClosedError:
            return
        now = time.monotonic()
        if result.outcome == "failed":
            if not _should_report(self._reported_at, now):
                return
            self._reported_at = now
        self._report(result)

    def _report(self, result: Reload) -> None:
        if result.outcome == "unchanged":
            return
        now = time.monotonic()
        if result.outcome == "changed":
            _log.info("%s: bundle %s is in service, after %s", self._settings.path, result.after[:12], result.before[:12])
        elif _should_report(self._logged_at, now):
            self._logged_at = now
            _log.error("%s: not reloaded, bundle %s stays: %s", self._settings.path, result.before[:12], result.error)
        if self._settings.on_reload is None:
            return
        try:
            self._settings.on_reload(result)
        except Exception:  # noqa: BLE001 - the new bundle is in service, or the old one; either way it decides
            _log.exception("on_reload raised")

    def decide(
        self,
        item: Any,
        *,
        key: str | None = None,
        budget: float | None = None,
        deadline_s: float | None = None,
        known: Mapping[str, object] | None = None,
    ) -> Decision:
        """Decide one item, as `Cascade.decide`."""
        return self._current.decide(item, key=key, budget=budget, deadline_s=deadline_s, known=known)

    async def decide_async(
        self,
        item: Any,
        *,
        key: str | None = None,
        budget: float | None = None,
        deadline_s: float | None = None,
        known: Mapping[str, object] | None = None,
    ) -> Decision:
        """Decide one item in an event loop, as `Cascade.decide_async`."""
        return await self._current.decide_async(item, key=key, budget=budget, deadline_s=deadline_s, known=known)

    def decide_many(
        self,
        items: Iterable[Any],
        *,
        keys: Sequence[str | None] | None = None,
        budget: float | None = None,
        deadline_s: float | None = None,
        known: Sequence[Mapping[str, object] | None] | None = None,
    ) -> list[Decision]:
        """Decide many items in step and with one bundle, as `Cascade.decide_many`."""
        return self._current.decide_many(items, keys=keys, budget=budget, deadline_s=deadline_s, known=known)

    async def decide_many_async(
        self,
        items: Iterable[Any],
        *,
        keys: Sequence[str | None] | None = None,
        concurrency: int = 100,
        budget: float | None = None,
        deadline_s: float | None = None,
        known: Sequence[Mapping[str, object] | None] | None = None,
    ) -> list[Decision]:
        """Decide many items side by side and with one bundle, as `Cascade.decide_many_async`."""
        return await self._current.decide_many_async(
            items, keys=keys, concurrency=concurrency, budget=budget, deadline_s=deadline_s, known=known
        )

    def decide_columns(self, columns: Mapping[str, Any], *, budget: float | None = None) -> ColumnDecisions:
        """Decide a table with one bundle, as `Cascade.decide_columns`."""
        return self._current.decide_columns(columns, budget=budget)


class _StopWatching:
    """Ends the watching thread of a cascade that nobody has any more."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def __call__(self, _: object) -> None:
        self._stop.set()


def _watch_folder(reference: weakref.ref[ReloadingCascade], stop: threading.Event, period_s: float) -> None:
    while not stop.wait(min(period_s, threading.TIMEOUT_MAX)):
        cascade = reference()
        if cascade is not None:
            cascade._poll_once()  # noqa: SLF001 - the thread's own part
        # Not held while it waits.
        del cascade


def _file_stamp(path: str) -> tuple[int, ...] | None:
    """Return what the file system says of the manifest: a new file has another mark; None when there is none to be seen."""
    try:
        found = (Path(path) / MANIFEST_FILE).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _should_report(last: float | None, now: float) -> bool:
    return last is None or now - last >= _REPORT_EVERY_S
