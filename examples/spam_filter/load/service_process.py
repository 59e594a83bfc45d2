"""`ServiceProcess`: the service as a child process, for the load driver and the demonstration."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from spam_filter.service.endpoint import Endpoint

__all__ = ["ServiceProcess", "ServiceProcessError", "cpu_seconds"]

_START_S: Final = 60.0
_STOP_S: Final = 30.0


class ServiceProcessError(Exception):
    """The service did not start, or did not stop."""


class ServiceProcess:
    """A service on free ports of the loopback interface; a context manager that starts and stops it.

    Parameters
    ----------
    model
        Folder of the trained model.
    maildir
        Where the messages go.
    *options
        More arguments of ``serve``.
    """

    def __init__(self, model: Path, maildir: Path, *options: str) -> None:
        self.maildir = maildir
        self._command = [
            *(sys.executable, "-m", "spam_filter.cli.serve", "--model", str(model), "--maildir", str(maildir)),
            *("--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", *options),
        ]
        self._output: list[str] = []
        self._ready = threading.Event()
        self._endpoints: dict[str, Endpoint] = {}

    @property
    def smtp(self) -> Endpoint:
        """Return where it accepts mail."""
        return self._endpoints["listening"]

    @property
    def log(self) -> str:
        """Return what it has written so far."""
        return "".join(self._output)

    def metric(self, line: str) -> float:
        """Return the value of one metric, named as Prometheus shows it; 0 if it does not exist."""
        with urllib.request.urlopen(f"http://{self._endpoints['metrics']}/metrics", timeout=_STOP_S) as answer:
            shown = answer.read().decode().splitlines()
        return next((float(found.rpartition(" ")[2]) for found in shown if found.startswith(f"{line} ")), 0.0)

    def cpu_s(self) -> float:
        """Return the CPU time that all its processes have used so far; 0 where the system does not show it."""
        return cpu_seconds(self._process.pid)

    def __enter__(self) -> Self:
        """Start it, and wait until it listens.

        Raises
        ------
        ServiceProcessError
            If it ends before that.
        """
        path = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "PYTHONPATH": path}
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._ready.wait(_START_S) or len(self._endpoints) < 2:
            self._stop(signal.SIGKILL)
            raise ServiceProcessError(f"the service did not start: {self.log.strip()}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop it gracefully."""
        self._stop(signal.SIGTERM)

    def _stop(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        if self._process.stdout is None:
            return
        with self._process.stdout as lines:
            for line in lines:
                self._output.append(line)
                word, on, where = line.strip().partition(" on ")
                if on and word in ("listening", "metrics"):
                    self._endpoints[word] = Endpoint.parse(where)
                    if len(self._endpoints) == 2:
                        self._ready.set()
        # It has ended: there is nothing more to wait for.
        self._ready.set()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its descendants, as Linux shows it."""
    folder = Path("/proc") / str(pid)
    try:
        # After the name of the command, which is in brackets: user and system time are the 12th and 13th of these.
        fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        children = [child for task in (folder / "task").iterdir() for child in _started_by(task)]
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(map(cpu_seconds, children))


def _started_by(task: Path) -> list[int]:
    """Return the processes that a thread has started; none of one that has just ended, whose processes now belong to another."""
    try:
        return [int(child) for child in (task / "children").read_text(encoding="utf-8").split()]
    except OSError:
        return []
