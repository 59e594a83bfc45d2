"""The exact search against brute force: vectors, ties and representatives; threads, interruption and listing."""

from __future__ import annotations

import functools
import itertools
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from emsco_train.errors import DesignError
from emsco_train.search.exact import workers, workload
from emsco_train.search.exact.exact_front import ExactFront, enumerate_front
from emsco_train.search.exact.set_bits import SetBits
from emsco_train.search.exact.workload import estimate_workload
from emsco_train.search.pace import Step
from emsco_train.search.scoring.bit_cache import pack_bits

# Much of it repeats what other tests have counted.
pytestmark = pytest.mark.uncounted


def set_costs(features: list[int], shared: int = 0) -> np.ndarray:
    """Price all sets; the first two features share a group."""
    masks = range(2 ** len(features))
    own = [sum(cost for feature, cost in enumerate(features) if mask >> feature & 1) for mask in masks]
    return np.array([cost + shared * bool(mask & 3) for mask, cost in zip(masks, own, strict=True)], dtype=np.int64)


def random_bits(rng: np.random.Generator, n: int, rows: int, *, confident: float, right: float, max_feature_cost: int) -> SetBits:
    """Make bits without any structure, and small whole costs, so that ties are frequent."""
    sure = rng.random((2**n, rows)) < confident
    hit = sure & (rng.random((2**n, rows)) < right)
    costs = set_costs(rng.integers(0, max_feature_cost + 1, n).tolist(), int(rng.integers(0, 2)))
    return SetBits(pack_bits(sure), pack_bits(hit), costs, rows)


def model_bits(rng: np.random.Generator, n: int, rows: int, threshold: float = 0.8) -> SetBits:
    """Make bits like those of models: the more features, the more confident, and mostly the more accurate."""
    label = rng.choice([-1.0, 1.0], rows)
    evidence = label * rng.gamma(1.0, 0.15, n)[:, None] + rng.normal(0.0, 0.4, (n, rows))
    members = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    score = members @ evidence + rng.normal(0.0, 0.3, (2**n, rows))
    sure = 1.0 / (1.0 + np.exp(-np.abs(score))) >= threshold
    return SetBits(pack_bits(sure), pack_bits(sure & (score * label > 0)), set_costs(rng.integers(1, 40, n).tolist()), rows)


def evaluate_by_hand(bits: SetBits, chromosome: tuple[int, ...]) -> tuple[int, int, int]:
    """Walk all items through one design, in Python's own integers."""
    words = [[int.from_bytes(row.astype("<u8").tobytes(), "little") for row in table] for table in (bits.confident, bits.right)]
    return _decide_by_hand(words[0], words[1], bits.cost.tolist(), bits.rows, chromosome)


def _decide_by_hand(confident: Any, right: Any, cost: Any, rows: int, chromosome: tuple[int, ...]) -> tuple[int, int, int]:
    waiting, members, paid = 2**rows - 1, 0, 0
    accepted = hits = total = 0
    for stage in range(max(chromosome) + 1):
        members |= sum(1 << feature for feature, value in enumerate(chromosome) if value == stage)
        total += waiting.bit_count() * (cost[members] - paid)
        paid = cost[members]
        accepted += (waiting & confident[members]).bit_count()
        hits += (waiting & right[members]).bit_count()
        waiting &= ~confident[members]
    return accepted, hits, total


def chromosomes(n: int, k: int, *, exclusion: bool, pinned: int) -> list[tuple[int, ...]]:
    """Write down all designs."""
    return [
        genes
        for genes in itertools.product(range(-1 if exclusion else 0, k), repeat=n)
        if max(genes) >= 0
        and set(range(max(genes) + 1)) <= set(genes)
        and all(genes[feature] == 0 for feature in range(n) if pinned >> feature & 1)
    ]


def dominates(first: tuple[int, int, int], second: tuple[int, int, int]) -> bool:
    """Compare (accepted, right, cost) by the definition."""
    ratio = first[1] * max(second[0], 1) >= second[1] * max(first[0], 1)
    return first[0] >= second[0] and ratio and first[2] <= second[2] and first != second


def brute_force(bits: SetBits, designs: list[tuple[int, ...]]) -> dict[tuple[int, int, int], list[tuple[int, ...]]]:
    """Score every design; return the non-dominated vectors with all their designs, the representative first."""
    confident, right = (
        [int.from_bytes(row.astype("<u8").tobytes(), "little") for row in table] for table in (bits.confident, bits.right)
    )
    found: dict[tuple[int, int, int], list[tuple[int, ...]]] = {}
    for genes in designs:
        found.setdefault(_decide_by_hand(confident, right, bits.cost.tolist(), bits.rows, genes), []).append(genes)
    # All that cost more than another with the same counts are dominated; the rest is few enough to compare in pairs.
    least: dict[tuple[int, int], int] = {}
    for accepted, hits, cost in found:
        least[accepted, hits] = min(cost, least.get((accepted, hits), cost))
    few = [(*counts, cost) for counts, cost in least.items()]
    front = [vector for vector in few if not any(dominates(other, vector) for other in few)]
    front.sort(key=lambda vector: (vector[2], -vector[0], -vector[1]))
    return {vector: sorted(found[vector], key=lambda genes: (max(genes), genes)) for vector in front}


