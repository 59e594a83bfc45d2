"""`Endpoint`: a host and a port, as an administrator writes them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

__all__ = ["Endpoint"]

_MOST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to listen, or where to connect.

    Parameters
    ----------
    host
        A name or an address; an IPv6 address without its brackets.
    port
        0 lets the system choose one, which makes sense for listening only.

    Examples
    --------
    >>> Endpoint.parse("127.0.0.1:10025").is_loopback, Endpoint.parse("[::1]:25")
    (True, Endpoint(host='::1', port=25))
    >>> str(Endpoint("::1", 25))
    '[::1]:25'
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """Return what ``HOST:PORT`` or ``[IPV6]:PORT`` means.

        Raises
        ------
        ValueError
            If it is neither.
        """
        host, colon, port = text.rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > _MOST_PORT:
            raise ValueError(f"expected HOST:PORT, such as 127.0.0.1:10025, got {text!r}")
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            # A name: it may mean anything.
            return False

    def __str__(self) -> str:
        """Return it as `parse` takes it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
