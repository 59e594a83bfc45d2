"""`ReloadingCascade`: a cascade that takes a new bundle into service without a pause.

The new bundle is read, checked, bound and its golden items replayed while the old one decides; then it replaces the old one at
once. A call uses one cascade from start to end: no decision mixes two bundles, and the old one is freed when its last call has
ended. If a bundle cannot be loaded, for whatever reason, the old one stays in service and the failure is reported.

Acquirers with their breakers and caches, threads and observers stay the same; ``docs/operating.md`` says more about a reload.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar

from emsco_runtime.acquirers import Acquirers, OnFailure
from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.bundle.reading import MANIFEST_FILE, read_bundle, read_manifest
from emsco_runtime.cascade import Cascade
from emsco_runtime.decider import Decider
from emsco_runtime.driving.options import CascadeOptions, check_observers
from emsco_runtime.errors import ClosedError, InputError
from emsco_runtime.observing.observers import Observer
from emsco_runtime.observing.recording import Listener
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.support.arguments import check_seconds
from emsco_runtime.support.fork import ForkSafe
from emsco_runtime.support.throttle import Throttle

__all__ = ["OnReload", "Reload", "ReloadOutcome", "ReloadingCascade"]

ReloadOutcome: TypeAlias = Literal["changed", "unchanged", "failed"]

_log = logging.getLogger("emsco_runtime.reload")
_REPORT_EVERY_S = 60.0
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Reload:
    """The result of one reload.

    Parameters
    ----------
    outcome
        "changed" (a new bundle is in service), "unchanged", or "failed" (the bundle in the folder cannot be used).
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
    verify: str | None


# What a copy in another process starts from: the settings, the bundle that the observers follow, and the known names so far.
_PickledState: TypeAlias = tuple[_Settings, Manifest, frozenset[str]]


def _forward(
    method: Callable[Concatenate[Cascade, _Parameters], _Result],
) -> Callable[Concatenate[ReloadingCascade, _Parameters], _Result]:
    """Return the method of a reloading cascade that calls this one of the cascade in service, with the same signature."""

    @functools.wraps(method)
    def forward(self: ReloadingCascade, /, *arguments: _Parameters.args, **options: _Parameters.kwargs) -> _Result:
        return method(self._current, *arguments, **options)

    return forward


def _forward_async(
    method: Callable[Concatenate[Cascade, _Parameters], Coroutine[Any, Any, _Result]],
) -> Callable[Concatenate[ReloadingCascade, _Parameters], Coroutine[Any, Any, _Result]]:
    """Return the same for a coroutine method."""

    @functools.wraps(method)
    async def forward(self: ReloadingCascade, /, *arguments: _Parameters.args, **options: _Parameters.kwargs) -> _Result:
        return await method(self._current, *arguments, **options)

    return forward


