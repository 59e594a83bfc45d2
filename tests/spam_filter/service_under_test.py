"""The service as a process of its own: started, killed, restarted, asked."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.runtime.waiting import wait_until

TOP = Path(__file__).parents[2]
TINY = TOP / "tests" / "spam_filter" / "tiny_model.py"
HOST = "127.0.0.1"


def free_port() -> int:
    """Return a port that nothing listens on now.

    Not one of those that the system gives to clients: a client that tries a dead port of that kind again and again may be given
    the same one for itself, and talk to itself.
    """
    while True:
        port = random.randrange(12_000, 30_000)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port


class Running:
    """A service on a port that stays the same from one start to the next; a context manager."""

    def __init__(self, *arguments: str, command: Sequence[str] = (str(TINY),)) -> None:
        # Changed between two starts, they change what the service does.
        self.more: tuple[str, ...] = ()
        self.port = free_port()
        self.metrics_port = free_port()
        self._command = [
            sys.executable,
            *command,
            *arguments,
            *("--listen", f"{HOST}:{self.port}", "--metrics", f"{HOST}:{self.metrics_port}"),
        ]
        self.log: list[str] = []
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(TOP / "examples"), str(TOP)))}
        process = subprocess.Popen(
            [*self._command, *self.more],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            errors="replace",
        )
        self._process = process
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(process,))
        self._reader.start()
        wait_until(lambda: self._ready.is_set() or process.poll() is not None, "the service starts")
        assert process.poll() is None, self.text

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.log.append(line)
            if line.startswith("metrics on"):
                self._ready.set()

    @property
    def text(self) -> str:
        """Return what it has written so far."""
        return "".join(self.log)

    @property
    def process(self) -> subprocess.Popen[str]:
        """Return the process of the last start."""
        assert self._process is not None
        return self._process

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self.end(signal.SIGKILL)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, and return the exit status."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Wait for the end, and return the exit status."""
        status = self.process.wait(60)
        self._reader.join(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    def metric(self, line: str) -> float:
        """Return the value of one metric, named as Prometheus shows it; 0 if there is none. Without labels, the sum."""
        with urllib.request.urlopen(f"http://{HOST}:{self.metrics_port}/metrics", timeout=30) as answer:
            shown = answer.read().decode().splitlines()
        return sum(float(one.rpartition(" ")[2]) for one in shown if one.startswith((f"{line} ", f"{line}{{")))

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End it, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.ended()


def worker_processes(running: Running) -> list[psutil.Process]:
    """Return the processes that accept mail, of a service that has several."""
    children = psutil.Process(running.process.pid).children()
    return [child for child in children if "resource_tracker" not in " ".join(child.cmdline())]