def ties_by_vector(front: ExactFront) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """Return a front with its ties in the shape of `brute_force`."""
    assert front.tied is not None
    vectors = zip(front.accepted.tolist(), front.right.tolist(), front.cost.tolist(), strict=True)
    return {vector: [tuple(genes) for genes in tied.tolist()] for vector, tied in zip(vectors, front.tied, strict=True)}


def assert_exact(bits: SetBits, n: int, k: int, *, exclusion: bool, pinned: int, **options: Any) -> None:
    """Compare front, ties, their numbers and representatives with brute force, and the number of designs with the formula."""
    designs = chromosomes(n, k, exclusion=exclusion, pinned=pinned)
    steps: list[Step] = []
    front = enumerate_front(
        bits, n, max_stages=k, allow_exclusion=exclusion, pinned=pinned, ties="all", on_progress=steps.append, **options
    )
    expected = brute_force(bits, designs)
    assert list(ties_by_vector(front).items()) == list(expected.items())
    assert front.ties.tolist() == [len(tied) for tied in expected.values()]
    assert [tuple(genes) for genes in front.chromosomes.tolist()] == [tied[0] for tied in expected.values()]
    assert front.chromosomes.dtype == np.int8
    assert front.designs == len(designs) == steps[-1].done == steps[-1].total
    assert steps[-1].front == len(expected)


@pytest.mark.parametrize("exclusion", [False, True])
@pytest.mark.parametrize(("n", "k"), [(n, k) for n in range(1, 6) for k in range(1, n + 1)] + [(6, 3), (6, 6)])
def test_equals_brute_force(n: int, k: int, exclusion: bool) -> None:
    """Front, ties and representatives equal brute force over all chromosomes, for every number of stages, with pins."""
    rng = np.random.default_rng([n, k, exclusion])
    kinds = ((0.3, 0.8, 2), (0.1, 0.5, 9), (0.8, 0.95, 0))
    for confident, right, max_feature_cost in kinds if n < 6 else kinds[:1]:
        bits = random_bits(
            rng, n, int(rng.choice([3, 64, 150])), confident=confident, right=right, max_feature_cost=max_feature_cost
        )
        pinned = int(rng.choice([0, 0, rng.integers(0, 2**n)]))
        assert_exact(bits, n, k, exclusion=exclusion, pinned=pinned, jobs=int(rng.integers(1, 3)))


@pytest.mark.parametrize("pinned", range(8))
@pytest.mark.parametrize("exclusion", [False, True])
def test_every_pin(pinned: int, exclusion: bool) -> None:
    """Any features may be pinned to the first stage, even all of them."""
    bits = random_bits(np.random.default_rng(pinned), 3, 40, confident=0.3, right=0.8, max_feature_cost=3)
    for k in (1, 2, 3):
        assert_exact(bits, 3, k, exclusion=exclusion, pinned=pinned)


@pytest.mark.parametrize("exclusion", [False, True])
@pytest.mark.parametrize("threshold", [0.55, 0.8, 0.99])
def test_bits_of_models(threshold: float, exclusion: bool) -> None:
    """The same where larger sets are more confident and more accurate, as with models, and where most prefixes are pruned."""
    bits = model_bits(np.random.default_rng(5), 6, 130, threshold)
    assert_exact(bits, 6, 4, exclusion=exclusion, pinned=0)


@pytest.mark.parametrize("confident", [0.0, 1.0])
@pytest.mark.parametrize("exclusion", [False, True])
def test_all_designs_tie(confident: float, exclusion: bool) -> None:
    """Where nothing costs and all sets say the same, all designs tie on one vector, and all are counted."""
    bits = random_bits(np.random.default_rng(0), 5, 30, confident=confident, right=1.0, max_feature_cost=0)
    bits = SetBits(bits.confident, bits.right, np.zeros_like(bits.cost), bits.rows)
    front = enumerate_front(bits, 5, max_stages=5, allow_exclusion=exclusion)
    assert front.ties.tolist() == [estimate_workload(5, 5, 30, allow_exclusion=exclusion).designs]
    assert front.chromosomes.tolist() == [[-1, -1, -1, -1, 0] if exclusion else [0, 0, 0, 0, 0]]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_properties(data: st.DataObject) -> None:
    """Any bits and costs of up to four features give what brute force gives, whatever is pruned."""
    n = data.draw(st.integers(1, 4))
    rows = data.draw(st.integers(1, 6))
    words = st.lists(st.integers(0, 2**rows - 1), min_size=2**n, max_size=2**n)
    confident = np.array(data.draw(words), dtype=np.uint64)[:, None]
    right = np.array(data.draw(words), dtype=np.uint64)[:, None] & confident
    costs = set_costs(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), data.draw(st.integers(0, 1)))
    bits = SetBits(confident, right, costs, rows)
    k, exclusion, pinned = data.draw(st.integers(1, n)), data.draw(st.booleans()), data.draw(st.integers(0, 2**n - 1))
    assert_exact(bits, n, k, exclusion=exclusion, pinned=pinned, prune=data.draw(st.booleans()), jobs=1)


