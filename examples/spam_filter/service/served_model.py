"""The model in service: opened with the observers of its decisions, and reloaded on SIGHUP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from prometheus_client import CollectorRegistry

from emsco_runtime.audit import AuditWriter
from emsco_runtime.errors import InputError
from emsco_runtime.metrics import Metrics
from spam_filter.service.classification import MESSAGE_ID, ModelProtocol
from spam_filter.service.metrics import ServiceMetrics
from spam_filter.service.model_watch import WatchedModel
from spam_filter.service.settings import SettingsError

if TYPE_CHECKING:
    from emsco_runtime.observers import Observer

__all__ = ["ModelReloads", "OpenModel", "ServedModel", "opened_model"]

_log = logging.getLogger("spam_filter")


class ServedModel(ModelProtocol, WatchedModel, Protocol):
    """What a service needs of a model."""

    def reload(self) -> object:
        """Load what is in the folder now; raise if it cannot be used, and keep the old one."""

    def close(self) -> None:
        """Close files."""


class OpenModel(Protocol):
    """Opens the model of a folder."""

    def __call__(self, *, observers: Sequence[Observer]) -> ServedModel:
        """Return the model, whose cascade notifies these observers."""


@contextmanager
def opened_model(open_model: OpenModel, audit: Path | None, registry: CollectorRegistry) -> Iterator[ServedModel]:
    """Open a model whose decisions are counted, and written to the audit log if there is one; close both at the end.

    Raises
    ------
    SettingsError
        If the audit log cannot be used.
    EmscoError
        If the model cannot be loaded.
    """
    with ExitStack() as stack:
        observers: list[Observer] = [Metrics(registry=registry)]
        if audit is not None:
            observers.append(stack.enter_context(_open_audit(audit)))
        model = open_model(observers=observers)
        stack.callback(model.close)
        yield model


def _open_audit(path: Path) -> AuditWriter:
    """Return the audit log: values of features are dropped, since they may quote the message."""
    try:
        return AuditWriter(str(path), values="drop", item=MESSAGE_ID.get)
    except InputError as error:
        raise SettingsError(f"audit: {error}") from error


class ModelReloads:
    """Reloads while the service goes on; one that fails leaves the old model in service.

    Parameters
    ----------
    model
        The model in service.
    measures
        Counts reloads.
    reload
        Reloads the model, and what belongs to it.
    """

    def __init__(self, model: ServedModel, measures: ServiceMetrics, reload: Callable[[], Awaitable[object]]) -> None:
        self._model = model
        self._measures = measures
        self._reload = reload
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin a reload; what a signal calls."""
        task = asyncio.ensure_future(self._run())
        # The loop itself keeps no task alive.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        try:
            await self._reload()
        except Exception as error:  # noqa: BLE001 - whatever it is, the old model stays in service
            self._measures.reloads.labels("failed").inc()
            _log.error("not reloaded, the old model stays in service: %s", error)
        else:
            self._measures.reloads.labels("done").inc()
            _log.info("reloaded: bundle %s", self._model.cascade.manifest.id[:12])
