"""`Supervisor`: several processes accept from the same sockets; one that ends is replaced.

The sockets belong to the supervisor, so a client that waits to be accepted is served by the others when one process is killed.
Signals go to the supervisor and are passed on: SIGTERM and SIGINT stop all of them, SIGHUP lets each reload the model. If the
supervisor itself is killed, the workers stop gracefully. Metrics of all processes, also of those that have ended, are added up on
one page; they append to the same audit log.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from emsco_runtime.errors import EmscoError
from spam_filter.service.listeners import announce, open_listeners
from spam_filter.service.metrics_server import metrics_server
from spam_filter.service.served_model import OpenModel
from spam_filter.service.service import MakeFront
from spam_filter.service.settings import ServiceSettings, SettingsError
from spam_filter.service.worker import WorkerReport, run_worker

__all__ = ["Supervisor", "supervise"]

# prometheus_client looks for it when it is imported: the workers share this folder.
_METRICS_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
# A worker that cannot start must not keep the machine busy.
_RESTART_S: Final = 1.0
# Beyond the time that a worker gives its clients.
_STOP_S: Final = 10.0
_log = logging.getLogger("spam_filter")


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    pipe: Pipe
    ready: bool = False
    reload_when_ready: bool = False


def supervise(settings: ServiceSettings, open_model: OpenModel, make_front: MakeFront) -> None:
    """Run a service of several processes until a signal stops it.

    Parameters
    ----------
    settings, open_model, make_front
        As in `serve`; the model is opened in each process.

    Raises
    ------
    SettingsError, EmscoError
        As `serve`.
    """
    registry = CollectorRegistry()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spam-filter-metrics-")))
        MultiProcessCollector(registry, path=str(folder))  # type: ignore[no-untyped-call]
        listeners = open_listeners(settings.listen, settings.max_connections * settings.processes)
        signals = stack.enter_context(_signals())
        supervisor = Supervisor(settings, open_model, make_front, listeners, folder, registry)
        stack.callback(supervisor.kill)
        if supervisor.start(signals):
            announce(settings.listen, listeners)
            stack.enter_context(metrics_server(settings.metrics, registry))
        supervisor.watch(signals)


@contextmanager
def _signals() -> Iterator[socket.socket]:
    """Yield a socket from which the numbers of signals can be read."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)  # noqa: FBT003 - the name of the method says it
    before = signal.set_wakeup_fd(writer.fileno())
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    handlers = [signal.signal(number, lambda *_: None) for number in numbers]
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(before)
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)
        reader.close()
        writer.close()


