"""`Settings`: all that an administrator can set, checked in one place."""

from __future__ import annotations

import math
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from spam_filter.service.endpoint import Endpoint

__all__ = ["Settings", "SettingsError", "check_metrics", "check_values"]

_LISTEN: Final = Endpoint("127.0.0.1", 10025)


class SettingsError(Exception):
    """The service cannot be run with these settings."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one service.

    Parameters
    ----------
    model
        Folder of the trained model.
    maildir, next_hop
        Where messages go: into a Maildir, or one for each recipient, or to one SMTP server. One of the two, and nowhere else.
    listen
        Where the service accepts mail. Port 0: the system chooses.
    metrics
        Where Prometheus can ask; on the loopback interface only. None: nowhere.
    audit
        A file for one line of JSON per decision, without anything of the message. None: no such file.
    allow, block
        Files of senders, as `SenderLists` reads them. None: no such list.
    max_bytes
        The largest message that is accepted.
    max_connections
        Clients at the same time, of each process; one more is answered 421.
    deadline_s
        Time for the decision on one message. A message that takes longer is delivered undecided, marked ``error``.
    idle_s
        Time that a client may take from one message to the next, all its commands together, and for the text of a message.
    hop_s
        Time that the next hop may take for each of its answers.
    grace_s
        Time for what is under way when the service stops.
    threads
        Messages that are decided at the same time, in each process.
    dns
        Whom a model with look-ups asks: ``HOST:PORT`` of a name server, a zone file, or ``system``.
    processes
        Processes that accept mail; above 1, one more watches over them.
    hostname
        How the service calls itself.
    """

    model: Path
    maildir: Path | None = None
    next_hop: Endpoint | None = None
    listen: Endpoint = _LISTEN
    metrics: Endpoint | None = None
    audit: Path | None = None
    allow: Path | None = None
    block: Path | None = None
    max_bytes: int = 25 * 1024 * 1024
    max_connections: int = 32
    deadline_s: float = 5.0
    idle_s: float = 300.0
    hop_s: float = 60.0
    grace_s: float = 20.0
    threads: int = 4
    dns: str = "system"
    processes: int = 1
    # Once: a look-up for each connection may be a DNS query.
    hostname: str = field(default_factory=socket.gethostname)

    def __post_init__(self) -> None:
        """Refuse what cannot work, before anything is opened."""
        check_values(self, ("max_bytes", "max_connections", "threads", "processes"), ("deadline_s", "idle_s", "hop_s", "grace_s"))
        if (self.maildir is None) == (self.next_hop is None):
            detail = "both" if self.maildir is not None else "neither"
            raise SettingsError(f"expected one destination for the mail, a Maildir or a next hop, got {detail}")
        check_metrics(self.metrics)
        if self.next_hop is not None and self.next_hop.port == 0:
            raise SettingsError(f"next_hop: expected a port, got {self.next_hop}")
        if self.next_hop is not None and self.next_hop == self.listen:
            raise SettingsError(f"next_hop: {self.next_hop} is this service itself, which would be a mail loop; give another")


def check_values(settings: object, counts: Sequence[str], seconds: Sequence[str]) -> None:
    """Refuse counts below 1, and times that are not above 0, of any settings."""
    for name in counts:
        if getattr(settings, name) < 1:
            raise SettingsError(f"{name}: expected a whole number of at least 1, got {getattr(settings, name)}")
    for name in seconds:
        value = getattr(settings, name)
        if not (math.isfinite(value) and value > 0):
            raise SettingsError(f"{name}: expected seconds above 0, got {value}")


def check_metrics(where: Endpoint | None) -> None:
    """Refuse to show metrics to other machines."""
    if where is not None and not where.is_loopback:
        raise SettingsError(f"metrics: expected an address of the loopback interface, such as 127.0.0.1:9105, got {where}")
