"""`Settings` and `MilterSettings`: all that an administrator can set, checked in one place."""

from __future__ import annotations

import math
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from emsco_runtime.errors import EmscoError
from spam_filter.service.endpoint import Endpoint

__all__ = ["MilterSettings", "OnError", "ServiceSettings", "Settings", "SettingsError"]

OnError: TypeAlias = Literal["accept", "tempfail"]
_SMTP: Final = Endpoint("127.0.0.1", 10025)
_MILTER: Final = Endpoint("127.0.0.1", 10027)
_COUNTS: Final = ("max_bytes", "max_connections", "threads", "processes")
_SECONDS: Final = ("deadline_s", "idle_s", "hop_s", "grace_s")


class SettingsError(EmscoError):
    """The service cannot be run with these settings."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What the SMTP service and the milter share.

    Parameters
    ----------
    model
        Folder of the trained model.
    listen
        Where the service accepts connections. Port 0: the system chooses.
    metrics
        Where Prometheus can ask; on the loopback interface only. None: nowhere.
    audit
        A file for one line of JSON per decision, without anything of the message. None: no such file.
    allow, block
        Files of senders, as `SenderLists` reads them. None: no such list.
    max_bytes
        The largest message that is accepted; a milter decides a larger one by its beginning.
    max_connections
        Clients at the same time, of each process; one more is answered 421. A milter closes the connection.
    deadline_s
        Time for the decision on one message. A message that takes longer is delivered undecided, marked ``error``.
    grace_s
        Time for what is under way when the service stops.
    threads
        Messages that may take long at the same time, in each process: they are decided one after the other, and one that takes
        long lets the next begin. When as many have missed their deadline and are still being decided, others are marked ``error``
        without waiting.
    dns
        What a model with lookups asks: ``HOST:PORT`` of a name server, a zone file, or ``system``.
    processes
        Processes that accept mail; above 1, one more watches over them.
    """

    model: Path
    listen: Endpoint = _SMTP
    metrics: Endpoint | None = None
    audit: Path | None = None
    allow: Path | None = None
    block: Path | None = None
    max_bytes: int = 25 * 1024 * 1024
    max_connections: int = 32
    deadline_s: float = 5.0
    grace_s: float = 20.0
    threads: int = 8
    dns: str = "system"
    processes: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot work, before anything is opened."""
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise SettingsError(f"{name}: expected a whole number of at least 1, got {getattr(self, name)}")
        for name in _SECONDS:
            # Each kind of service has some of them.
            value = getattr(self, name, 1.0)
            if not (math.isfinite(value) and value > 0):
                raise SettingsError(f"{name}: expected seconds above 0, got {value}")
        if self.metrics is not None and not self.metrics.is_loopback:
            detail = "expected an address of the loopback interface, such as 127.0.0.1:9105"
            raise SettingsError(f"metrics: {detail}, got {self.metrics}")


@dataclass(frozen=True, slots=True)
class Settings(ServiceSettings):
    """The settings of one SMTP service.

    Parameters
    ----------
    maildir, next_hop
        Where messages go: into a Maildir, or one for each recipient, or to one SMTP server. One of the two, and nowhere else.
    idle_s
        Time that a client may take from one message to the next, all its commands together, and for the text of a message.
    hop_s
        Time that the next hop may take for each of its answers.
    hostname
        How the service calls itself.
    """

    maildir: Path | None = None
    next_hop: Endpoint | None = None
    idle_s: float = 300.0
    hop_s: float = 60.0
    # Once: a lookup for each connection may be a DNS query.
    hostname: str = field(default_factory=socket.gethostname)

    def __post_init__(self) -> None:
        """Refuse what cannot work, before anything is opened."""
        ServiceSettings.__post_init__(self)
        if (self.maildir is None) == (self.next_hop is None):
            detail = "both" if self.maildir is not None else "neither"
            raise SettingsError(f"expected one destination for the mail, a Maildir or a next hop, got {detail}")
        if self.next_hop is not None and self.next_hop.port == 0:
            raise SettingsError(f"next_hop: expected a port, got {self.next_hop}")
        if self.next_hop is not None and self.next_hop == self.listen:
            raise SettingsError(f"next_hop: {self.next_hop} is this service itself, which would be a mail loop; give another")


@dataclass(frozen=True, slots=True)
class MilterSettings(ServiceSettings):
    """The settings of one milter.

    Parameters
    ----------
    on_error
        What becomes of a message that could not be decided: "accept" it, marked ``error``, or let the client try again.
    """

    listen: Endpoint = _MILTER
    # A mail server has a connection for each of its own clients, 100 for Postfix.
    max_connections: int = 200
    on_error: OnError = "accept"
