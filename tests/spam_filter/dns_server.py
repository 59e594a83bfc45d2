"""A real name server on the loopback interface, and a proxy in front of it that is slow, silent, or lies."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import dns.message
from spam_filter.synthetic.name_server import HOST, NSD, NameServer, free_port, nsd

__all__ = ["HEAD", "HOST", "NSD", "RBLDNSD", "NameServer", "Proxy", "nsd", "rbldnsd"]

RBLDNSD = shutil.which("rbldnsd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
HEAD = """$TTL 300
. IN SOA ns.example. admin.example. 1 3600 600 86400 300
. IN NS ns.example.
ns.example. IN A 127.0.0.1
"""


def rbldnsd(folder: Path, zone: str, kind: str, lines: str) -> NameServer:
    """Return rbldnsd with one list: `kind` is ip4set or dnset."""
    assert RBLDNSD is not None
    port = free_port()
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
        self.port = free_port()
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