class ReloadingCascade(ForkSafe, Decider):
    """A cascade that follows its bundle's folder: thread-safe, fork-safe, picklable; a context manager, as `Cascade` is.

    Parameters
    ----------
    path
        The bundle folder, or a symbolic link to one.
    acquirers, on_failure, pool, concurrency, observers, listener
        As in `Cascade`. Acquirers that are registered later are bound at the next change; a `Shadow` can be the listener.
    period_s
        Check for a new bundle every `period_s` seconds, in a thread of its own. None: only `refresh` does.
    on_reload
        Called with each `Reload` that changed something or failed; for failures of the thread, and in the log, once a minute.
    verify
        As in `Cascade.load`, for each new bundle: one that is not signed with this key is a failed reload.

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
        verify: str | os.PathLike[str] | None = None,
    ) -> None:
        if period_s is not None:
            check_seconds("period_s", period_s)
        if on_reload is not None and not callable(on_reload):
            raise InputError(f"on_reload: expected a function of a Reload, got {on_reload!r}")
        options = CascadeOptions(on_failure, pool, concurrency, check_observers(observers), listener)
        # Absolute, since the service may change its working directory.
        key = None if verify is None else str(Path(verify).absolute())
        self._set_up(_Settings(str(Path(path).absolute()), acquirers, options, period_s, on_reload, key), None)

    def _set_up(self, settings: _Settings, pickled: _PickledState | None) -> None:
        self._settings = settings
        # Read before the bundle: a change in between is seen at the next reload.
        self._last_stamp = _file_stamp(settings.path)
        self._current = Cascade.load(settings.path, settings.acquirers, **settings.options._asdict(), verify=settings.verify)
        if pickled is not None:
            _, manifest, known_names = pickled
            self._current._allow_known_names(known_names)  # noqa: SLF001 - our own class
            self._notify_if_changed(manifest)
        self._last: Reload | None = None
        self._closed = False
        self._throttle = Throttle()
        # The manifest before the reload that is under way.
        self._reloading: Manifest | None = None
        self._start()

    def reset_after_fork(self) -> None:
        """Make a new lock and, if there is a period, a new watching thread."""
        # Observers are notified under it, in the order of the changes; one of them may reload itself.
        self._refresh_lock = threading.RLock()
        # The manifest before a reload that was under way at a fork: its thread is not in this process, which may have the new
        # bundle in service and observers that do not know of it. They are notified at the next look.
        self._cut_short, self._reloading = self._reloading, None
        self._stop = stop = threading.Event()
        self._thread: threading.Thread | None = None
        period_s = self._settings.period_s
        if period_s is not None and not self._closed:
            # The thread does not keep the cascade alive, and ends with it.
            reference = weakref.ref(self, lambda _: stop.set())
            self._thread = threading.Thread(
                target=_watch_folder, args=(reference, stop, period_s), name="emsco-reload", daemon=True
            )
            self._thread.start()

    def __getstate__(self) -> _PickledState:
        """Return what another process needs; it reads the folder itself."""
        return self._settings, self._current.manifest, self._current._inputs.names  # noqa: SLF001 - our own class

    def __setstate__(self, pickled: _PickledState) -> None:
        """Load the bundle that is in the folder now; observers are notified if it was replaced."""
        self._set_up(pickled[0], pickled)

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
        """Return the result of the last reload; None before the first one."""
        return self._last

    def close(self) -> None:
        """Stop watching, and close the cascade in service, as `Cascade.close` does: no more decisions, and no more reloads."""
        self._closed = True
        self._stop.set()
        thread, self._thread = self._thread, None
        # From `on_reload` it may be called in the very thread that it ends.
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        # A reload in another thread puts nothing in service after this.
        with self._refresh_lock:
            self._current.close()

    async def aclose(self) -> None:
        """Close it, as `close` does; another thread waits for a reload that is running."""
        await asyncio.to_thread(self.close)

    def refresh(self) -> Reload:
        """Check the folder, and put a new bundle in service if there is one; one thread at a time.

        A bundle that cannot be used raises nothing: it is reported in the result, to `on_reload`, and in the log.

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
                raise ClosedError(f"{self!r} is closed and cannot reload. Create another one, or close it later")
            before = self._current.manifest
            outer, self._reloading = self._reloading, self._cut_short or before
            try:
                self._load_if_changed()
            except Exception as error:  # noqa: BLE001 - whatever it is, the old bundle stays in service
                # Read again next time, even if the manifest stays the same: its models may still be copied.
                self._last_stamp = None
                result = Reload("failed", before.id, before.id, datetime.now(UTC), error)
                self._current._observers.run_hooks("on_reload_failure", error, before.id)  # noqa: SLF001 - our own class
            else:
                # What the observers know, if that is an earlier one.
                before, self._cut_short = self._cut_short or before, None
                after = self._current.manifest.id
                result = Reload("unchanged" if after == before.id else "changed", before.id, after, datetime.now(UTC))
                self._notify_if_changed(before)
            finally:
                self._reloading = outer
            self._last = result
            return result

    def _notify_if_changed(self, before: Manifest) -> None:
        after = self._current.manifest
        if after.id != before.id:
            self._current._observers.run_hooks("on_reload", before, after)  # noqa: SLF001 - our own class

    def _load_if_changed(self) -> None:
        """Put a new bundle in service, if there is one: first the file's stamp is compared, then its id; then all is read."""
        path = self._settings.path
        stamp = _file_stamp(path)
        if stamp is not None and stamp == self._last_stamp:
            return
        if read_manifest(path).id != self._current.manifest.id:
            bundle = read_bundle(path, verify=self._settings.verify)
            self._current = self._current.with_bundle(bundle, self._settings.acquirers)
            if self._closed:
                # By this thread, meanwhile: an observer that was bound, or a signal handler, has closed the one before.
                self._current.close()
        self._last_stamp = stamp

    def _poll_once(self) -> None:
        """Reload once, from the watching thread: a failure that lasts is not reported every time."""
        # Does not wait for a reload elsewhere, which does the same, and may itself wait in `close` until this thread has ended.
        lock = self._refresh_lock
        if not lock.acquire(blocking=False):
            return
        try:
            result = self._refresh()
        except ClosedError:
            return
        finally:
            lock.release()
        if result.outcome != "failed" or self._throttle.allows("poll", _REPORT_EVERY_S):
            self._report(result)

    def _report(self, result: Reload) -> None:
        if result.outcome == "unchanged":
            return
        if result.outcome == "changed":
            _log.info("%s: bundle %s is in service, after %s", self._settings.path, result.after[:12], result.before[:12])
        elif self._throttle.allows("log", _REPORT_EVERY_S):
            _log.error("%s: not reloaded, bundle %s stays: %s", self._settings.path, result.before[:12], result.error)
        if self._settings.on_reload is None:
            return
        try:
            self._settings.on_reload(result)
        except Exception:  # noqa: BLE001 - a bundle is in service in any case
            _log.exception("on_reload raised")

    decide = _forward(Cascade.decide)
    decide_async = _forward_async(Cascade.decide_async)
    decide_many = _forward(Cascade.decide_many)
    decide_many_async = _forward_async(Cascade.decide_many_async)
    decide_columns = _forward(Cascade.decide_columns)


def _watch_folder(reference: weakref.ref[ReloadingCascade], stop: threading.Event, period_s: float) -> None:
    while not stop.wait(min(period_s, threading.TIMEOUT_MAX)):
        cascade = reference()
        if cascade is not None:
            cascade._poll_once()  # noqa: SLF001 - the thread's own part
        # Not kept alive while the thread waits.
        del cascade


def _file_stamp(path: str) -> tuple[int, ...] | None:
    """Return what changes when the manifest is replaced or written; None if the file cannot be seen."""
    try:
        found = (Path(path) / MANIFEST_FILE).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
