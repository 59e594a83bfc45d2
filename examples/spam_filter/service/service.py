"""`Service`: the pieces put together, from start to graceful stop.

Signals: SIGTERM and SIGINT stop it (what is under way is finished, for a bounded time; a second one does not wait), SIGHUP
reloads the model. A model that cannot be loaded then leaves the old one in service; at the start it ends the service.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

from prometheus_client import CollectorRegistry, start_http_server

from emsco_runtime.audit import AuditWriter
from emsco_runtime.errors import InputError
from emsco_runtime.metrics import Metrics, SourceGauges
from emsco_runtime.pool import AcquirerPool
from spam_filter.service.classification import MESSAGE_ID, ModelProtocol
from spam_filter.service.connection import Connection, Connections, RefusedConnection
from spam_filter.service.delivery import make_delivery
from spam_filter.service.endpoint import Endpoint
from spam_filter.service.handler import Handler
from spam_filter.service.metrics import ServiceMetrics
from spam_filter.service.model_watch import ModelWatch, WatchedModel
from spam_filter.service.refusals import Refusals
from spam_filter.service.settings import Settings, SettingsError
from spam_filter.service.verdict_pool import VerdictPool

if TYPE_CHECKING:
    from emsco_runtime.observers import Observer

__all__ = ["OpenModel", "ServedModel", "Service", "serve"]

_log = logging.getLogger("spam_filter")


class ServedModel(ModelProtocol, WatchedModel, Protocol):
    """What the service needs of a model."""

    def reload(self) -> object:
        """Load what is in the folder now; raise if it cannot be used, and keep the old one."""

    def close(self) -> None:
        """Close files."""


class OpenModel(Protocol):
    """Opens the model of a folder."""

    def __call__(self, *, observers: Sequence[Observer]) -> ServedModel:
        """Return the model, whose cascade notifies these observers."""


def serve(settings: Settings, open_model: OpenModel) -> None:
    """Run a service until a signal stops it.

    Parameters
    ----------
    settings
        Checked settings.
    open_model
        Opens the model.

    Raises
    ------
    SettingsError
        If an address, the Maildir or the audit log cannot be used.
    EmscoError
        If the model cannot be loaded.
    """
    with ExitStack() as stack:
        registry = CollectorRegistry()
        observers: list[Observer] = [Metrics(registry=registry)]
        if settings.audit is not None:
            observers.append(stack.enter_context(_audit(settings)))
        model = open_model(observers=observers)
        stack.callback(model.close)
        asyncio.run(Service(settings, model, registry).run())


def _audit(settings: Settings) -> AuditWriter:
    """Return the audit log: values of features are dropped, since they may quote the message."""
    try:
        return AuditWriter(str(settings.audit), values="drop", item=MESSAGE_ID.get)
    except InputError as error:
        raise SettingsError(f"audit: {error}") from error


class Service:
    """One service.

    Parameters
    ----------
    settings
        Checked settings.
    model
        The model; the caller closes it.
    registry
        Where metrics are registered.
    """

    def __init__(self, settings: Settings, model: ServedModel, registry: CollectorRegistry) -> None:
        self._settings = settings
        self._model = model
        self._connections = Connections()
        self._measures = ServiceMetrics(registry)
        self._measures.connections.set_function(lambda: len(self._connections))
        self._refusals = Refusals(self._measures.refused)
        self._verdicts = VerdictPool(model, settings.deadline_s, settings.threads)
        # One for each client: all of them may wait for the disk or the next hop.
        deliverers = AcquirerPool(settings.max_connections)
        SourceGauges(pools={"verdicts": self._verdicts.pool, "delivery": deliverers}, registry=registry)
        self._handler = Handler(self._verdicts, make_delivery(settings), deliverers, self._measures)
        self._watch = ModelWatch(model, self._measures.model_changed)
        self._reloads: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve until a signal says stop."""
        loop = asyncio.get_running_loop()
        stop_requested = asyncio.Event()
        stop_now = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _request_stop, stop_requested, stop_now)
        loop.add_signal_handler(signal.SIGHUP, self._start_reload)
        server = await self._start_server()
        metrics = self._metrics_server()
        watching = asyncio.ensure_future(self._watch.run())
        try:
            await stop_requested.wait()
            _log.info("stopping: %d connections are open", len(self._connections))
            server.close()
            await self._stop_connections(stop_now)
        finally:
            watching.cancel()
            metrics()

    async def _start_server(self) -> asyncio.Server:
        listen = self._settings.listen
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(self._protocol, listen.host, listen.port, backlog=self._settings.max_connections)
        except OSError as error:
            raise SettingsError(
                f"listen: {listen} cannot be used: {error.strerror}; choose another, or stop what is there"
            ) from error
        if not listen.is_loopback:
            _log.warning("%s can be reached from other machines; anyone there can send mail through it", listen)
        host, port = server.sockets[0].getsockname()[:2]
        # Whatever started the service waits for this line.
        _print_line(f"listening on {Endpoint(host, port)}")
        return server

    def _protocol(self) -> asyncio.Protocol:
        if len(self._connections) >= self._settings.max_connections:
            return RefusedConnection(self._refusals)
        return Connection(self._handler, self._settings, self._connections, self._refusals)

    def _metrics_server(self) -> Callable[[], None]:
        """Answer Prometheus, in a thread; return what ends it."""
        where = self._settings.metrics
        if where is None:
            return lambda: None
        try:
            server, _ = start_http_server(where.port, where.host, self._measures.registry)
        except OSError as error:
            raise SettingsError(f"metrics: {where} cannot be used: {error.strerror}; choose another") from error
        _print_line(f"metrics on {Endpoint(where.host, server.server_port)}")

        def end() -> None:
            server.shutdown()
            server.server_close()

        return end

    async def _stop_connections(self, stop_now: asyncio.Event) -> None:
        stopping = asyncio.ensure_future(self._connections.stop(self._settings.grace_s))
        again = asyncio.ensure_future(stop_now.wait())
        await asyncio.wait([stopping, again], return_when=asyncio.FIRST_COMPLETED)
        again.cancel()
        if left := len(self._connections):
            _log.warning("stopped with %d messages under way; their senders keep them", left)
        stopping.cancel()

    def _start_reload(self) -> None:
        task = asyncio.ensure_future(self._reload())
        # The loop itself keeps no task alive.
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _reload(self) -> None:
        """Reload the model in a thread: decisions go on with the old one until the new one is ready."""
        try:
            await asyncio.to_thread(self._model.reload)
            await self._watch.look()
        except Exception as error:  # noqa: BLE001 - whatever it is, the old model stays in service
            self._measures.reloads.labels("failed").inc()
            _log.error("not reloaded, the old model stays in service: %s", error)
        else:
            self._measures.reloads.labels("done").inc()
            _log.info("reloaded: bundle %s", self._model.cascade.manifest.id[:12])


def _request_stop(stop_requested: asyncio.Event, stop_now: asyncio.Event) -> None:
    if stop_requested.is_set():
        stop_now.set()
    stop_requested.set()


def _print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
