"""`Verdict`: what the filter says of one message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["MailStatus", "Verdict"]

MailStatus: TypeAlias = Literal["spam", "ham", "unsure", "error"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the filter says about one message.

    Parameters
    ----------
    status
        "spam" or "ham" where the cascade was confident, "unsure" where it was not, "error" where we failed.
    confidence
        Probability of the likelier label at the last stage scored; None when none was.
    stage
        How many stages were scored.
    cost
        In the bundle's unit; None where there was no decision.
    unit
        The unit of the cost.
    bundle
        Id of the bundle that decided; None where there was no decision.
    note
        For an error: its kind, without anything of the message.
    failed_sources
        The sources that failed, and in whose place fallback values were used.
    listed
        Which list of senders had a say; empty for none.
    unread
        Whether it would be ham if all of it had been read.
    """

    status: MailStatus
    confidence: float | None = None
    stage: int | None = None
    cost: float | None = None
    unit: str = ""
    bundle: str | None = None
    note: str = ""
    failed_sources: tuple[str, ...] = ()
    listed: Literal["", "allow", "block"] = ""
    unread: bool = False

    @property
    def degraded(self) -> bool:
        """Return whether a fallback value was used."""
        return bool(self.failed_sources)
