"""Listening sockets, opened before anything that uses them, so that several processes can accept from the same ones."""

from __future__ import annotations

import logging
import socket
import sys

from spam_filter.service.endpoint import Endpoint
from spam_filter.service.settings import SettingsError

__all__ = ["announce", "open_listeners", "print_line"]

_log = logging.getLogger("spam_filter")


def open_listeners(listen: Endpoint, backlog: int) -> list[socket.socket]:
    """Return a socket for each address of an endpoint.

    Parameters
    ----------
    listen
        Where; port 0: the system chooses.
    backlog
        Clients that may wait to be accepted.

    Raises
    ------
    SettingsError
        If an address cannot be used.
    """
    found: list[socket.socket] = []
    try:
        addresses = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            # With its protocol, which socket.create_server leaves out: asyncio sends small answers at once by TCP alone.
            listener = socket.socket(family, kind, protocol)
            found.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen(backlog)
    except OSError as error:
        for listener in found:
            listener.close()
        raise SettingsError(
            f"listen: {listen} cannot be used: {error.strerror}; choose another, or stop what is there"
        ) from error
    return found


def announce(listen: Endpoint, listeners: list[socket.socket]) -> None:
    """Say where mail is accepted: whatever started the service waits for this line."""
    if not listen.is_loopback:
        _log.warning("%s can be reached from other machines; anyone there can send mail through it", listen)
    host, port = listeners[0].getsockname()[:2]
    print_line(f"listening on {Endpoint(host, port)}")


def print_line(text: str) -> None:
    """Write a line that is read at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
