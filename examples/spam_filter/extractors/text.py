"""The second tier: one pass over the decoded text, its links and its parts."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Mapping
from typing import Final

from spam_filter.learned.clues import link_hosts
from spam_filter.message.address import registered_domain
from spam_filter.message.characters import CharacterShares, share
from spam_filter.message.limits import COMPRESSED_CHARACTERS
from spam_filter.message.mail import Mail

__all__ = ["LINK_FEATURES", "TEXT_FEATURES", "link_features", "squeezability", "text_features"]

TEXT_FEATURES: Final = (
    "text_length",
    "text_capitals",
    "text_digits",
    "text_shouts",
    "text_money",
    "text_quoted",
    "text_hidden",
    "text_disguised",
    "html_share",
)
LINK_FEATURES: Final = ("links", "link_hosts", "link_numeric", "links_to_sender")

_NUMERIC: Final = re.compile(r"[0-9.]{4,}|0x[0-9a-f]+|.*%[0-9a-f]{2}.*")
# A line break first, which is found quickly; the first line gets one, too.
_QUOTED: Final = re.compile(r"\n[ \t]{0,3}>")


def text_features(mail: Mail) -> Mapping[str, float | bool]:
    """Return all facts about the text at once: each needs the same pass."""
    text, length = mail.text, len(mail.text)
    lines = text.count("\n") + 1
    shares = CharacterShares.of(text)
    return {
        "text_length": math.log1p(length),
        "text_capitals": shares.capitals,
        "text_digits": shares.digits,
        "text_shouts": math.log1p(1000 * share(text.count("!"), length)),
        "text_money": math.log1p(1000 * share(text.count("$") + text.count("%") + text.count("€"), length)),
        "text_quoted": share(len(_QUOTED.findall(f"\n{text}")), lines),
        "text_hidden": share(len(mail.page.hidden), length),
        "text_disguised": math.log1p(1000 * share(mail.words.disguised, length)),
        "html_share": share(len(mail.html), len(mail.html) + len(mail.plain)),
    }


def link_features(mail: Mail) -> Mapping[str, float]:
    """Return what the links look like."""
    hosts = link_hosts(mail)
    return {
        "links": math.log1p(len(mail.links)),
        "link_hosts": math.log1p(len(hosts)),
        "link_numeric": share(sum(_NUMERIC.fullmatch(host[:100]) is not None for host in hosts), len(hosts)),
        # Newsletters link to whom they are from; most spam has a sender that was made up, or somebody else's.
        "links_to_sender": share(sum(registered_domain(host) == mail.sender.domain for host in hosts), len(hosts)),
    }


def squeezability(mail: Mail) -> float:
    """Return how small the text becomes by compression: text that repeats itself shrinks, random strings do not."""
    content = mail.text[:COMPRESSED_CHARACTERS].encode("utf-8", "replace")
    return share(len(zlib.compress(content, 6)), len(content))
