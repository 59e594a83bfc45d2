"""The client's address behind another mail server: XFORWARD, by which Postfix says which client it got a message from.

Without it the client of an after-queue filter is always the mail server itself. It is trusted only from this machine: whoever
else could say it would choose the address that is looked up in block lists and compared with SPF records.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiosmtpd.smtp import SMTP

if TYPE_CHECKING:
    from aiosmtpd.smtp import Envelope, Session

__all__ = ["KEYWORD", "Client", "ForwardedClient", "client_of", "read_attributes"]

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


class ForwardedClient(SMTP):
    """A conversation that knows XFORWARD."""

    async def smtp_XFORWARD(self, arg: str) -> None:  # noqa: N802 - aiosmtpd's form of names
        """Take the client's address from a mail server on this machine; it holds for one message."""
        attributes = read_attributes(arg or "")
        if not _is_loopback(_peer_address(self.session)):
            await self.push("550 5.7.0 XFORWARD is for mail servers on this machine")
        elif attributes is None or self.envelope is None:
            await self.push("501 5.5.4 syntax: XFORWARD NAME=value ...")
        else:
            # Postfix may need more than one line. The envelope is new for every message, so that nothing is left for the next.
            before = getattr(self.envelope, "forwarded", {})
            self.envelope.forwarded = {**before, **attributes}  # type: ignore[attr-defined]
            await self.push("250 2.0.0 OK")


def client_of(session: Session, envelope: Envelope) -> Client:
    """Return who sends a message: as XFORWARD said, else the other end of the connection."""
    forwarded: dict[str, str] | None = getattr(envelope, "forwarded", None)
    if forwarded is not None and "ADDR" in forwarded:
        return Client(forwarded["ADDR"], forwarded.get("HELO", ""))
    return Client(_peer_address(session), str(session.host_name or ""))


def _peer_address(session: Any) -> str:
    """Return the address at the other end; a socket of the file system has none."""
    peer: object = session.peer
    return str(peer[0]) if isinstance(peer, tuple) and peer else str(peer or "")


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        # A socket of the file system: only this machine can reach it.
        return True
