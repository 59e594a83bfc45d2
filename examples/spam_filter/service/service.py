"""`Service`: what the SMTP service and the milter share, from start to graceful stop.

Signals: SIGTERM and SIGINT stop it (what is under way is finished, for a bounded time; a second one does not wait), SIGHUP
reloads the model and the lists of senders, also one that comes while they are read for the first time. A model that cannot be
loaded then leaves the old one in service; at the start it ends the service.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, Protocol, TypeAlias

from prometheus_client import CollectorRegistry

from emsco_runtime.metrics import SourceGauges
from emsco_runtime.pool import AcquirerPool
from spam_filter.service.listeners import announce, open_listeners
from spam_filter.service.metrics import ServiceMetrics
from spam_filter.service.metrics_server import metrics_server
from spam_filter.service.model_watch import ModelWatch
from spam_filter.service.sender_lists import SenderLists
from spam_filter.service.served_model import ModelReloads, OpenModel, ServedModel, opened_model
from spam_filter.service.settings import ServiceSettings
from spam_filter.service.verdict_pool import VerdictPool

__all__ = ["Front", "MakeFront", "Service", "open_service", "serve"]

_SWITCH_S: Final = 0.001
_log = logging.getLogger("spam_filter")


class Front(Protocol):
    """The side that clients see: SMTP, or the milter protocol."""

    @property
    def pools(self) -> Mapping[str, AcquirerPool]:
        """Return its threads, by name, for the metrics."""

    def __len__(self) -> int:
        """Return how many clients are connected."""

    def protocol(self) -> asyncio.BaseProtocol:
        """Return what serves one more client."""

    async def stop(self, seconds: float) -> int:
        """Close idle connections, wait for the others; return how many messages are under way after `seconds` seconds."""


MakeFront: TypeAlias = Callable[[VerdictPool, ServiceMetrics], Front]


def serve(settings: ServiceSettings, open_model: OpenModel, make_front: MakeFront) -> None:
    """Run a service in this process until a signal stops it.

    Parameters
    ----------
    settings
        Checked settings.
    open_model
        Opens the model.
    make_front
        Makes the side that clients see.

    Raises
    ------
    SettingsError
        If an address, the Maildir or the audit log cannot be used.
    EmscoError
        If the model cannot be loaded.
    """
    registry = CollectorRegistry()
    with ExitStack() as stack:
        hangups = stack.enter_context(_noted_hangups())
        service = stack.enter_context(open_service(settings, open_model, make_front, registry))
        listeners = open_listeners(settings.listen, settings.max_connections)

        def on_ready() -> None:
            announce(settings.listen, listeners)
            stack.enter_context(metrics_server(settings.metrics, registry))
            if hangups:
                # The model may have been read before it came.
                signal.raise_signal(signal.SIGHUP)

        asyncio.run(service.run(listeners, on_ready))


@contextmanager
def _noted_hangups() -> Iterator[Sequence[int]]:
    """Yield a list of each SIGHUP that comes in this block, until something else handles it."""
    noted: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def open_service(
    settings: ServiceSettings, open_model: OpenModel, make_front: MakeFront, registry: CollectorRegistry
) -> Iterator[Service]:
    """Open the model and the audit log, and yield the service; raises as `serve`."""
    with opened_model(open_model, settings.audit, registry) as model:
        service = Service(settings, model, make_front, registry)
        # What is here now stays: it is not looked through again and again for what can be thrown away.
        gc.collect()
        gc.freeze()
        yield service


class Service:
    """One service.

    Parameters
    ----------
    settings
        Checked settings.
    model
        The model; the caller closes it.
    make_front
        Makes the side that clients see.
    registry
        Where metrics are registered.
    """

    def __init__(self, settings: ServiceSettings, model: ServedModel, make_front: MakeFront, registry: CollectorRegistry) -> None:
        self._settings = settings
        self._model = model
        measures = ServiceMetrics(registry)
        lists = SenderLists.read(settings.allow, settings.block)
        self._verdicts = VerdictPool(model, settings.deadline_s, settings.threads, lists)
        self._front = make_front(self._verdicts, measures)
        SourceGauges(pools={"verdicts": self._verdicts.pool, **self._front.pools}, registry=registry)
        self._watch = ModelWatch(model, measures.model_changed)
        self._reloads = ModelReloads(model, measures, self._reload)

    async def run(self, listeners: Sequence[socket.socket], on_ready: Callable[[], None], lifeline: int | None = None) -> None:
        """Serve until a signal says stop.

        Parameters
        ----------
        listeners
            Accept clients.
        on_ready
            Called when clients are accepted, and signals are handled.
        lifeline
            A pipe from the process that started this one: its end stops the service, too.
        """
        # A large message keeps a thread busy; the others, and the event loop, must not wait for it longer than this each time.
        sys.setswitchinterval(_SWITCH_S)
        loop = asyncio.get_running_loop()
        stop_requested = asyncio.Event()
        stop_now = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _request_stop, stop_requested, stop_now)
        loop.add_signal_handler(signal.SIGHUP, self._reloads.start)
        if lifeline is not None:
            loop.add_reader(lifeline, stop_requested.set)
        servers = [await self._accept_from(listener) for listener in listeners]
        watching = asyncio.ensure_future(self._watch.run())
        try:
            on_ready()
            await stop_requested.wait()
            if lifeline is not None:
                loop.remove_reader(lifeline)
            _log.info("stopping: %d connections are open", len(self._front))
            for server in servers:
                server.close()
            await self._stop_connections(stop_now)
        finally:
            watching.cancel()

    async def _accept_from(self, listener: socket.socket) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        # One at a time: what comes meanwhile is left to other processes that accept from the same socket.
        server = await loop.create_server(self._front.protocol, sock=listener, backlog=1)
        # asyncio has given its number to the system, too.
        listener.listen(self._settings.max_connections)
        return server

    async def _stop_connections(self, stop_now: asyncio.Event) -> None:
        stopping = asyncio.ensure_future(self._front.stop(self._settings.grace_s))
        again = asyncio.ensure_future(stop_now.wait())
        await asyncio.wait([stopping, again], return_when=asyncio.FIRST_COMPLETED)
        again.cancel()
        if left := stopping.result() if stopping.done() else len(self._front):
            _log.warning("stopped with %d messages under way; their senders keep them", left)
        stopping.cancel()

    async def _reload(self) -> None:
        """Reload model and lists in a thread: decisions go on with the old ones until the new ones are ready."""
        lists = await asyncio.to_thread(SenderLists.read, self._settings.allow, self._settings.block)
        await asyncio.to_thread(self._model.reload)
        self._verdicts.lists = lists
        await self._watch.look()


def _request_stop(stop_requested: asyncio.Event, stop_now: asyncio.Event) -> None:
    if stop_requested.is_set():
        stop_now.set()
    stop_requested.set()
