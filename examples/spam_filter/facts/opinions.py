"""What the stores think of a message: look-ups in SQLite, several features from each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from spam_filter.learnt.clues import host_clues, opening_clues, sender_clues, subject_clues, word_clues
from spam_filter.learnt.stores import Stores
from spam_filter.message.characters import share
from spam_filter.message.mail import Mail

__all__ = [
    "HOST_OPINIONS",
    "OPENING_OPINIONS",
    "SENDER_OPINIONS",
    "SUBJECT_OPINIONS",
    "WORD_OPINIONS",
    "combined",
    "host_opinions",
    "opening_opinions",
    "sender_opinions",
    "subject_opinions",
    "word_opinions",
]

SENDER_OPINIONS: Final = ("sender_reputation", "sender_known")
SUBJECT_OPINIONS: Final = ("subject_score",)
OPENING_OPINIONS: Final = ("opening_score",)
WORD_OPINIONS: Final = ("words_score", "words_mean")
HOST_OPINIONS: Final = ("hosts_reputation",)

_STRONGEST: Final = 40


def combined(opinions: Sequence[float], strongest: int = _STRONGEST) -> float:
    """Return the sum of the strongest opinions, over the root of their number: the sum of many weak ones does not drown all else.

    Examples
    --------
    >>> combined([2.0, 0.1, -0.1, 2.0], strongest=2) > combined([2.0, -2.0]) == combined([])
    True
    """
    chosen = sorted(opinions, key=abs)[-strongest:]
    return math.fsum(chosen) / math.sqrt(len(chosen)) if chosen else 0.0


def sender_opinions(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return what is known of the sender's address and domain."""
    opinions = stores.opinions(sender_clues(mail))
    return {"sender_reputation": math.fsum(opinions), "sender_known": float(len(opinions))}


def subject_opinions(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return what the words of subject and sender's name suggest."""
    return {"subject_score": combined(stores.opinions(subject_clues(mail)))}


def opening_opinions(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return what the first words suggest."""
    return {"opening_score": combined(stores.opinions(opening_clues(mail)))}


def word_opinions(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return what all words and pairs suggest: the strongest of them, and all of them."""
    opinions = stores.opinions(word_clues(mail))
    return {"words_score": combined(opinions), "words_mean": share(math.fsum(opinions), len(opinions))}


def host_opinions(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return what is known of the hosts that links point at."""
    return {"hosts_reputation": combined(stores.opinions(host_clues(mail)))}
