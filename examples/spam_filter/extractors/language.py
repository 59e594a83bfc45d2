"""An expensive tier: whether it reads like the language of the training mail at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spam_filter.learned.stores import Stores
from spam_filter.message.mail import Mail

__all__ = ["LANGUAGE_FEATURES", "language_features"]

LANGUAGE_FEATURES: Final = ("text_surprise",)


def language_features(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return how surprising letters are.

    Parameters
    ----------
    mail
        The message.
    stores
        Know the habits of letters.
    """
    return {"text_surprise": stores.letter_model.surprise(mail.text)}
