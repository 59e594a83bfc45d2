"""The client's address behind another mail server: XFORWARD, by which Postfix says which client it got a message from.

Without it the client of an after-queue filter is always the mail server itself. It is trusted only from this machine: whoever
else could say it would choose the address that is looked up in block lists and compared with SPF records.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["KEYWORD", "Client", "client_of", "is_trusted", "read_attributes"]

KEYWORD: Final = "XFORWARD NAME ADDR PORT PROTO HELO SOURCE"
_KNOWN: Final = frozenset({"NAME", "ADDR", "PORT", "PROTO", "HELO", "SOURCE", "IDENT"})
_UNKNOWN_VALUES: Final = frozenset({"[UNAVAILABLE]", "[TEMPUNAVAIL]"})
_XTEXT: Final = re.compile(r"\+([0-9A-F]{2})")


@dataclass(frozen=True, slots=True)
class Client:
    """Who sends.

    Parameters
    ----------
    address
        Of the client; empty where it is unknown.
    helo
        How it calls itself.
    """

    address: str
    helo: str


def read_attributes(text: str) -> dict[str, str] | None:
    r"""Return the attributes of XFORWARD, decoded; None for anything else.

    Examples
    --------
    >>> read_attributes("ADDR=192.0.2.7 HELO=a+2Bb NAME=[UNAVAILABLE]")
    {'ADDR': '192.0.2.7', 'HELO': 'a+b', 'NAME': ''}
    >>> read_attributes("ADDR=IPV6:2001:db8::1"), read_attributes("COLOUR=red"), read_attributes("")
    ({'ADDR': '2001:db8::1'}, None, None)
    """
    found: dict[str, str] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if name.upper() not in _KNOWN or not equals:
            return None
        plain = _XTEXT.sub(lambda match: chr(int(match[1], 16)), value)
        found[name.upper()] = "" if plain in _UNKNOWN_VALUES else plain
    if found.get("ADDR", "").upper().startswith("IPV6:"):
        found["ADDR"] = found["ADDR"][len("IPV6:") :]
    return found or None


def client_of(peer: object, helo: str, forwarded: Mapping[str, str]) -> Client:
    """Return who sends a message: as XFORWARD said, else the other end of the connection.

    Parameters
    ----------
    peer
        The other end, as a socket has it.
    helo
        How it calls itself.
    forwarded
        Attributes of XFORWARD; empty where there were none.

    Examples
    --------
    >>> client_of(("127.0.0.1", 1), "us.example", {}), client_of(("127.0.0.1", 1), "us.example", {"ADDR": "192.0.2.7"})
    (Client(address='127.0.0.1', helo='us.example'), Client(address='192.0.2.7', helo=''))
    """
    if "ADDR" in forwarded:
        return Client(forwarded["ADDR"], forwarded.get("HELO", ""))
    return Client(_address(peer), helo)


def is_trusted(peer: object) -> bool:
    """Return whether the other end of a connection is on this machine."""
    try:
        return ipaddress.ip_address(_address(peer)).is_loopback
    except ValueError:
        # A socket of the file system: only this machine can reach it.
        return True


def _address(peer: object) -> str:
    """Return the address at the other end; a socket of the file system has none."""
    return str(peer[0]) if isinstance(peer, tuple) and peer else str(peer or "")
