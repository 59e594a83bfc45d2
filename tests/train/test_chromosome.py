"""Chromosomes: compression, decoding, order, and the numbers of designs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from emsco_train.designs.chromosome import DesignSpace, compress, row_keys, stage_counts, unique_rows
from emsco_train.designs.design import Design
from emsco_train.search.exact.workload import estimate_workload
from emsco_train.search.settings import Settings
from tests.train.toy_landscape import all_designs

populations = hnp.arrays(np.int8, st.tuples(st.integers(1, 8), st.integers(1, 7)), elements=st.integers(-1, 9))


def genes(*rows: list[int]) -> np.ndarray:
    """Return a population."""
    return np.array(rows, dtype=np.int8)


def stages_of(chromosome: Sequence[int]) -> Design:
    """Return the design of a chromosome; its features are named by their positions."""
    names = [str(position) for position in range(len(chromosome))]
    return Design.of(chromosome, names, (0.9,), coverage=1.0, accuracy=1.0, cost=1.0)


def test_the_papers_examples() -> None:
    """{0,0,2,3} is compressed to {0,0,1,2}; {0,0,2,1,2} has three stages, of features 1-2, 4, and 3 and 5."""
    assert compress(genes([0, 0, 2, 3])).tolist() == [[0, 0, 1, 2]]
    assert stages_of([0, 0, 2, 1, 2]).stages == (("0", "1"), ("3",), ("2", "4"))
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
def test_stages_and_chromosome_are_the_same(population: np.ndarray) -> None:
    """The stages of a design hold each feature at the stage of its gene, and the excluded ones are those of -1."""
    for chromosome in compress(population).tolist():
        if max(chromosome) >= 0:
            made = stages_of(chromosome)
            found = {name: stage for stage, names in enumerate(made.stages) for name in names} | dict.fromkeys(made.excluded, -1)
            assert [found[str(position)] for position in range(len(chromosome))] == chromosome


@given(populations)
def test_order_is_lexicographic(population: np.ndarray) -> None:
    """Keys sort as lists of genes do, and equal rows are found once, at their first place."""
    rows = [tuple(row) for row in population.tolist()]
    order = np.argsort(row_keys(population), kind="stable")
    assert [rows[index] for index in order] == sorted(rows)
    assert [rows[index] for index in unique_rows(population)] == sorted(set(rows))
    assert all(rows.index(rows[index]) == index for index in unique_rows(population))


@pytest.mark.parametrize("exclusion", [False, True])
@pytest.mark.parametrize(("n", "stages"), [(1, 1), (2, 2), (3, 3), (4, 2), (5, 3), (6, 4)])
def test_counts_by_enumeration(n: int, stages: int, exclusion: bool) -> None:
    """The formulas count what trying every list of genes finds."""
    designs = all_designs(n, stages, exclusion=exclusion)
    for count in range(1, stages + 1):
        found = np.count_nonzero(stage_counts(designs) <= count)
        assert found == estimate_workload(n, count, 9, allow_exclusion=exclusion).designs


def test_space() -> None:
    """Pins hold the first stage; a space knows when it has just one design."""
    space = Settings(pinned=(2,), keep_all=True).space(5)
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
