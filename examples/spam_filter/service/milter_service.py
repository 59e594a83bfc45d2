"""`serve_milter`: the milter as a service, from start to graceful stop; signals as in `service`."""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from spam_filter.service.endpoint import Endpoint
from spam_filter.service.listeners import print_line
from spam_filter.service.metrics import ServiceMetrics
from spam_filter.service.metrics_server import metrics_server
from spam_filter.service.milter import Milter, OnError
from spam_filter.service.served_model import ModelReloads, OpenModel, ServedModel, opened_model
from spam_filter.service.settings import SettingsError, check_metrics, check_values
from spam_filter.service.verdict_pool import VerdictPool

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
        check_values(self, ("max_bytes", "threads"), ("deadline_s", "grace_s"))
        check_metrics(self.metrics)


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
    registry = CollectorRegistry()
    with opened_model(open_model, settings.audit, registry) as model:
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
        self._measures = ServiceMetrics(registry)
        self._verdicts = VerdictPool(model, settings.deadline_s, settings.threads)
        self._open: dict[asyncio.Task[None], Milter] = {}
        self._reloads = ModelReloads(model, self._measures, partial(asyncio.to_thread, model.reload))

    async def run(self) -> None:
        """Serve until a signal says stop; messages whose end has come are answered first."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._reloads.start)
        listen = self._settings.listen
        try:
            server = await asyncio.start_server(self._serve, listen.host, listen.port)
        except OSError as error:
            raise SettingsError(f"listen: {listen} cannot be used: {error.strerror}; choose another") from error
        host, port = server.sockets[0].getsockname()[:2]
        print_line(f"listening on {Endpoint(host, port)}")
        with metrics_server(self._settings.metrics, self._measures.registry):
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
