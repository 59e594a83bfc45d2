"""The cheapest tier: what the header says, without a look at the body.

No fact here shows how a corpus was collected: no list headers, no In-Reply-To, no Delivered-To, no field that the receiving side
adds but the plain number of hops.
"""

from __future__ import annotations

import math
import re
from typing import Final

from spam_filter.message.address import parse_date
from spam_filter.message.characters import CharacterShares, entropy, share
from spam_filter.message.mail import Mail

__all__ = [
    "date_skew",
    "hops",
    "message_id_foreign",
    "recipients",
    "reply_elsewhere",
    "sender_digits",
    "size",
    "subject_capitals",
    "subject_digits",
    "subject_diversity",
    "subject_entropy",
    "subject_gap",
    "subject_length",
    "subject_shouts",
]

_GAP: Final = re.compile(r"\s{5}")
_HOURS_AT_MOST: Final = 10_000.0


def size(mail: Mail) -> float:
    """Return the size of the body in bytes, as a logarithm; the header grows with every server on the way."""
    return math.log1p(len(mail.raw) - mail.headers.body)


def subject_length(mail: Mail) -> float:
    """Return the number of characters in the subject."""
    return float(len(mail.subject))


def subject_capitals(mail: Mail) -> float:
    """Return the share of capitals among the subject's letters."""
    return CharacterShares.of(mail.subject).capitals


def subject_digits(mail: Mail) -> float:
    """Return the share of digits in the subject."""
    return CharacterShares.of(mail.subject).digits


def subject_entropy(mail: Mail) -> float:
    """Return the entropy of the subject's characters."""
    return entropy(mail.subject)


def subject_diversity(mail: Mail) -> float:
    """Return how many different characters the subject has, per character."""
    return share(len(set(mail.subject)), len(mail.subject))


def subject_shouts(mail: Mail) -> float:
    """Return how many marks of excitement or money are in the subject."""
    return float(sum(map(mail.subject.count, "!$%*?")))


def subject_gap(mail: Mail) -> bool:
    """Return whether the subject has a gap, as before the random letters that make copies differ."""
    return _GAP.search(mail.subject) is not None


def sender_digits(mail: Mail) -> float:
    """Return the share of digits in the sender's local part."""
    return CharacterShares.of(mail.sender.local).digits


def reply_elsewhere(mail: Mail) -> bool:
    """Return whether answers go to another domain than the message claims to be from."""
    return bool(mail.reply_to.host) and mail.reply_to.domain != mail.sender.domain


def recipients(mail: Mail) -> float:
    """Return how many addresses To and Cc name: none, one or many, as a logarithm."""
    return math.log1p(len(mail.recipients))


def message_id_foreign(mail: Mail) -> bool:
    """Return whether the message id was made under another domain than the sender's."""
    host = mail.headers.get("message-id").rpartition("@")[2].strip(" >").lower()
    return not host.endswith(mail.sender.domain or "-")


def hops(mail: Mail) -> float:
    """Return the number of Received fields."""
    return float(len(mail.received))


def date_skew(mail: Mail) -> float:
    """Return how many hours lie between the date the sender gave and the first hop, as a logarithm; much where one is missing."""
    first = parse_date(mail.received[-1].rpartition(";")[2].strip()) if mail.received else None
    if mail.date is None or first is None:
        return math.log1p(_HOURS_AT_MOST)
    return math.log1p(min(abs((mail.date - first).total_seconds()) / 3600, _HOURS_AT_MOST))
