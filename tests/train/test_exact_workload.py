"""The exact search's work estimate, invalid arguments, and the table of known vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emsco_train.errors import DesignError
from emsco_train.search.exact.exact_front import enumerate_front
from emsco_train.search.exact.known_front import KnownFront
from emsco_train.search.exact.set_bits import SetBits
from emsco_train.search.exact.workload import count_continuations, estimate_workload, split_parts

ZEROS = np.zeros((4, 1), dtype=np.uint64)
COSTS = np.array([0, 1, 2, 3], dtype=np.int64)


def stirling(items: int, blocks: int) -> int:
    """Return the Stirling number of the second kind by its recurrence."""
    if items == blocks:
        return 1
    return blocks * stirling(items - 1, blocks) + stirling(items - 1, blocks - 1) if 0 < blocks < items else 0


def factorial(number: int) -> int:
    """Return number!."""
    return number * factorial(number - 1) if number else 1


@pytest.mark.parametrize("n", range(1, 15))
def test_numbers_of_designs(n: int) -> None:
    """Estimates count sum j! S2(n, j) designs, and sum j! S2(n + 1, j + 1) where features may be left out."""
    for k in range(1, n + 1):
        stages = range(1, k + 1)
        assert estimate_workload(n, k, 9).designs == sum(factorial(j) * stirling(n, j) for j in stages)
        open_space = estimate_workload(n, k, 9, allow_exclusion=True)
        assert open_space.designs == sum(factorial(j) * stirling(n + 1, j + 1) for j in stages)


def test_published_numbers() -> None:
    """The published numbers of designs."""
    exactly = [[estimate_workload(n, k, 9).designs - estimate_workload(n, k - 1, 9).designs for k in (2, 3, 4)] for n in (12, 14)]
    assert exactly == [[4_094, 519_156, 14_676_024], [16_382, 4_733_820, 249_401_880]]
    assert [estimate_workload(n, 4, 9, allow_exclusion=True).designs for n in (12, 14)] == [195_926_549, 5_317_308_365]


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("pinned", [0, 0b101, 0b111111])
def test_parts_are_the_space(closed: bool, pinned: int) -> None:
    """The parts hold every first set once, and their numbers of designs add up to the whole."""
    for stages in range(1, 7):
        cut = list(split_parts(6, stages, pinned=pinned, closed=closed))
        starts = [start for part in cut for start in part.starts.tolist()]
        assert len(starts) == len(set(starts))
        before = estimate_workload(6, stages - 1, 9, allow_exclusion=not closed, pinned=pinned).designs if stages > 1 else 0
        whole = estimate_workload(6, stages, 9, allow_exclusion=not closed, pinned=pinned).designs
        assert sum(part.designs for part in cut) == whole - before


def test_numbers_of_continuations() -> None:
    """A prefix that lacks three features continues in 3! S2(3, 3) ways with two more free sets and the full one."""
    assert count_continuations(3, 3, closed=True).tolist() == [[0, 1, 1, 1], [0, 0, 2, 6]]
    assert count_continuations(3, 1, closed=True).shape == (0, 4)
    assert count_continuations(2, 2, closed=False).tolist() == [[1, 1, 1], [0, 1, 3]]


def test_estimates_grow() -> None:
    """More rows and more designs take more time and memory; more jobs take less time."""
    base = estimate_workload(14, 4, 200)
    assert base.seconds_estimate < 25e-9 * base.designs
    assert base.bytes < 2**30
    assert estimate_workload(14, 4, 2500).bytes < 2**30
    assert estimate_workload(14, 4, 2500).seconds_estimate > base.seconds_estimate
    assert estimate_workload(14, 4, 200, jobs=1).seconds_estimate > 1.9 * base.seconds_estimate


def with_set(table: np.ndarray, row: int, value: int) -> np.ndarray:
    """Return a copy with another value in one row."""
    changed = table.copy()
    changed[row] = value
    return changed


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((ZEROS, ZEROS, COSTS, 0), "expected at least 1 row, got 0"),
        ((ZEROS, ZEROS, COSTS, 65), r"confident: expected uint64\[4, 2\] for 65 rows, got uint64\[4, 1\]"),
        ((ZEROS, ZEROS[:2], COSTS, 9), r"right: expected uint64\[4, 1\] for 9 rows, got uint64\[2, 1\]"),
        ((ZEROS, ZEROS, COSTS.astype(float), 9), r"cost: expected int64\[4\] for 9 rows, got float64\[4\]"),
        ((with_set(ZEROS, 2, 1 << 9), ZEROS, COSTS, 9), "bits beyond the last row must be zero"),
        ((ZEROS, with_set(ZEROS, 3, 1), COSTS, 64), "right items must be confident ones"),
        ((ZEROS, ZEROS, with_set(COSTS, 3, 1), 9), "adding feature 0 to set 2 makes it cheaper"),
        ((ZEROS, ZEROS, with_set(COSTS, 1, -1), 9), "a set costs -1 units"),
    ],
)
def test_bad_bits(fields: tuple[Any, ...], message: str) -> None:
    """Bits that the walk could not trust are refused, with what is wrong and what was expected."""
    with pytest.raises(DesignError, match=message):
        SetBits(*fields)


@pytest.mark.parametrize(
    ("n", "options", "message"),
    [
        (2, {"max_stages": 0}, "`max_stages`: expected 1 to 2, the number of features, got 0"),
        (2, {"max_stages": 3}, "`max_stages`: expected 1 to 2, .* got 3"),
        (2, {"max_stages": 1, "pinned": 4}, "pinned: expected a mask of 2 features .*, got 4"),
        (2, {"max_stages": 1, "jobs": 0}, "jobs is 0: expected a whole number, 1 or more"),
        (3, {"max_stages": 1}, "bits: 4 sets of 9 rows; 3 features need 8 sets"),
        (21, {"max_stages": 2}, "the exact search takes 1 to 20, got 21"),
        (0, {"max_stages": 1}, "the exact search takes 1 to 20, got 0"),
    ],
)
def test_refusals(n: int, options: dict[str, Any], message: str) -> None:
    """Arguments that do not fit are refused before any work."""
    with pytest.raises(DesignError, match=message):
        enumerate_front(SetBits(ZEROS, ZEROS, COSTS, 9), n, **options)


def test_table_keeps_the_better() -> None:
    """A later vector replaces those it dominates; dominated ones are not added."""
    table = KnownFront(2)

    def merge(*vectors: tuple[int, int, int], count: int = 1) -> bool:
        return table.merge(np.array(vectors), np.full(len(vectors), count), np.full((len(vectors), 1), 3))

    assert merge((5, 4, 70), (0, 0, 60))
    assert not merge((5, 3, 70), (4, 3, 80), (5, 4, 70))
    assert table.counts() == [1, 2]
    assert merge((5, 5, 60), count=0)
    assert table.vectors().tolist() == [[5, 5, 60]]
    assert table.counts() == [0]
    assert not merge((5, 5, 60))
    assert table.counts() == [1]
