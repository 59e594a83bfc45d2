"""Load: many messages through a running service, and how fast it handles them.

Only a service on the loopback interface is loaded, with a bounded number of messages and connections.
"""

from __future__ import annotations

import re
import smtplib
import socket
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from spam_filter.service.endpoint import Endpoint
from spam_filter.service.next_hop import stuff_dots

__all__ = ["MAX_CONNECTIONS", "MAX_MESSAGES", "DeliveredCosts", "LoadError", "LoadResult", "read_delivered_costs", "send_all"]

MAX_MESSAGES: Final = 100_000
MAX_CONNECTIONS: Final = 32
_TIMEOUT_S: Final = 60.0
_MESSAGES_OF_CONNECTION: Final = 20
_HEADER_BYTES: Final = 2000
_ADDRESS: Final = "load@example.org"
_COMMANDS: Final = f"MAIL FROM:<{_ADDRESS}>\r\nRCPT TO:<{_ADDRESS}>\r\nDATA\r\n".encode()
_COST: Final = re.compile(rb"^X-Emsco-Cost: ([0-9.e+-]+)", re.MULTILINE)
_STATUS: Final = re.compile(rb"^X-Emsco-Status: (\w+)", re.MULTILINE)


class LoadError(Exception):
    """A load that is refused, or a service that did not accept it."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """How fast the messages were accepted.

    Parameters
    ----------
    seconds
        From the first to the last answer.
    latencies_s
        From MAIL to the answer to the whole message, sorted.
    """

    seconds: float
    latencies_s: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Return messages per second."""
        return len(self.latencies_s) / self.seconds

    def percentile_ms(self, share: float) -> float:
        """Return the latency that such a share of the messages did not exceed."""
        position = min(len(self.latencies_s) - 1, int(share * len(self.latencies_s)))
        return 1000 * self.latencies_s[position]


@dataclass(frozen=True, slots=True)
class DeliveredCosts:
    """What the headers of the delivered messages say.

    Parameters
    ----------
    mean_cost
        Of the messages with a cost header.
    statuses
        Status -> messages.
    """

    mean_cost: float
    statuses: Mapping[str, int]


def send_all(where: Endpoint, messages: Sequence[bytes], connections: int) -> LoadResult:
    """Send messages over several connections at once, each as fast as it is answered.

    Parameters
    ----------
    where
        The service.
    messages
        Whole messages; line ends become those of SMTP.
    connections
        Senders at the same time.

    Raises
    ------
    LoadError
        If the service is elsewhere, the load is out of bounds, or a message is not answered 250.
    """
    if not where.is_loopback:
        raise LoadError(f"{where} is not on the loopback interface: load is for a service of this machine only")
    if not 0 < len(messages) <= MAX_MESSAGES or not 0 < connections <= MAX_CONNECTIONS:
        detail = f"got {len(messages)} and {connections}"
        raise LoadError(f"expected 1 to {MAX_MESSAGES} messages and 1 to {MAX_CONNECTIONS} connections, {detail}")
    # As they go over the wire: the clients share the machine with the service, and should do little while it is measured.
    texts = [stuff_dots(re.sub(rb"\r?\n", b"\r\n", message)) for message in messages]
    latencies: list[float] = []
    errors: list[Exception] = []
    # Each takes the next message when it is free: where the service's processes have more and fewer connections, all stay busy.
    waiting = iter(texts)
    threads = [threading.Thread(target=_send, args=(where, waiting, latencies, errors)) for _ in range(connections)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    if errors:
        raise LoadError(f"a message was not accepted: {errors[0]}") from errors[0]
    if len(latencies) < len(texts):
        raise LoadError(f"only {len(latencies)} of {len(texts)} messages were answered")
    return LoadResult(seconds, tuple(sorted(latencies)))


def _send(where: Endpoint, texts: Iterator[bytes], latencies: list[float], errors: list[Exception]) -> None:
    """Send messages, over one connection at a time.

    All are shared: the next of a list and appending to one are safe among threads. Each connection belongs to one process of the
    service, by chance: with a new one now and then, each process has its share.
    """
    try:
        while batch := list(islice(texts, _MESSAGES_OF_CONNECTION)):
            with smtplib.SMTP(where.host, where.port, local_hostname="load.example", timeout=_TIMEOUT_S) as client:
                client.ehlo()
                # Not by smtplib from here on, which would take a tenth of the time of the service.
                connection = client.sock
                if connection is None:
                    raise smtplib.SMTPServerDisconnected("the service hung up")
                for text in batch:
                    started = time.perf_counter()
                    _send_one(connection, text)
                    latencies.append(time.perf_counter() - started)
    except OSError as error:
        # smtplib's errors are OSErrors too. A thread cannot raise it to its caller: `send_all` does.
        errors.append(error)


def _send_one(connection: socket.socket, text: bytes) -> None:
    """Send the text of a message; its commands go at once, as mail servers send them (RFC 2920)."""
    connection.sendall(_COMMANDS)
    _expect(connection, (b"250", b"250", b"354"))
    connection.sendall(text)
    _expect(connection, (b"250",))


def _expect(connection: socket.socket, codes: Sequence[bytes]) -> None:
    """Read as many replies as there are codes, each of one line; raise if one has another code."""
    answer = b""
    while answer.count(b"\n") < len(codes):
        piece = connection.recv(4096)
        if not piece:
            raise smtplib.SMTPServerDisconnected("the service hung up")
        answer += piece
    if [line[:4] for line in answer.splitlines()] != [code + b" " for code in codes]:
        raise smtplib.SMTPException(f"expected {b' '.join(codes).decode()}, got {answer.decode('ascii', 'replace').strip()!r}")


def read_delivered_costs(maildir: Path, *, ignored: AbstractSet[str] = frozenset()) -> DeliveredCosts:
    """Read our headers of the messages in a Maildir, but for some files."""
    costs: list[float] = []
    statuses: Counter[str] = Counter()
    for path in (maildir / "new").iterdir():
        if path.name in ignored:
            continue
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
        if found := _COST.search(header):
            costs.append(float(found[1]))
        if found := _STATUS.search(header):
            statuses[found[1].decode()] += 1
    return DeliveredCosts(statistics.fmean(costs) if costs else 0.0, dict(sorted(statuses.items())))
