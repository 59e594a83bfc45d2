"""`serve_milter`: the milter as a service, from start to graceful stop; signals as in `service`."""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, start_http_server

from emsco_runtime.audit import AuditWriter
from emsco_runtime.errors import InputError
from emsco_runtime.metrics import Metrics
from spam_filter.service.classification import MESSAGE_ID
from spam_filter.service.endpoint import Endpoint
from spam_filter.service.metrics import ServiceMetrics
from spam_filter.service.milter import Milter, OnError
from spam_filter.service.settings import SettingsError
from spam_filter.service.verdict_pool import VerdictPool

if TYPE_CHECKING:
    from emsco_runtime.observers import Observer
    from spam_filter.service.service import OpenModel, ServedModel

__all__ = ["MilterService", "MilterSettings", "serve_milter"]

_LISTEN: Final = Endpoint("127.0.0.1", 10027)
_log = logging.getLogger("spam_filter")


@dataclass(frozen=True, slots=True)
class MilterSettings:
    """The settings of one milter.

    Parameters
    ----------
    model, metrics, audit, max_bytes, deadline_s, grace_s, threads, dns
        As in `Settings`; of a larger message the beginning is looked at.
    listen
        Where mail servers connect.
    on_error
        As in `Milter`.
    """

    model: Path
    listen: Endpoint = _LISTEN
    metrics: Endpoint | None = None
    audit: Path | None = None
    max_bytes: int = 25 * 1024 * 1024
    deadline_s: float = 5.0
    grace_s: float = 20.0
    threads: int = 4
    dns: str = "system"
    on_error: OnError = "accept"

    def __post_init__(self) -> None:
        """Refuse what cannot work, before anything is opened."""
        for name in ("max_bytes", "threads"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name}: expected a whole number of at least 1, got {getattr(self, name)}")
        for name in ("deadline_s", "grace_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise SettingsError(f"{name}: expected seconds above 0, got {value}")
        if self.metrics is not None and not self.metrics.is_loopback:
            raise SettingsError(
                f"metrics: expected an address of the loopback interface, such as 127.0.0.1:9105, got {self.metrics}"
            )


def serve_milter(settings: MilterSettings, open_model: OpenModel) -> None:
    """Run a milter until a signal stops it.

    Parameters
    ----------
    settings
        Checked settings.
    open_model
        Opens the model.

    Raises
    ------
    SettingsError
        If an address or the audit log cannot be used.
    EmscoError
        If the model cannot be loaded.
    """
    with ExitStack() as stack:
        registry = CollectorRegistry()
        observers: list[Observer] = [Metrics(registry=registry)]
        if settings.audit is not None:
            try:
                observers.append(stack.enter_context(AuditWriter(str(settings.audit), values="drop", item=MESSAGE_ID.get)))
            except InputError as error:
                raise SettingsError(f"audit: {error}") from error
        model = open_model(observers=observers)
        stack.callback(model.close)
        asyncio.run(MilterService(settings, model, registry).run())


class MilterService:
    """One milter service.

    Parameters
    ----------
    settings
        Checked settings.
    model
        The model; the caller closes it.
    registry
        Where metrics are registered.
    """

    def __init__(self, settings: MilterSettings, model: ServedModel, registry: CollectorRegistry) -> None:
        self._settings = settings
        self._model = model
        self._measures = ServiceMetrics(registry)
        self._verdicts = VerdictPool(model, settings.deadline_s, settings.threads)
        self._open: dict[asyncio.Task[None], Milter] = {}
        self._reloads: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve until a signal says stop; messages whose end has come are answered first."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._start_reload)
        listen = self._settings.listen
        try:
            server = await asyncio.start_server(self._serve, listen.host, listen.port)
        except OSError as error:
            raise SettingsError(f"listen: {listen} cannot be used: {error.strerror}; choose another") from error
        host, port = server.sockets[0].getsockname()[:2]
        _print_line(f"listening on {Endpoint(host, port)}")
        end_metrics = self._start_metrics()
        try:
            await stop.wait()
            server.close()
            busy = [asyncio.ensure_future(milter.idle.wait()) for milter in self._open.values() if not milter.idle.is_set()]
            _log.info("stopping: %d messages are under way", len(busy))
            if busy:
                await asyncio.wait(busy, timeout=self._settings.grace_s)
            for task in tuple(self._open):
                task.cancel()
            if self._open:
                await asyncio.wait(tuple(self._open), timeout=1.0)
        finally:
            end_metrics()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        milter = Milter(self._verdicts, self._measures, self._settings.max_bytes, self._settings.on_error)
        task = asyncio.current_task()
        if task is None:
            return
        self._open[task] = milter
        self._measures.connections.set(len(self._open))
        try:
            await milter.serve(reader, writer)
        except asyncio.CancelledError:
            # We stop: the mail server sees that the connection is closed, and keeps what it has.
            writer.close()
        finally:
            del self._open[task]
            self._measures.connections.set(len(self._open))

    def _start_metrics(self) -> Callable[[], None]:
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

    def _start_reload(self) -> None:
        task = asyncio.ensure_future(self._reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _reload(self) -> None:
        try:
            await asyncio.to_thread(self._model.reload)
        except Exception as error:  # noqa: BLE001 - whatever it is, the old model stays in service
            self._measures.reloads.labels("failed").inc()
            _log.error("not reloaded, the old model stays in service: %s", error)
        else:
            self._measures.reloads.labels("done").inc()
            _log.info("reloaded: bundle %s", self._model.cascade.manifest.id[:12])


def _print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
