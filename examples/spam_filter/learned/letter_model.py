"""Which letter follows which: text that people write has habits, random strings have none."""

from __future__ import annotations

import math
from array import array
from itertools import pairwise
from typing import Final

from spam_filter.message.limits import LETTERS

__all__ = ["LetterCounts", "LetterModel", "letters_of"]

_SIZE: Final = 27
# Letters to 1..26, everything else to 0; runs of 0 are joined.
_CODES: Final = bytes((byte | 32) - 96 if chr(byte).isascii() and chr(byte).isalpha() else 0 for byte in range(256))


def letters_of(text: str) -> bytes:
    """Return the letters of a text as numbers 1 to 26, with one 0 between words.

    Examples
    --------
    >>> list(letters_of("Ab, c!"))
    [1, 2, 0, 3]
    """
    codes = text[:LETTERS].encode("ascii", "replace").translate(_CODES)
    return b"\0".join(filter(None, codes.split(b"\0")))


class LetterCounts:
    """How often each letter followed each other one."""

    def __init__(self, counts: array[int] | None = None) -> None:
        self.counts = array("q", bytes(8 * _SIZE * _SIZE)) if counts is None else counts

    def read(self, text: str) -> None:
        """Count the pairs of letters of a text."""
        counts = self.counts
        for one, two in pairwise(letters_of(text)):
            counts[one * _SIZE + two] += 1

    def add(self, other: LetterCounts) -> None:
        """Add the counts of another."""
        for place, count in enumerate(other.counts):
            self.counts[place] += count


class LetterModel:
    """How surprising a text is, letter by letter.

    Parameters
    ----------
    counts
        Of the language that is expected.

    Examples
    --------
    >>> counts = LetterCounts()
    >>> counts.read("the cat and the other cat sat on the mat" * 20)
    >>> model = LetterModel(counts)
    >>> model.surprise("the cat") < model.surprise("xqj zvk")
    True
    """

    def __init__(self, counts: LetterCounts) -> None:
        self._surprise: list[float] = []
        for row in range(_SIZE):
            line = counts.counts[row * _SIZE : (row + 1) * _SIZE]
            total = sum(line) + _SIZE
            self._surprise += [-math.log((count + 1) / total) for count in line]

    def surprise(self, text: str) -> float:
        """Return the mean surprise of a letter, in nats; 0 for a text without letters."""
        letters = letters_of(text)
        if len(letters) < 2:
            return 0.0
        table = self._surprise
        return sum(table[one * _SIZE + two] for one, two in pairwise(letters)) / (len(letters) - 1)
