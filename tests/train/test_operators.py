"""The operators: the published mutation figure, draws against their distributions, and the rules of pins and exclusion."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from emsco_train.designs.chromosome import DesignSpace, compress, stage_counts
from emsco_train.search.genetic.operators import crossover, initial_population, mutate, select, stage_probabilities

FIGURE = Path(__file__).parents[3] / "shared" / "paper" / "mutation_figure.csv"


def rng(seed: int = 0) -> np.random.Generator:
    """Return a generator."""
    return np.random.default_rng(seed)


def genes(*rows: list[int]) -> np.ndarray:
    """Return a population."""
    return np.array(rows, dtype=np.int8)


def increase_probability(n: int, mutation: float, beta: float, stages: int) -> float:
    """Return the chance that mutation adds a stage (the paper's P_incr), by the table that mutation draws from."""
    new_stage = 1.0 - stage_probabilities(stages + 1, beta)[stages, stages - 1]
    return float(1.0 - (1.0 - mutation * new_stage) ** n)


@pytest.mark.skipif(not FIGURE.exists(), reason="the published figure's points are not at hand")
def test_published_figure() -> None:
    """All 900 points of the paper's mutation figure, to 1e-12."""
    with FIGURE.open() as file:
        points = [(int(row["stage_count"]), float(row["beta"]), float(row["p_increment"])) for row in csv.DictReader(file)]
    assert len(points) == 900
    assert max(abs(increase_probability(15, 0.1, beta, stages) - p) for stages, beta, p in points) < 1e-12


@given(st.integers(1, 12), st.floats(1.0, 50.0), st.integers(1, 60), st.floats(0.001, 1.0))
def test_increase_probability_is_the_formula(stages: int, beta: float, n: int, mutation: float) -> None:
    """As the paper writes it, with Gamma functions."""
    opens = beta * math.exp(math.lgamma(stages + 1) + math.lgamma(beta) - math.lgamma(stages + beta + 1))
    assert increase_probability(n, mutation, beta, stages) == pytest.approx(1 - (1 - mutation * opens) ** n, abs=1e-12)


@pytest.mark.parametrize(("stages", "beta"), [(1, 2.0), (2, 1.5), (3, 2.5), (4, 2.0)])
def test_mutation_increases_stages_as_published(stages: int, beta: float) -> None:
    """The operator opens a new stage as often as P_incr says: exact binomial test, level one in a thousand."""
    trials, n, rate = 40_000, 15, 0.1
    # Three features a stage and more: the chance that a stage vanishes at the same time must not hide the new one.
    parent = np.sort(np.arange(n) % stages).astype(np.int8)
    space = DesignSpace(n, stages + 1)
    mutants = _raw_mutants(np.tile(parent, (trials, 1)), space, rate, beta)
    expected = increase_probability(n, rate, beta, stages)
    assert stats.binomtest(int((mutants == stages).any(axis=1).sum()), trials, expected).pvalue > 1e-3


def _raw_mutants(population: np.ndarray, space: DesignSpace, rate: float, beta: float) -> np.ndarray:
    from emsco_train.search.genetic import operators

    return operators._mutate_once(population, space, rate, stage_probabilities(space.max_stages, beta), rng(5))


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_draws_are_beta_binomial(stages: int) -> None:
    """Every redrawn gene follows the beta-binomial on 0..|Q|; at the most stages, renormalised on 0..k-1."""
    parent = np.tile((np.arange(8) % stages).astype(np.int8), (5_000, 1))
    for most in (stages, stages + 2):
        drawn = _raw_mutants(parent, DesignSpace(8, most), 1.0, 2.0).ravel()
        chances = stats.betabinom(stages, 1, 2.0).pmf(np.arange(stages + 1))[: most if most == stages else None]
        counts = np.bincount(drawn, minlength=len(chances))
        assert len(counts) == len(chances)
        if len(chances) > 1:
            assert stats.chisquare(counts, chances / chances.sum() * len(drawn)).pvalue > 1e-3


@given(st.integers(1, 12), st.floats(1.01, 30.0))
def test_table_is_scipys_distribution(most: int, beta: float) -> None:
    """The cumulative table equals scipy's beta-binomial, row by row."""
    table = stage_probabilities(most, beta)
    for stages in range(1, most + 1):
        expected = stats.betabinom(stages, 1, beta).pmf(np.arange(stages + 1))
        expected = expected[: most if stages == most else None]
        cumulative = np.cumsum(expected / expected.sum())[:-1]
        assert table[stages, : len(cumulative)] == pytest.approx(cumulative, abs=1e-12)
        assert np.isinf(table[stages, len(cumulative) :]).all()


def test_excluded_genes_are_drawn_as_said() -> None:
    """A mutated gene is left out with probability 1 / (|Q| + 2), else it follows the table."""
    parent = np.tile(genes([0, 1, 0, 1, 0, 1]), (8_000, 1))
    drawn = _raw_mutants(parent, DesignSpace(6, 4, allow_exclusion=True), 1.0, 2.0).ravel()
    chances = np.r_[0.25, 0.75 * stats.betabinom(2, 1, 2.0).pmf(np.arange(3))]
    assert stats.chisquare(np.bincount(drawn + 1), chances * len(drawn)).pvalue > 1e-3


@pytest.mark.parametrize("rate", [0.05, 1.0])
@given(st.integers(2, 9), st.data())
def test_operators_stay_inside_the_space(rate: float, n: int, data: st.DataObject) -> None:
    """Whatever the space: compressed, at most k stages, pins in the first, nothing empty, nothing left out unasked."""
    most = data.draw(st.integers(1, n))
    exclusion = data.draw(st.booleans())
    pins = tuple(sorted(data.draw(st.sets(st.integers(0, n - 1), max_size=n - 1))))
    space = DesignSpace(n, most, exclusion, pins)
    if space.is_single:
        return
    random, table = rng(data.draw(st.integers(0, 99))), stage_probabilities(most, 2.0)
    first = initial_population(12, space, table, random)
    mixed = crossover(first, first[::-1], space, 0.8, random)
    mutants = mutate(mixed, space, rate, table, random)
    assert (stage_counts(first) <= min(2, most)).all()
    assert exclusion or (stage_counts(first) == min(2, most)).all()
    for population in (first, mixed, mutants):
        assert population.dtype == np.int8
        assert np.array_equal(compress(population), population)
        assert population.max() < most
        assert (population.max(axis=1) >= 0).all()
        assert exclusion or population.min() >= 0
        assert (population[:, list(pins)] == 0).all()


def test_first_population() -> None:
    """Two stages each; a gene moves with chance 0.5 / (1 + beta), given that not all stay or go together."""
    population = initial_population(20_000, DesignSpace(4, 3), stage_probabilities(3, 2.0), rng())
    assert (stage_counts(population) == 2).all()
    moved = population.sum(axis=1)
    chances = stats.binom(4, 1 / 6).pmf([1, 2, 3])
    assert stats.chisquare(np.bincount(moved)[1:], chances / chances.sum() * len(moved)).pvalue > 1e-3


def test_first_population_with_a_huge_beta() -> None:
    """Where mutation would almost never open a stage, one free gene moves."""
    population = initial_population(50, DesignSpace(4, 3, pinned=(1,)), stage_probabilities(3, 1e12), rng())
    assert (population.sum(axis=1) == 1).all()
    assert (population[:, 1] == 0).all()
    assert len(np.unique(population, axis=0)) == 3


def test_first_population_of_single_stages() -> None:
    """With exclusion and one stage, designs differ in what they leave out."""
    population = initial_population(3_000, DesignSpace(4, 1, allow_exclusion=True), stage_probabilities(1, 2.0), rng())
    assert set(np.unique(population)) == {-1, 0}
    assert len(np.unique(population, axis=0)) == 15


def test_roulette_is_proportional_to_fitness() -> None:
    """Chi-square of the draws against the fitness."""
    fitness = np.array([1.0, 2.0, 3.0, 0.5])
    drawn = np.bincount(select(np.log(fitness), 50_000, rng()))
    assert stats.chisquare(drawn, fitness / fitness.sum() * 50_000).pvalue > 1e-3


def test_roulette_does_not_overflow() -> None:
    """Fitness whose logarithms are in the thousands; only differences matter."""
    levels = np.log([1.0, 3.0])
    for shift in (-1e4, 1e4):
        drawn = np.bincount(select(np.r_[-1e5, levels + shift, -1e5], 20_000, rng()), minlength=4)
        assert (drawn[0], drawn[3]) == (0, 0)
        assert stats.binomtest(int(drawn[2]), 20_000, 0.75).pvalue > 1e-3


def test_recombination_by_hand() -> None:
    """Every child of two parents is one that the rule allows, and all that it allows occur."""
    one, two = [0, 0, 1, 2, 2], [0, 1, 0, 0, 1]
    allowed = set()
    for stages in (3, 2, 3):  # (3 + 2) / 2 = 2.5 is rounded half up
        for picks in np.ndindex(*(2,) * 5):
            child = []
            for index, pick in enumerate(picks):
                gene, parts = ((one[index], 3), (two[index], 2))[pick]
                child.append(max(math.floor((gene + 1) / parts * stages + 0.5 + 1e-9) - 1, 0))
            allowed.add(tuple(compress(genes(child))[0].tolist()))
    children = crossover(np.tile(genes(one), (5_000, 1)), np.tile(genes(two), (5_000, 1)), DesignSpace(5, 3), 1.0, rng())
    assert {tuple(child) for child in children.tolist()} == allowed


def test_without_crossover_a_parent_passes() -> None:
    """By a fair coin."""
    one, two = genes([0, 1, 2]), genes([0, 0, 1])
    children = crossover(np.tile(one, (10_000, 1)), np.tile(two, (10_000, 1)), DesignSpace(3, 3), 0.0, rng())
    first = (children == one).all(axis=1)
    assert (first | (children == two).all(axis=1)).all()
    assert stats.binomtest(int(first.sum()), 10_000, 0.5).pvalue > 1e-3


def test_crossover_rate() -> None:
    """The share of mixed children is the rate; each stage count of the three has the same chance."""
    one, two = np.zeros((30_000, 6), dtype=np.int8), np.tile(np.arange(6, dtype=np.int8), (30_000, 1))
    children = crossover(one, two, DesignSpace(6, 6), 0.6, rng())
    passed = (children == one).all(axis=1) | (children == two).all(axis=1)
    # A mixed child is seldom like a parent: all coins the same way (twice 1/64), or a single stage drawn (a third).
    expected = 0.4 + 0.6 * (1 / 3 + 2 / 3 * 2 / 64)
    assert abs(passed.mean() - expected) < 0.02


def test_empty_children_are_drawn_again() -> None:
    """Two parents without a feature in common can leave everything out; such a child is redrawn."""
    one, two = np.tile(genes([0, -1]), (500, 1)), np.tile(genes([-1, 0]), (500, 1))
    space = DesignSpace(2, 1, allow_exclusion=True)
    children = crossover(one, two, space, 1.0, rng())
    assert (children.max(axis=1) == 0).all()
    mutants = mutate(one, space, 1.0, stage_probabilities(1, 2.0), rng())
    assert (mutants.max(axis=1) == 0).all()
    assert len(np.unique(mutants, axis=0)) == 3


def test_mutation_needs_no_gene() -> None:
    """A rate so small that nothing is redrawn leaves the population as it was."""
    population = genes([0, 1, 1], [0, 0, 1])
    assert np.array_equal(mutate(population, DesignSpace(3, 2), 1e-12, stage_probabilities(2, 2.0), rng()), population)
