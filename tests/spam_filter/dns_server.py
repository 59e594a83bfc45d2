"""A real name server on the loopback interface, and a proxy in front of it that is slow, silent, or lies."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import dns.exception
import dns.message
import dns.query

from tests.runtime.waiting import wait_until

HOST = "127.0.0.1"
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
NSD = shutil.which("nsd", path=_PATH)
RBLDNSD = shutil.which("rbldnsd", path=_PATH)
HEAD = """$TTL 300
. IN SOA ns.example. admin.example. 1 3600 600 86400 300
. IN NS ns.example.
ns.example. IN A 127.0.0.1
"""
_NSD = """
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
    verbosity: 1
remote-control:
    control-enable: no
zone:
    name: "."
    zonefile: "{folder}/root.zone"
"""


def free_udp_port() -> int:
    """Return a port that nothing listens on now, for UDP and TCP."""
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
    """A server process; a context manager."""

    def __init__(self, command: list[str], port: int, question: str) -> None:
        self.port = port
        self._command = command
        self._question = question

    @property
    def where(self) -> str:
        """Return it as the commands take it."""
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self._answers, f"{self._command[0]} answers")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)

    def _answers(self) -> bool:
        assert self._process.poll() is None, f"{self._command}: ended with status {self._process.returncode}"
        try:
            dns.query.udp(dns.message.make_query(self._question, "A"), HOST, 0.2, self.port)
        except (dns.exception.DNSException, OSError):
            return False
        return True


def nsd(folder: Path, zone: str) -> NameServer:
    """Return nsd with a zone of the root; its lines are put under a head unless they have one."""
    assert NSD is not None
    port = free_udp_port()
    (folder / "root.zone").write_text(zone if zone.startswith("$TTL") else HEAD + zone)
    config = folder / "nsd.conf"
    config.write_text(_NSD.format(host=HOST, port=port, folder=folder))
    return NameServer([NSD, "-d", "-c", str(config)], port, "ns.example.")


def rbldnsd(folder: Path, zone: str, kind: str, lines: str) -> NameServer:
    """Return rbldnsd with one list: `kind` is ip4set or dnset."""
    assert RBLDNSD is not None
    port = free_udp_port()
    (folder / "list").write_text(lines)
    # It would give up root's rights and change to a user of the system's; here it stays who we are.
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    folder.chmod(0o755)
    return NameServer(
        [RBLDNSD, "-n", *user, "-b", f"{HOST}/{port}", "-w", str(folder), f"{zone}:{kind}:list"], port, f"x.{zone}."
    )


class Proxy:
    """Passes UDP questions on to a server; a context manager.

    Parameters
    ----------
    port
        Of the server.
    """

    def __init__(self, port: int) -> None:
        self.port = free_udp_port()
        # May be replaced while it runs: question, answer -> what is sent, or None for nothing.
        self.change: Callable[[dns.message.Message, bytes], bytes | None] = lambda _, answer: answer
        self.delay_s = 0.0
        self.questions: list[str] = []
        self._server = port
        self._stop = threading.Event()

    @property
    def where(self) -> str:
        """Return it as the commands take it."""
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        """Start it."""
        self._socket = socket.socket(type=socket.SOCK_DGRAM)
        self._socket.bind((HOST, self.port))
        self._socket.settimeout(0.1)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop it."""
        self._stop.set()
        self._thread.join(30)
        self._socket.close()

    def _serve(self) -> None:
        while not self._stop.is_set():
            try:
                wire, client = self._socket.recvfrom(65_535)
            except TimeoutError:
                continue
            threading.Thread(target=self._answer, args=(wire, client), daemon=True).start()

    def _answer(self, wire: bytes, client: tuple[str, int]) -> None:
        question = dns.message.from_wire(wire)
        self.questions.append(str(question.question[0]))
        with socket.socket(type=socket.SOCK_DGRAM) as upstream:
            upstream.settimeout(10)
            upstream.sendto(wire, (HOST, self._server))
            answer: bytes | None = upstream.recv(65_535)
        time.sleep(self.delay_s)
        answer = self.change(question, answer or b"")
        if answer is not None and not self._stop.is_set():
            self._socket.sendto(answer, client)
