"""`ClueCounts`: in how many spam and ham messages each clue was seen, and which letters follow each other in ham."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from spam_filter.learned.clues import all_clues
from spam_filter.learned.letter_model import LetterCounts
from spam_filter.message.mail import Mail

__all__ = ["ClueCounts", "log_odds"]

_PRIOR_MESSAGES: Final = 0.6
"""The weight of the neutral prior of every clue, in messages."""


def log_odds(spam: int, ham: int, spam_messages: int, ham_messages: int) -> float:
    """Return how much a clue indicates spam (above 0) or ham (below 0), in nats.

    Shares of the two kinds of messages are compared, not counts: that one kind is more frequent says nothing about a clue. A clue
    that was seen once counts little (Robinson's correction).

    Examples
    --------
    >>> log_odds(0, 0, 100, 100), round(log_odds(1, 0, 100, 100), 2), round(log_odds(50, 1, 100, 100), 2)
    (0.0, 1.47, 3.66)
    """
    in_spam, in_ham = spam / max(spam_messages, 1), ham / max(ham_messages, 1)
    seen = spam + ham
    if not seen:
        return 0.0
    share = in_spam / (in_spam + in_ham)
    probability = (_PRIOR_MESSAGES * 0.5 + seen * share) / (_PRIOR_MESSAGES + seen)
    return math.log(probability / (1 - probability))


@dataclass(slots=True)
class ClueCounts:
    """Counts over labelled messages.

    Parameters
    ----------
    spam, ham
        Clue -> number of messages of that kind that have it.
    spam_messages, ham_messages
        Messages counted.
    letters
        Of ham.
    """

    spam: dict[int, int] = field(default_factory=dict)
    ham: dict[int, int] = field(default_factory=dict)
    spam_messages: int = 0
    ham_messages: int = 0
    letters: LetterCounts = field(default_factory=LetterCounts)

    @classmethod
    def of(cls, mails: Iterable[tuple[Mail, str]], own_domains: AbstractSet[str] = frozenset()) -> ClueCounts:
        """Count the clues of messages with their labels, "spam" or "ham".

        Parameters
        ----------
        mails
            The messages.
        own_domains
            As in `all_clues`.
        """
        knowledge = cls()
        for mail, label in mails:
            knowledge.learn(mail, label, own_domains)
        return knowledge

    def learn(self, mail: Mail, label: str, own_domains: AbstractSet[str] = frozenset()) -> None:
        """Count one message."""
        if label == "spam":
            counts = self.spam
            self.spam_messages += 1
        else:
            counts = self.ham
            self.ham_messages += 1
            self.letters.read(mail.text)
        for one in all_clues(mail, own_domains):
            counts[one] = counts.get(one, 0) + 1

    @classmethod
    def union(cls, parts: Iterable[ClueCounts]) -> ClueCounts:
        """Return what several of them know together, of messages that are not the same."""
        whole = cls()
        for part in parts:
            for mine, its in ((whole.spam, part.spam), (whole.ham, part.ham)):
                for clue, count in its.items():
                    mine[clue] = mine.get(clue, 0) + count
            whole.spam_messages += part.spam_messages
            whole.ham_messages += part.ham_messages
            whole.letters.add(part.letters)
        return whole

    def excluding(self, part: ClueCounts, others: AbstractSet[int] = frozenset()) -> ClueCounts:
        """Return what the other messages know of the clues of a part of them: as if that part had never been seen.

        Letters stay: they are not evidence for a label.

        Parameters
        ----------
        part
            Counts of the part.
        others
            More clues that will be asked for.
        """
        asked = {*part.spam, *part.ham, *others}
        return ClueCounts(
            _subtract(self.spam, part.spam, asked),
            _subtract(self.ham, part.ham, asked),
            self.spam_messages - part.spam_messages,
            self.ham_messages - part.ham_messages,
            self.letters,
        )


def _subtract(counts: Mapping[int, int], part: Mapping[int, int], asked: AbstractSet[int]) -> dict[int, int]:
    return {clue: left for clue in asked if (left := counts.get(clue, 0) - part.get(clue, 0))}
