"""`group_near_duplicates`: texts that are copies of each other but for a name, a number, or a line.

Copies on both sides of a split would let a model shine that has learned nothing but to remember. So they are found first, and
given as `groups`, which splits and folds keep together. Texts are cut into runs of five words; families share enough of the runs
(MinHash, in bands).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["group_near_duplicates"]

_WORD: Final = re.compile(r"[^\W\d_]{2,30}")
_RUN: Final = 5
_MOST_WORDS: Final = 1_000
# Texts that share 80 % of their runs meet in a band in 98 of 100 cases, texts that share 30 % in 6.
_BANDS, _ROWS = 8, 4
_PRIME: Final = (1 << 31) - 1


def group_near_duplicates(texts: Sequence[str]) -> list[int]:
    """Return a number for each text; near-duplicates have the same.

    Case, digits and what is no letter do not count, nor what comes after the first 1,000 words. A text without words is a copy
    of those alone that are equal to it. The time grows with the number of texts.

    Parameters
    ----------
    texts
        Of all the rows that will be split.

    Examples
    --------
    >>> text = "buy this wonderful watch now and pay nothing at all until the end of next year"
    >>> group_near_duplicates([f"{text} 17", "other words", f"{text} 23"])
    [0, 1, 0]
    """
    parents = list(range(len(texts)))
    multipliers, shifts = _permutations()
    first_with: dict[tuple[int, bytes], int] = {}
    for index, text in enumerate(texts):
        signature = ((_runs(text)[:, None] * multipliers + shifts) % _PRIME).min(axis=0)
        for band in range(_BANDS):
            key = (band, signature[band * _ROWS : (band + 1) * _ROWS].tobytes())
            _join(parents, first_with.setdefault(key, index), index)
    return [_root(parents, index) for index in range(len(texts))]


def _permutations() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    # The same for everybody, so that the same texts always give the same families.
    rng = np.random.default_rng(20)
    count = _BANDS * _ROWS
    return rng.integers(1, _PRIME, count, dtype=np.uint64), rng.integers(0, _PRIME, count, dtype=np.uint64)


def _runs(text: str) -> NDArray[np.uint64]:
    """Return a number for each run of words."""
    words = [found.lower() for found in _WORD.findall(text)[:_MOST_WORDS]]
    if not words:
        return np.array([_number(text)], dtype=np.uint64)
    count = max(1, len(words) - _RUN + 1)
    return np.array([_number(" ".join(words[at : at + _RUN])) for at in range(count)], dtype=np.uint64)


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).digest()) % _PRIME


def _root(parents: list[int], index: int) -> int:
    while parents[index] != index:
        parents[index] = parents[parents[index]]
        index = parents[index]
    return index


def _join(parents: list[int], one: int, two: int) -> None:
    low, high = sorted((_root(parents, one), _root(parents, two)))
    parents[high] = low
