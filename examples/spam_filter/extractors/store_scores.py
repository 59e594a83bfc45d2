"""What the stores think of a message: look-ups in SQLite, several features from each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from spam_filter.learned.clues import host_clues, opening_clues, sender_clues, subject_clues, word_clues
from spam_filter.learned.stores import Stores
from spam_filter.message.characters import share
from spam_filter.message.mail import Mail

__all__ = [
    "HOST_SCORES",
    "OPENING_SCORES",
    "SENDER_SCORES",
    "SUBJECT_SCORES",
    "WORD_SCORES",
    "combine_scores",
    "host_scores",
    "opening_scores",
    "sender_scores",
    "subject_scores",
    "word_scores",
]

SENDER_SCORES: Final = ("sender_reputation", "sender_known")
SUBJECT_SCORES: Final = ("subject_score",)
OPENING_SCORES: Final = ("opening_score",)
WORD_SCORES: Final = ("words_score", "words_mean")
HOST_SCORES: Final = ("hosts_reputation",)

_STRONGEST: Final = 40


def combine_scores(clue_scores: Sequence[float], strongest: int = _STRONGEST) -> float:
    """Return the sum of the strongest opinions, over the root of their number: the sum of many weak ones does not drown all else.

    Examples
    --------
    >>> combine_scores([2.0, 0.1, -0.1, 2.0], strongest=2) > combine_scores([2.0, -2.0]) == combine_scores([])
    True
    """
    chosen = sorted(clue_scores, key=abs)[-strongest:]
    return math.fsum(chosen) / math.sqrt(len(chosen)) if chosen else 0.0


def sender_scores(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return what is known of the sender's address and domain."""
    clue_scores = stores.clue_scores(sender_clues(mail))
    return {"sender_reputation": math.fsum(clue_scores), "sender_known": float(len(clue_scores))}


def subject_scores(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return what the words of subject and sender's name suggest."""
    return {"subject_score": combine_scores(stores.clue_scores(subject_clues(mail)))}


def opening_scores(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return what the first words suggest."""
    return {"opening_score": combine_scores(stores.clue_scores(opening_clues(mail)))}


def word_scores(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return what all words and pairs suggest: the strongest of them, and all of them."""
    clue_scores = stores.clue_scores(word_clues(mail))
    return {"words_score": combine_scores(clue_scores), "words_mean": share(math.fsum(clue_scores), len(clue_scores))}


def host_scores(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return what is known of the hosts that links point at."""
    return {"hosts_reputation": combine_scores(stores.clue_scores(host_clues(mail)))}
