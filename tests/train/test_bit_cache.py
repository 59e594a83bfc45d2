"""The cache of feature sets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_runtime.support.arrays import Mask
from emsco_train.costs.cost_model import CostModel
from emsco_train.costs.units import CostUnits
from emsco_train.errors import DesignError
from emsco_train.models.logistic.regression import TopLabels
from emsco_train.search.scoring.bit_cache import BitCache, pack_bits
from emsco_train.search.scoring.evaluator import CachedEvaluator


class CountingScorer:
    """Scores a set by made-up but fixed numbers, in parts of two, and records the sets it was called for."""

    def __init__(self, items: int, labels: int = 3) -> None:
        self.items = items
        self.labels = labels
        self.requested: list[tuple[bool, ...]] = []

    def one(self, chosen: tuple[bool, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return label and confidence of one set."""
        rng = np.random.default_rng(sum(2**index for index, taken in enumerate(chosen) if taken))
        return rng.integers(0, self.labels, self.items), rng.random(self.items)

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


@given(st.integers(2, 4), st.integers(0, 2**32))
def test_early_stages_at_a_threshold_of_their_own(labels: int, seed: int) -> None:
    """With two thresholds, exits, answers and rows are those of a loop over stages, each at its own, item by item."""
    rng = np.random.default_rng(seed)
    scorer, target = CountingScorer(70, labels), rng.integers(0, labels, 70)
    last, early = (tuple(rng.uniform(0.1, 0.9, labels).tolist()) for _ in range(2))
    costs = CostUnits.of(CostModel.of([1, 2, 3], ["x0", "x1", "x2"]).meter(), ["x0", "x1", "x2"], 70)
    evaluator = CachedEvaluator(BitCache(scorer, target, [last, early]), costs, 0, early=1)
    population = np.array([[0, 1, 2], [1, 0, 0], [0, -1, 1], [0, 0, 0]], dtype=np.int8)
    accepted, right = evaluator.count_exits(population)
    answers = evaluator.answers(population, labels)
    for index, genes in enumerate(population):
        exits, given = np.full(70, -1), np.full(70, -1)
        for stage in range(genes.max() + 1):
            label, confidence = scorer.one(tuple(((genes >= 0) & (genes <= stage)).tolist()))
            needed = np.array(last if stage == genes.max() else early)[label]
            leaving = (exits < 0) & (confidence >= needed)
            exits[leaving], given[leaving] = stage, label[leaving]
            assert accepted[index, stage] == leaving.sum()
            assert right[index, stage] == (leaving & (label == target)).sum()
        found = evaluator.row_exits(genes, target)
        assert (found[0] == exits).all()
        assert (found[1] == given).all()
        for label in range(labels):
            own = target == label
            counted = [(own & (given >= 0)).sum(), (given == label).sum(), (own & (given == label)).sum()]
            assert answers[index, :, label].tolist() == counted
    with pytest.raises(ValueError, match="one threshold for all stages"):
        next(evaluator.count_splices(np.ones((1, 3), dtype=np.bool_), [np.array([0])], 2, keep_all=False))