class Supervisor:
    """Watches over workers.

    Parameters
    ----------
    settings, open_model, make_front
        As in `serve`.
    listeners
        What the workers accept from.
    folder
        Where they keep their metrics.
    registry
        For the supervisor's own metric: ``spam_filter_restarts_total``, workers that were replaced.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        open_model: OpenModel,
        make_front: MakeFront,
        listeners: list[socket.socket],
        folder: Path,
        registry: CollectorRegistry,
    ) -> None:
        self._settings = settings
        self._open_model = open_model
        self._make_front = make_front
        self._listeners = listeners
        self._folder = folder
        self._restarts = Counter("spam_filter_restarts_total", "Workers that were replaced.", registry=registry)
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self._restart_at: list[float] = []
        self._stopping = False
        self._stop_at = float("inf")

    def start(self, signals: socket.socket) -> bool:
        """Start the workers, and return whether all of them are ready: a signal may stop them before.

        Raises
        ------
        SettingsError, EmscoError
            What the first of them reports that cannot start.
        """
        for _ in range(self._settings.processes):
            self._start_one()
        while not self._stopping and not all(worker.ready for worker in self._workers):
            for worker in self._wait(signals, None):
                report = self._read_report(worker)
                if report is not None:
                    raise SettingsError(report.text) if report.kind == "settings" else EmscoError(report.text)
                if not worker.ready:
                    raise EmscoError(f"a process ended at its start ({_describe_exit(worker)}): see the log")
        return not self._stopping

    def watch(self, signals: socket.socket) -> None:
        """Replace workers that end, and pass signals on, until all have been stopped."""
        while self._workers or not self._stopping:
            now = time.monotonic()
            for worker in self._wait(signals, min((*self._restart_at, self._stop_at), default=None), now):
                report = self._read_report(worker)
                if report is None and worker.process.is_alive():
                    continue
                self._remove(worker, report)
            self._start_due()
            if time.monotonic() >= self._stop_at:
                self.kill()

    def kill(self) -> None:
        """End all workers at once."""
        for worker in self._workers:
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()
        self._workers.clear()

    def _start_one(self) -> None:
        ours, its = self._context.Pipe()
        os.environ[_METRICS_FOLDER] = str(self._folder)
        given = (self._settings, self._open_model, self._make_front, self._listeners, its)
        process = self._context.Process(target=run_worker, args=given, name="worker", daemon=True)
        process.start()
        its.close()
        self._workers.append(_Worker(process, ours))

    def _wait(self, signals: socket.socket, until: float | None, now: float = 0.0) -> list[_Worker]:
        """Wait for news until a time, pass signals on, and return the workers that have something to tell."""
        by_source: dict[object, _Worker] = {}
        for worker in self._workers:
            by_source[worker.process.sentinel] = worker
            by_source[worker.pipe] = worker
        timeout = None if until is None or until == float("inf") else max(0.0, until - now)
        found = wait([signals, *by_source], timeout)  # type: ignore[list-item]
        if signals in found:
            for number in signals.recv(100):
                self._pass_on(number)
        # A worker may be there twice, by its message and by its end.
        named = [by_source[source] for source in found if source in by_source]
        return list({id(worker): worker for worker in named}.values())

    def _pass_on(self, number: int) -> None:
        if number == signal.SIGHUP:
            for worker in self._workers:
                # Before it is ready, the signal would end it.
                if worker.ready:
                    _send(worker, signal.SIGHUP)
                else:
                    worker.reload_when_ready = True
            return
        if not self._stopping:
            self._stopping = True
            self._restart_at.clear()
            self._stop_at = time.monotonic() + self._settings.grace_s + _STOP_S
            for listener in self._listeners:
                listener.close()
        for worker in self._workers:
            _send(worker, signal.SIGTERM)

    def _read_report(self, worker: _Worker) -> WorkerReport | None:
        """Return what a worker says is at fault; None if it says nothing, or that it is ready."""
        try:
            report = worker.pipe.recv() if worker.pipe.poll() else None
        except (EOFError, OSError):
            return None
        if not isinstance(report, WorkerReport) or report.kind != "ready":
            return report
        worker.ready = True
        if worker.reload_when_ready:
            _send(worker, signal.SIGHUP)
        return None

    def _remove(self, worker: _Worker, report: WorkerReport | None) -> None:
        worker.process.join()
        worker.pipe.close()
        self._workers.remove(worker)
        mark_process_dead(worker.process.pid, str(self._folder))  # type: ignore[no-untyped-call]
        if self._stopping:
            return
        detail = _describe_exit(worker) if report is None else report.text
        _log.error("process %s has ended (%s): another one takes its place", worker.process.pid, detail)
        self._restarts.inc()
        self._restart_at.append(time.monotonic() + (0.0 if worker.ready else _RESTART_S))

    def _start_due(self) -> None:
        now = time.monotonic()
        due = sum(moment <= now for moment in self._restart_at)
        self._restart_at = [moment for moment in self._restart_at if moment > now]
        for _ in range(due):
            self._start_one()


def _send(worker: _Worker, number: signal.Signals) -> None:
    # One that has ended already is found by `watch`; its number is not another's before it was joined.
    if worker.process.pid is not None and worker.process.is_alive():
        os.kill(worker.process.pid, number)


def _describe_exit(worker: _Worker) -> str:
    code = worker.process.exitcode
    return f"signal {-code}" if code is not None and code < 0 else f"status {code}"
