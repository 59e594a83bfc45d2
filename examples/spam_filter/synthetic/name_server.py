"""`NameServer`: a real name server on the loopback interface with a zone of ours, for tests and benchmarks."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import dns.exception
import dns.message
import dns.query

from spam_filter.errors import ModelError

__all__ = ["HOST", "NSD", "NameServer", "free_port", "nsd"]

HOST: Final = "127.0.0.1"
NSD: Final = shutil.which("nsd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
_START_S: Final = 60.0
_CONFIGURATION: Final = """
server:
    ip-address: {host}@{port}
    username: ""
    chroot: ""
    zonesdir: "{folder}"
    database: ""
    pidfile: "{folder}/nsd.pid"
    xfrdfile: ""
    zonelistfile: "{folder}/zone.list"
    xfrdir: "{folder}"
    cookie-secret-file: ""
    server-count: 1
    rrl-ratelimit: 0
remote-control:
    control-enable: no
zone:
    name: "."
    zonefile: "{folder}/root.zone"
"""


def free_port() -> int:
    """Return a port that nothing listens on now, by UDP or TCP; not one that the system gives to clients."""
    while True:
        port = random.randrange(12_000, 30_000)
        with socket.socket(type=socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
            try:
                udp.bind((HOST, port))
                tcp.bind((HOST, port))
            except OSError:
                continue
            return port


class NameServer:
    """A server process; a context manager.

    Parameters
    ----------
    command
        Starts it, in the foreground.
    port
        Where it listens.
    question
        A name whose address it knows, or knows not to exist.
    """

    def __init__(self, command: Sequence[str], port: int, question: str) -> None:
        self.port = port
        self._command = command
        self._question = question

    @property
    def where(self) -> str:
        """Return its address as the commands take it."""
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
        limit = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > limit:
                self._process.kill()
                raise ModelError(f"{self._command[0]} does not start: exit status {self._process.poll()}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait(_START_S)

    def _answers(self) -> bool:
        try:
            dns.query.udp(dns.message.make_query(self._question, "A"), HOST, 0.2, self.port)
        except (dns.exception.DNSException, OSError):
            return False
        return True


def nsd(folder: Path, zone: str) -> NameServer:
    """Return nsd with a zone of the root.

    Parameters
    ----------
    folder
        For its files.
    zone
        A zone file with absolute names.

    Raises
    ------
    ModelError
        If it is not installed.
    """
    if NSD is None:
        raise ModelError("nsd is not installed: on Debian, apt-get install nsd")
    port = free_port()
    (folder / "root.zone").write_text(zone, encoding="utf-8")
    configuration = folder / "nsd.conf"
    configuration.write_text(_CONFIGURATION.format(host=HOST, port=port, folder=folder), encoding="utf-8")
    return NameServer([NSD, "-d", "-c", str(configuration)], port, ".")
