"""Counts of characters, quick enough for the cheapest tier."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["CharacterShares", "entropy", "share"]

_UPPER: Final = string.ascii_uppercase.encode()
_LOWER: Final = string.ascii_lowercase.encode()
_DIGITS: Final = string.digits.encode()
_ASCII: Final = bytes(range(128))


def share(count: float, whole: int) -> float:
    """Return a share; 0 of nothing."""
    return count / whole if whole else 0.0


class CharacterShares(NamedTuple):
    """What a text is made of.

    Parameters
    ----------
    capitals
        Which share of the letters are capitals, counted where upper and lower case differ.
    digits
        Which share of the characters are digits.
    """

    capitals: float
    digits: float

    @classmethod
    def of(cls, text: str) -> CharacterShares:
        """Count the characters of a text: plain ones by their bytes, which is far quicker, others one by one.

        Examples
        --------
        >>> CharacterShares.of("AbCd 1é é2")
        CharacterShares(capitals=0.3333333333333333, digits=0.2)
        """
        plain = text.encode("ascii", "ignore")
        beyond = text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")
        others = Counter(beyond)

        def count(members: bytes, is_member: Callable[[str], bool]) -> int:
            found = sum(times for character, times in others.items() if is_member(character))
            return len(plain) - len(plain.translate(None, members)) + found

        capitals = count(_UPPER, str.isupper)
        letters = capitals + count(_LOWER, str.islower)
        return cls(share(capitals, letters), share(count(_DIGITS, str.isdigit), len(text)))


def entropy(text: str) -> float:
    """Return the entropy of the characters, in bits per character.

    Examples
    --------
    >>> entropy("aabb"), entropy("")
    (1.0, 0.0)
    """
    total = len(text)
    return -sum(count / total * math.log2(count / total) for count in Counter(text).values()) + 0.0
