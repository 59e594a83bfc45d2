"""Counts of characters, quick enough for the cheapest tier."""

from __future__ import annotations

import math
from collections import Counter

__all__ = ["entropy", "share", "share_of_capitals", "share_of_digits", "share_of_non_ascii"]


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
    capitals = sum(map(str.isupper, text))
    return share(capitals, capitals + sum(map(str.islower, text)))


def share_of_digits(text: str) -> float:
    """Return which share of the characters are digits.

    Examples
    --------
    >>> share_of_digits("a1b2")
    0.5
    """
    return share(sum(map(str.isdigit, text)), len(text))


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