def test_vector_is_that_of_the_design() -> None:
    """Each representative of a larger front has the vector that it represents."""
    bits = model_bits(np.random.default_rng(1), 10, 200)
    front = enumerate_front(bits, 10, max_stages=4)
    assert len(front.ties) > 5
    for genes, *vector in zip(front.chromosomes.tolist(), front.accepted, front.right, front.cost, strict=True):
        assert evaluate_by_hand(bits, tuple(genes)) == tuple(vector)


def is_same_front(first: ExactFront, second: ExactFront) -> bool:
    """Compare two fronts in every field."""
    names = ("accepted", "right", "cost", "chromosomes", "ties")
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names)


@pytest.mark.parametrize("exclusion", [False, True])
def test_workers_change_nothing(exclusion: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One, two and five threads, pruned or not, in few parts or in many, give the same front."""
    bits = model_bits(np.random.default_rng(2), 9, 170)
    search = functools.partial(enumerate_front, bits, 9, max_stages=4, allow_exclusion=exclusion)
    first = search(jobs=1)
    assert is_same_front(first, search(jobs=2, prune=False))
    monkeypatch.setattr(workload, "_DESIGNS_PER_PART", 5000)
    assert all(is_same_front(first, search(jobs=jobs)) for jobs in (1, 2, 5))


@pytest.mark.parametrize("exclusion", [False, True])
def test_little_room(exclusion: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part with more finds than there is room for is walked again with more room: no tie is lost or counted twice."""
    monkeypatch.setattr(workers, "_INITIAL_SLOTS", 1)
    bits = random_bits(np.random.default_rng(3), 5, 20, confident=0.3, right=0.7, max_feature_cost=1)
    assert_exact(bits, 5, 4, exclusion=exclusion, pinned=0)


@pytest.mark.parametrize("exclusion", [False, True])
def test_counts_every_design(exclusion: bool) -> None:
    """Without pruning, the walk scores exactly as many designs as the formulas say."""
    for n in range(1, 9):
        bits = random_bits(np.random.default_rng(n), n, 10, confident=0.2, right=0.5, max_feature_cost=4)
        for k in range(1, n + 1):
            steps: list[Step] = []
            front = enumerate_front(bits, n, max_stages=k, allow_exclusion=exclusion, prune=False, on_progress=steps.append)
            assert front.scored == steps[-1].done == estimate_workload(n, k, 10, allow_exclusion=exclusion).designs


def test_published_count() -> None:
    """The 4,094 + 519,156 + 14,676,024 designs of twelve features, and the one of a single stage, are scored one by one."""
    bits = model_bits(np.random.default_rng(4), 12, 64)
    plain = enumerate_front(bits, 12, max_stages=4, prune=False)
    assert plain.scored == 1 + 4_094 + 519_156 + 14_676_024
    assert is_same_front(plain, enumerate_front(bits, 12, max_stages=4))


def test_progress() -> None:
    """Progress only grows, comes from the calling thread, and ends with all designs; pruned ones are not scored."""
    bits = model_bits(np.random.default_rng(6), 11, 100)
    calls: list[tuple[Step, threading.Thread]] = []
    front = enumerate_front(bits, 11, max_stages=4, on_progress=lambda step: calls.append((step, threading.current_thread())))
    done = [step.done for step, _ in calls]
    assert done == sorted(done)
    assert done[-1] == calls[-1][0].total > front.scored
    assert {thread for _, thread in calls} == {threading.current_thread()}


@pytest.mark.parametrize("when", [1, 4])
def test_interrupted(when: int) -> None:
    """Ctrl-C in the middle is raised at once and leaves no thread behind; the next search works."""
    bits = model_bits(np.random.default_rng(7), 14, 100)
    calls = itertools.count(1)

    def interrupt(_: Step) -> None:
        if next(calls) == when:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        enumerate_front(bits, 14, max_stages=5, on_progress=interrupt)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("emsco-exhaustive")]
    assert len(enumerate_front(bits, 14, max_stages=2).ties) > 0


def test_too_many_ties_to_list() -> None:
    """Listing is refused beyond `max_designs`, with the number; one design fewer is too many, as many are listed."""
    bits = random_bits(np.random.default_rng(8), 5, 5, confident=0.9, right=1.0, max_feature_cost=0)
    count = int(enumerate_front(bits, 5, max_stages=3).ties.sum())
    assert count > 10
    with pytest.raises(DesignError, match=rf"{count} designs are on the front, at most {count - 1} .* max_designs={count}"):
        enumerate_front(bits, 5, max_stages=3, ties="all", max_designs=count - 1)
    front = enumerate_front(bits, 5, max_stages=3, ties="all", max_designs=count)
    assert front.tied is not None
    assert sum(map(len, front.tied)) == count
    assert enumerate_front(bits, 5, max_stages=3).tied is None
