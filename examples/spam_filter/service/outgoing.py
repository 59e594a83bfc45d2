"""`OutgoingMessage`: a message on its way out, and `DeliveryResult`: what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

__all__ = ["Delivery", "DeliveryResult", "Outcome", "OutgoingMessage", "one_line"]

Outcome = Literal["delivered", "deferred", "refused"]
_MOST_TEXT = 300


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message on its way out.

    Parameters
    ----------
    content
        Its bytes, our headers included.
    sender
        MAIL FROM; empty for a bounce.
    recipients
        RCPT TO.
    utf8
        The client said SMTPUTF8.
    """

    content: bytes
    sender: str
    recipients: tuple[str, ...]
    utf8: bool = False


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """What became of a message.

    Parameters
    ----------
    outcome
        "delivered": it is safe elsewhere. "deferred": the sender is to keep it and try again. "refused": it cannot be delivered.
    reply
        The SMTP reply that says so: 2xx, 4xx or 5xx.
    quoted
        Whether its text is another server's, which may hold addresses.
    """

    outcome: Outcome
    reply: str
    quoted: bool = False


class Delivery(Protocol):
    """A place for mail."""

    @property
    def max_recipients(self) -> int:
        """Return how many recipients one message may have."""

    def deliver(self, message: OutgoingMessage) -> DeliveryResult:
        """Hand a message on; never raises for trouble with the place, and says "delivered" only when the message is safe."""


def one_line(text: str) -> str:
    r"""Return a text as part of one line of an SMTP reply.

    Examples
    --------
    >>> one_line("disk full\r\n250 OK")
    'disk full 250 OK'
    """
    plain = "".join(character if "!" <= character <= "~" else " " for character in text[:_MOST_TEXT])
    return " ".join(plain.split())
