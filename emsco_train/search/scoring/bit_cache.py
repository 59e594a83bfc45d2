"""The cache of the search: feature set -> which validation items its model is confident about, and right about.

A stage model depends on its cumulative feature set alone, never on the threshold, the chromosome, or the order before it. So each
set is fitted once, and for each threshold of a sweep two bits per item are kept, packed into 64-bit words. Of two labels, these
tell which one a wrong item got; of more labels, the bits of the most probable label's position are kept, too, once for all
thresholds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.support.arrays import Ints, Mask
from emsco_train.errors import DesignError
from emsco_train.models.borderline import ThresholdLevels
from emsco_train.models.logistic.regression import TopLabels

__all__ = ["MIN_SETS", "BitCache", "SetScorer", "Words", "pack_bits", "unpack_bits"]

Words: TypeAlias = NDArray[np.uint64]

# What a search meets within its first generations.
MIN_SETS = 1024
_BLOCK_SCORES = 2**17


# Fits feature sets [sets, features] and yields the scores of the validation items, in order, in parts that fit into memory.
SetScorer: TypeAlias = Callable[[Mask], Iterator[TopLabels]]


class BitCache:
    """Packed bits of every feature set met so far.

    `target` holds the position of each validation item's label, `thresholds`, for each threshold of a sweep, the confidence that
    each label needs. Bits that fill `max_bytes` are dropped, and fitted again as needed: slower, never different. There is room
    for `min_sets` sets from the start.
    """

    def __init__(
        self,
        scorer: SetScorer,
        target: Ints,
        thresholds: Sequence[Sequence[float]],
        *,
        max_bytes: int = 2**30,
        min_sets: int = MIN_SETS,
    ) -> None:
        self._scorer = scorer
        self.target = target
        self._levels = [ThresholdLevels(threshold) for threshold in thresholds]
        self.items = len(target)
        self.words = -(-self.items // 64)
        labels = len(thresholds[0])
        self._planes = (labels - 1).bit_length() if labels > 2 else 0
        per_set = (2 * len(self._levels) + self._planes) * self.words * 8
        self._capacity = max_bytes // per_set
        if self._capacity < min_sets:
            searched = f"{pluralize(len(self._levels), 'threshold')} of {self.items:,} validation rows"
            detail = f"{max_bytes:,} bytes hold {self._capacity:,} feature sets, expected at least {min_sets:,}"
            raise DesignError(f"{searched} need too much memory: {detail}. Search fewer thresholds at a time, or use fewer rows")
        self._min_sets = min_sets
        self.fits = 0
        self._reset()

    def _reset(self) -> None:
        self._rows: dict[bytes, int] = {}
        size = (len(self._levels), self._min_sets, self.words)
        self._confident: Words = np.zeros(size, dtype=np.uint64)
        self._right: Words = np.zeros(size, dtype=np.uint64)
        self._answers: Words = np.zeros((self._planes, *size[1:]), dtype=np.uint64)

    def locate(self, sets: Mask) -> Ints:
        """Return the row of each set [sets, features] in the bits, fitting what is new.

        Rows stay valid until the next call.
        """
        keys = _keys(sets)
        known = list(map(self._rows.get, keys))
        if None not in known:
            return np.array(known, dtype=np.intp)
        new = {key: position for position, (key, row) in enumerate(zip(keys, known, strict=True)) if row is None}
        if len(self._rows) + len(new) > self._capacity:
            self._reset()
            new = {key: position for position, key in enumerate(keys)}
            if len(new) > self._capacity:
                raise DesignError(f"{len(new)} feature sets at once do not fit into the memory allowed. Allow more memory")
        self._add(sets[list(new.values())], list(new))
        return np.array([self._rows[key] for key in keys], dtype=np.intp)

    def confident(self, threshold: int) -> Words:
        """Return the confident bits [sets, words] under one of the thresholds."""
        return np.asarray(self._confident[threshold])

    def right(self, threshold: int) -> Words:
        """Return the bits [sets, words] of items that a set is confident and right about."""
        return np.asarray(self._right[threshold])

    @property
    def all_confident(self) -> Words:
        """The confident bits under all thresholds, one after the other [thresholds x sets, words]; see `rows_of`."""
        return self._confident.reshape(-1, self.words)

    @property
    def all_right(self) -> Words:
        """The bits of items that a set is confident and right about, under all thresholds [thresholds x sets, words]."""
        return self._right.reshape(-1, self.words)

    def rows_of(self, sets: Ints, thresholds: Ints) -> Ints:
        """Return where the bits of some sets, as `locate` returns them, each under a threshold, are in `all_confident`."""
        return np.asarray(thresholds * self._confident.shape[1] + sets)

    def answers(self) -> Words:
        """Return the bits [planes, sets, words] of the most probable label's position, the lowest first; none for two labels."""
        return self._answers

    def _add(self, sets: Mask, keys: Sequence[bytes]) -> None:
        start = len(self._rows)
        self._reserve(start + len(keys))
        row = start
        for scores in self._scorer(sets):
            part = slice(row, row + len(scores.label))
            self._add_bits(scores, row)
            # Of two bytes: a quarter of the memory that has to pass for each plane.
            answer = scores.label.astype(np.uint16) if self._planes else scores.label
            for plane in range(self._planes):
                self._answers[plane, part] = pack_bits((answer & (1 << plane)) != 0)
            row = part.stop
        self.fits += len(keys)
        self._rows.update(zip(keys, range(start, row), strict=True))

    def _add_bits(self, scores: TopLabels, row: int) -> None:
        """Pack the bits of some sets at every threshold, from this row on: few sets at a time, which stay in the cache."""
        step = max(1, _BLOCK_SCORES // self.items)
        for start in range(0, len(scores.label), step):
            part = slice(row + start, row + min(start + step, len(scores.label)))
            label, confidence = scores.label[start : start + step], scores.confidence[start : start + step]
            hit = label == self.target
            for index, level in enumerate(self._levels):
                confident = confidence >= level.required_confidence(label)
                self._confident[index, part] = pack_bits(confident)
                self._right[index, part] = pack_bits(confident & hit)

    def _reserve(self, count: int) -> None:
        held = self._confident.shape[1]
        if count > held:
            grown = min(max(count, 2 * held), self._capacity) - held
            self._confident, self._right, self._answers = (
                np.concatenate([bits, np.zeros((len(bits), grown, self.words), dtype=np.uint64)], axis=1)
                for bits in (self._confident, self._right, self._answers)
            )


def _keys(sets: Mask) -> list[bytes]:
    """Return a key for each set."""
    octets = np.packbits(sets, axis=1)
    # As strings of one length: that zeros at the end are lost then makes no two of them equal.
    keys: list[bytes] = octets.view(f"S{octets.shape[1]}")[:, 0].tolist()
    return keys


def pack_bits(bits: Mask) -> Words:
    """Pack rows of bits into 64-bit words, the last one filled up with zeros.

    Examples
    --------
    >>> pack_bits(np.array([[True, False, True]]))
    array([[5]], dtype=uint64)
    """
    width = -(-bits.shape[1] // 64) * 8
    octets = np.zeros((len(bits), width), dtype=np.uint8)
    part = np.packbits(bits, axis=1, bitorder="little")
    octets[:, : part.shape[1]] = part
    # Little-endian words whatever the machine, so that popcounts and tests see the same numbers.
    return octets.view("<u8").astype(np.uint64, copy=False)


def unpack_bits(words: Words, items: int) -> Mask:
    """Return what `pack_bits` packed, as rows of `items` bits.

    Examples
    --------
    >>> unpack_bits(np.array([[5]], dtype=np.uint64), 3)
    array([[ True, False,  True]])
    """
    octets = np.ascontiguousarray(words.astype("<u8", copy=False)).view(np.uint8)
    return np.unpackbits(octets, axis=1, count=items, bitorder="little").view(np.bool_)
