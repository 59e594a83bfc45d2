"""`Origin`: where a message came from, as far as we can trust it.

A message in service has an envelope, and nothing else is trusted: its Received fields are whatever the sender wrote. A message
of a corpus has none, so its Received fields are all there is: the first public address from the top is taken for the client.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from spam_filter.message.address import read_address
from spam_filter.message.mail import Mail

__all__ = ["Origin", "origin_of"]

_ADDRESS: Final = re.compile(r"\[(?:IPv6:)?([0-9A-Fa-f:.]{3,45})\]")
_HELO: Final = re.compile(r"^\s*from\s+([A-Za-z0-9._-]{1,255})")
_MOST_FIELD: Final = 1_000
_MOST_FIELDS: Final = 20


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a message came from.

    Parameters
    ----------
    address
        Of the client; None where it is unknown, or an address of our own network.
    helo
        How the client called itself.
    sender
        MAIL FROM; empty for a bounce.
    """

    address: str | None
    helo: str
    sender: str


def origin_of(mail: Mail) -> Origin:
    r"""Return where a message came from.

    Examples
    --------
    >>> fields = b"Received: from a.b (a.b [10.0.0.1])\nReceived: from mx.x.org (x [192.0.2.7] (may be forged)) by us\n"
    >>> origin_of(Mail.parse(b"Return-Path: <a@x.org>\n" + fields + b"\n"))
    Origin(address='192.0.2.7', helo='mx.x.org', sender='a@x.org')
    """
    envelope = mail.envelope
    if envelope is not None:
        return Origin(_public(envelope.peer), envelope.helo, envelope.sender)
    sender = str(read_address(mail.headers.get("return-path")))
    for field in mail.received[:_MOST_FIELDS]:
        for match in _ADDRESS.finditer(field[:_MOST_FIELD]):
            address = _public(match[1])
            if address is not None:
                helo = _HELO.match(field[:_MOST_FIELD])
                return Origin(address, "" if helo is None else helo[1], sender)
    return Origin(None, "", sender)


def _public(text: str) -> str | None:
    """Return an address as text, if it may be that of a client: neither loopback nor a private network."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    unusable = address.is_loopback or address.is_unspecified or address.is_link_local or address.is_multicast
    return (
        None
        if unusable or any(address in network for network in _PRIVATE if network.version == address.version)
        else str(address)
    )


# `is_private` would refuse the addresses of examples and tests too.
_PRIVATE: Final = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")))
