"""An expensive tier: whether it reads like language at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Final

from spam_filter.learned.stores import Stores
from spam_filter.message.characters import share
from spam_filter.message.limits import WORDS
from spam_filter.message.mail import Mail

__all__ = ["LANGUAGE_FEATURES", "language_features"]

LANGUAGE_FEATURES: Final = ("text_surprise", "common_words")

_WORD: Final = re.compile(r"[A-Za-z']{1,30}")
_COMMON: Final = frozenset(
    _WORD.findall(
        "a about all an and any are as at be been but by can could do for from had has have he her him his how i if in into is "
        "it its just like me more my no not of on one only or other our out she so some than that the their them then there "
        "these they this time to up was we were what when which who will with would you your"
    )
)


def language_features(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return how surprising letters are, and the share of words that every English text is full of.

    Parameters
    ----------
    mail
        The message.
    stores
        Know the habits of letters.
    """
    words = [found[0].lower() for found in islice(_WORD.finditer(mail.text), WORDS)]
    return {
        "text_surprise": stores.letter_model.surprise(mail.text),
        "common_words": share(sum(word in _COMMON for word in words), len(words)),
    }
