"""Chromosomes: compression, decoding, order, and the numbers of designs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from emsco_train.designs.chromosome import (
    DesignSpace,
    compress,
    decode,
    design_count,
    encode,
    row_keys,
    stage_counts,
    unique_rows,
)
from emsco_train.errors import DesignError
from emsco_train.search.settings import Settings
from tests.train.toy_landscape import all_designs

populations = hnp.arrays(np.int8, st.tuples(st.integers(1, 8), st.integers(1, 7)), elements=st.integers(-1, 9))


def genes(*rows: list[int]) -> np.ndarray:
    """Return a population."""
    return np.array(rows, dtype=np.int8)


def test_the_papers_examples() -> None:
    """{0,0,2,3} is compressed to {0,0,1,2}; {0,0,2,1,2} has three stages, of features 1-2, 4, and 3 and 5."""
    assert compress(genes([0, 0, 2, 3])).tolist() == [[0, 0, 1, 2]]
    assert decode(genes([0, 0, 2, 1, 2])[0]) == ((0, 1), (3,), (2, 4))
    assert stage_counts(genes([0, 0, 2, 1, 2], [0, 0, 0, 0, 0])).tolist() == [3, 1]


@given(populations)
def test_compress(population: np.ndarray) -> None:
    """No stage is empty, the order of stages stays, what is left out stays out, and a second time changes nothing."""
    result = compress(population)
    assert result.dtype == np.int8
    for before, after in zip(population.tolist(), result.tolist(), strict=True):
        names = {value: index for index, value in enumerate(sorted({value for value in before if value >= 0}))}
        assert after == [names.get(value, -1) for value in before]
    assert np.array_equal(compress(result), result)


def test_compress_nothing() -> None:
    """An empty population stays empty."""
    assert compress(np.zeros((0, 4), dtype=np.int8)).shape == (0, 4)


@given(populations)
def test_encode_undoes_decode(population: np.ndarray) -> None:
    """Stages and chromosome tell the same."""
    for chromosome in compress(population):
        if chromosome.max() >= 0:
            assert np.array_equal(encode(decode(chromosome), len(chromosome)), chromosome)


@pytest.mark.parametrize("stages", [[], [[0], []], [[0, 0]], [[0], [1, 0]], [[3]], [[-1]]])
def test_encode_refuses(stages: list[list[int]]) -> None:
    """Empty stages, repeats and positions of no feature."""
    with pytest.raises(DesignError, match=r"stages are .*positions in \[0, 2\]"):
        encode(stages, 3)


@given(populations)
def test_order_is_lexicographic(population: np.ndarray) -> None:
    """Keys sort as lists of genes do, and equal rows are found once, at their first place."""
    rows = [tuple(row) for row in population.tolist()]
    order = np.argsort(row_keys(population), kind="stable")
    assert [rows[index] for index in order] == sorted(rows)
    assert [rows[index] for index in unique_rows(population)] == sorted(set(rows))
    assert all(rows.index(rows[index]) == index for index in unique_rows(population))


def test_published_numbers_of_designs() -> None:
    """The counts of the method's page: n = 12 and 14 with two, three and four stages, and with exclusion."""
    assert [design_count(12, stages, exactly=True) for stages in (2, 3, 4)] == [4_094, 519_156, 14_676_024]
    assert [design_count(14, stages, exactly=True) for stages in (2, 3, 4)] == [16_382, 4_733_820, 249_401_880]
    assert [design_count(n, 4, exclusion=True) for n in (12, 14)] == [195_926_549, 5_317_308_365]
    assert design_count(14, 4) == 1 + 16_382 + 4_733_820 + 249_401_880


@pytest.mark.parametrize("exclusion", [False, True])
@pytest.mark.parametrize(("n", "stages"), [(1, 1), (2, 2), (3, 3), (4, 2), (5, 3), (6, 4)])
def test_counts_by_enumeration(n: int, stages: int, exclusion: bool) -> None:
    """The formulas count what trying every list of genes finds."""
    designs = all_designs(n, stages, exclusion=exclusion)
    assert len(designs) == design_count(n, stages, exclusion=exclusion)
    for count in range(1, stages + 1):
        found = np.count_nonzero(stage_counts(designs) == count)
        assert found == design_count(n, count, exactly=True, exclusion=exclusion)


@given(st.integers(1, 9), st.integers(1, 12))
def test_counts_by_stirling_numbers(n: int, stages: int) -> None:
    """J! S2(n, j) by the recurrence of the Stirling numbers; zero when there are more stages than features."""
    second = [[1] + [0] * stages]
    for _ in range(n):
        last = second[-1]
        second.append([0, *(count * last[count] + last[count - 1] for count in range(1, stages + 1))])
    assert design_count(n, stages, exactly=True) == math.factorial(stages) * second[n][stages]


@pytest.mark.parametrize(("n", "stages"), [(0, 1), (3, 0), (2.5, 1), (3, True)])
def test_counts_refuse(n: int, stages: int) -> None:
    """There is no design of nothing."""
    with pytest.raises(DesignError, match="integers of 1 or more"):
        design_count(n, stages)


def test_space() -> None:
    """Pins hold the first stage; a space knows when it has just one design."""
    space = Settings(pinned=(2,)).space(5)
    assert space == DesignSpace(5, 3, allow_exclusion=False, pinned=(2,))
    assert space.repair(genes([1, 1, -1, 2, 3], [1, 1, 1, 1, 1])).tolist() == [[1, 1, 0, 2, 3], [1, 1, 0, 1, 1]]
    assert not space.is_single
    assert DesignSpace(5, 1).is_single
    assert DesignSpace(1, 1, allow_exclusion=True).is_single
    assert DesignSpace(2, 2, pinned=(0, 1)).is_single
    assert not DesignSpace(5, 1, allow_exclusion=True).is_single


def test_repair_leaves_its_argument_alone() -> None:
    """Pins are set in a copy."""
    given_genes = genes([1, 0])
    DesignSpace(2, 2, pinned=(0,)).repair(given_genes)
    assert given_genes.tolist() == [[1, 0]]
