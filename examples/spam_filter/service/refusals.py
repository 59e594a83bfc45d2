"""`Refusals`: clients that are answered 421 and hung up on, logged and counted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from prometheus_client import Counter

__all__ = ["RefusalReason", "Refusals"]

RefusalReason: TypeAlias = Literal["connections", "commands", "time"]
_REPLIES: Final[dict[RefusalReason, str]] = {
    "connections": "421 4.3.2 too many connections, try again",
    "commands": "421 4.7.0 too many commands without a message",
    "time": "421 4.4.2 too much time without a message",
}
_log = logging.getLogger("spam_filter")


class Refusals:
    """Answers 421.

    Parameters
    ----------
    counter
        By reason.
    """

    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    def reply(self, reason: RefusalReason, peer: object) -> str:
        """Log and count a refusal, and return the line to send."""
        text = _REPLIES[reason]
        self._counter.labels(reason).inc()
        _log.warning("answered %s to %s", text, peer[0] if isinstance(peer, tuple) and peer else peer or "a client")
        return text
