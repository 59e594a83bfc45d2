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
from spam_filter.message.words import COMMON_WORDS

__all__ = ["LANGUAGE_FEATURES", "language_features"]

LANGUAGE_FEATURES: Final = ("text_surprise", "common_words")

_WORD: Final = re.compile(r"[A-Za-z']{1,30}")


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
        "common_words": share(sum(word in COMMON_WORDS for word in words), len(words)),
    }
