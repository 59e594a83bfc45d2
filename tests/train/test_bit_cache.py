"""The cache of feature sets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_runtime.support.arrays import Mask
from emsco_train.errors import DesignError
from emsco_train.models.logistic.regression import TopLabels
from emsco_train.search.scoring.bit_cache import BitCache, pack_bits


class CountingScorer:
    """Scores a set by made-up but fixed numbers, in parts of two, and records the sets it was called for."""

    def __init__(self, items: int) -> None:
        self.items = items
        self.requested: list[tuple[bool, ...]] = []

    def one(self, chosen: tuple[bool, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return label and confidence of one set."""
        rng = np.random.default_rng(sum(2**index for index, taken in enumerate(chosen) if taken))
        return rng.integers(0, 3, self.items), rng.random(self.items)

    def __call__(self, sets: Mask) -> Iterator[TopLabels]:
        """Yield scores of two sets at a time."""
        self.requested += [tuple(chosen) for chosen in sets.tolist()]
        for start in range(0, len(sets), 2):
            scored = [self.one(tuple(chosen)) for chosen in sets[start : start + 2].tolist()]
            yield TopLabels(np.array([label for label, _ in scored]), np.array([confidence for _, confidence in scored]))


def unpacked(words: np.ndarray, items: int) -> np.ndarray:
    """Unpack rows of words into bits, bit by bit."""
    return np.array([[bool(int(row[index // 64]) >> (index % 64) & 1) for index in range(items)] for row in words])


@given(st.integers(1, 200), st.integers(0, 2**32))
def test_packing_keeps_every_bit(items: int, seed: int) -> None:
    """Bit i of an item is in word i // 64; the rest of the last word is zero."""
    bits = np.random.default_rng(seed).random((3, items)) < 0.5
    words = pack_bits(bits)
    assert words.shape == (3, -(-items // 64))
    assert (unpacked(words, words.shape[1] * 64)[:, :items] == bits).all()
    assert unpacked(words, words.shape[1] * 64)[:, items:].sum() == 0


def sets_of(*masks: int, features: int = 5) -> Mask:
    """Return sets as masks over features."""
    return (np.array(masks)[:, None] >> np.arange(features) & 1).astype(np.bool_)


def test_a_set_is_fitted_once_for_all_thresholds() -> None:
    """Asking again, in another order or twice in one call, fits nothing; every threshold has its own bits."""
    scorer = CountingScorer(70)
    target = np.random.default_rng(9).integers(0, 3, 70)
    thresholds = [(0.2, 0.2, 0.2), (0.9, 0.5, 0.1)]
    bits = BitCache(scorer, target, thresholds)
    rows = bits.locate(sets_of(3, 5, 3, 7))
    assert rows[0] == rows[2]
    assert len(scorer.requested) == bits.fits == 3
    again = bits.locate(sets_of(7, 3))
    assert again.tolist() == [rows[3], rows[0]]
    assert bits.fits == 3
    for index, threshold in enumerate(thresholds):
        for mask, row in zip((3, 5, 7), (rows[0], rows[1], rows[3]), strict=True):
            label, confidence = scorer.one(tuple(sets_of(mask)[0].tolist()))
            confident = confidence >= np.array(threshold)[label]
            assert (unpacked(bits.confident(index)[[row]], 70)[0] == confident).all()
            assert (unpacked(bits.right(index)[[row]], 70)[0] == (confident & (label == target))).all()


def test_more_sets_than_the_memory_holds_are_fitted_again() -> None:
    """When the memory is full it is emptied: the bits are the same, at the cost of more fits."""
    scorer, target = CountingScorer(64), np.zeros(64, dtype=np.intp)
    # Of three labels: confident, right, and two for the position of the most probable label.
    bits = BitCache(scorer, target, [(0.5,) * 3], max_bytes=1024 * 8 * 4)
    everything = sets_of(*range(1, 1025), features=11)
    bits.locate(everything)
    assert bits.fits == 1024
    row = bits.locate(sets_of(1025, features=11))
    assert bits.fits == 1025
    _, confidence = scorer.one(tuple(sets_of(1025, features=11)[0].tolist()))
    assert (unpacked(bits.confident(0)[row], 64)[0] == (confidence >= 0.5)).all()
    with pytest.raises(DesignError, match="1025 feature sets at once do not fit"):
        bits.locate(sets_of(*range(1, 1026), features=11))


def test_the_memory_must_hold_something() -> None:
    """A limit that holds next to nothing is refused, with what it would hold."""
    with pytest.raises(
        DesignError,
        match="1 threshold of 1,000 validation rows need too much memory: 100 bytes hold 0 feature sets",
    ):
        BitCache(CountingScorer(1000), np.zeros(1000, dtype=np.intp), [(0.5,)], max_bytes=100)


def test_the_bits_grow_as_needed() -> None:
    """Far more sets than the first capacity keep their rows and their bits."""
    scorer = CountingScorer(10)
    bits = BitCache(scorer, np.zeros(10, dtype=np.intp), [(0.5,) * 3])
    first = bits.locate(sets_of(1, features=13))[0]
    before = bits.confident(0)[first].copy()
    rows = bits.locate(sets_of(*range(1, 5000), features=13))
    assert len(set(rows.tolist())) == 4999
    assert rows[0] == first
    assert (bits.confident(0)[first] == before).all()
