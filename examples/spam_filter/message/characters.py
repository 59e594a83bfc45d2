"""Counts of characters, quick enough for the cheapest tier."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable
from typing import Final

__all__ = ["entropy", "share", "share_of_capitals", "share_of_digits", "share_of_non_ascii"]

_UPPER: Final = string.ascii_uppercase.encode()
_LOWER: Final = string.ascii_lowercase.encode()
_DIGITS: Final = string.digits.encode()
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]+")


def share(count: float, whole: int) -> float:
    """Return a share; 0 of nothing."""
    return count / whole if whole else 0.0


def share_of_capitals(text: str) -> float:
    """Return which share of the letters are capitals, counted where upper and lower case differ.

    Examples
    --------
    >>> share_of_capitals("AbCd 12")
    0.5
    """
    capitals = _count(text, _UPPER, str.isupper)
    return share(capitals, capitals + _count(text, _LOWER, str.islower))


def _count(text: str, members: bytes, is_member: Callable[[str], bool]) -> int:
    """Return how many characters are of a kind: plain ones by their bytes, which is far quicker, others one by one."""
    plain = text.encode("ascii", "ignore")
    others = "" if len(plain) == len(text) else "".join(_BEYOND_ASCII.findall(text))
    return len(plain) - len(plain.translate(None, members)) + sum(map(is_member, others))


def share_of_digits(text: str) -> float:
    """Return which share of the characters are digits.

    Examples
    --------
    >>> share_of_digits("a1b2")
    0.5
    """
    return share(_count(text, _DIGITS, str.isdigit), len(text))


def share_of_non_ascii(text: str) -> float:
    """Return which share of the characters are outside ASCII.

    Examples
    --------
    >>> share_of_non_ascii("né")
    0.5
    """
    return share(len(text) - len(text.encode("ascii", "ignore")), len(text))


def entropy(text: str) -> float:
    """Return the entropy of the characters, in bits per character.

    Examples
    --------
    >>> entropy("aabb"), entropy("")
    (1.0, 0.0)
    """
    total = len(text)
    return -sum(count / total * math.log2(count / total) for count in Counter(text).values()) + 0.0
