"""Ranks against the definition and moocore, constraints, fitness, and which design represents ties."""

from __future__ import annotations

from fractions import Fraction

import moocore
import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_train.search.genetic.added_volume import added_volume
from emsco_train.search.genetic.pareto import log_fitness, non_dominated, pareto_layers, pareto_ranks, rank_population, violations
from emsco_train.search.scoring.objectives import Objectives
from emsco_train.search.settings import Constraints

ROWS = 12


@st.composite
def designs(draw: st.DrawFn, size: int = 25) -> Objectives:
    """Return objectives on few values, so that ties and repeats abound; costs may be huge and close together."""
    chosen = draw(st.lists(st.tuples(st.integers(0, ROWS), st.integers(0, ROWS), st.integers(1, 5)), min_size=1, max_size=size))
    base = draw(st.sampled_from([0, 2**61]))
    return make_objectives([(max(a, r), min(a, r), base + c) for a, r, c in chosen])


def make_objectives(rows: list[tuple[int, int, int]]) -> Objectives:
    """Return objectives from (accepted, right, cost) tuples."""
    return Objectives(*np.array(rows, dtype=np.int64).T, ROWS)


def dominates(one: list[int], two: list[int]) -> bool:
    """Return whether one is as good everywhere and better somewhere, in exact arithmetic."""
    pairs = [(row[0], Fraction(row[1], row[0]) if row[0] else Fraction(0), -row[2]) for row in (one, two)]
    return all(a >= b for a, b in zip(*pairs, strict=True)) and pairs[0] != pairs[1]


def peel_layers(rows: list[list[int]]) -> list[int]:
    """Return layers by the definition: take off what nothing left dominates, again and again."""
    layers = [-1] * len(rows)
    layer = 0
    while -1 in layers:
        left = [index for index, value in enumerate(layers) if value == -1]
        for index in [i for i in left if not any(dominates(rows[other], rows[i]) for other in left)]:
            layers[index] = layer
        layer += 1
    return layers


@given(designs())
def test_layers_are_the_definition(objectives: Objectives) -> None:
    """Equal vectors share a layer; ranks count from the last layer up; the first layer is what nothing dominates."""
    expected = peel_layers(objectives.vectors().tolist())
    layers = pareto_layers(objectives)
    assert layers.tolist() == expected
    assert pareto_ranks(layers).tolist() == [max(expected) - layer for layer in expected]
    assert non_dominated(objectives).tolist() == [layer == 0 for layer in expected]


def test_layers_are_moocores() -> None:
    """A large population with repeats, as floats where these are exact."""
    random = np.random.default_rng(3)
    accepted = random.integers(1, 60, 400)
    objectives = Objectives(accepted, random.integers(0, accepted + 1), random.integers(1, 40, 400), 60)
    objectives = objectives.take(random.integers(0, 400, 600))
    floats = np.column_stack([-objectives.coverage, -objectives.accuracy, objectives.cost])
    assert np.array_equal(pareto_layers(objectives), moocore.pareto_rank(floats))


@given(designs(), st.lists(st.sampled_from([0.0, 0.0, 0.25, 0.5]), min_size=25, max_size=25))
def test_constraints_come_first(objectives: Objectives, missed: list[float]) -> None:
    """Layers by the definition of constrained dominance: feasible before not, then the smaller violation."""
    violation = np.array(missed[: len(objectives)])
    rows = objectives.vectors().tolist()

    def beats(one: int, two: int) -> bool:
        if violation[one] or violation[two]:
            return bool(violation[one] < violation[two])
        return dominates(rows[one], rows[two])

    left, layer = set(range(len(rows))), 0
    layers = pareto_layers(objectives, violation)
    while left:
        best = {index for index in left if not any(beats(other, index) for other in left)}
        assert {index for index in left if layers[index] == layer} == best
        left, layer = left - best, layer + 1


def test_violations() -> None:
    """Each miss by its own bound, summed; a design exactly at its bounds is feasible."""
    objectives = Objectives(np.array([6, 12]), np.array([3, 12]), np.array([36, 72]), ROWS, scale=2.0)
    assert violations(objectives, Constraints()).tolist() == [0.0, 0.0]
    assert violations(objectives, Constraints(max_cost=2, min_coverage=1, min_accuracy=1)).tolist() == [1.0, 0.5]
    assert violations(objectives, Constraints(max_cost=3, min_coverage=0.5, min_accuracy=0.5)).tolist() == [0.0, 0.0]


@given(designs(), st.floats(1e-6, 1.0))
def test_property_2(objectives: Objectives, epsilon: float) -> None:
    """A higher rank is always fitter, and within a rank fitness follows E."""
    performance, ranks = objectives.performance(), pareto_ranks(pareto_layers(objectives))
    fitness = log_fitness(performance, ranks, epsilon)
    for one in range(len(ranks)):
        for two in range(len(ranks)):
            if ranks[one] > ranks[two]:
                assert fitness[one] > fitness[two]
            elif ranks[one] == ranks[two] and performance[one] > performance[two]:
                assert fitness[one] >= fitness[two]


def test_fitness_is_the_formula() -> None:
    """Gamma^rank E, and no overflow where that would."""
    performance, ranks = np.array([0.5, 1.0, 1.5]), np.array([0, 1, 2])
    assert np.exp(log_fitness(performance, ranks, 0.01)) == pytest.approx(3.01**ranks * performance)
    assert np.isfinite(log_fitness(np.array([0.001, 1.7]), np.array([0, 5000]), 0.01)).all()


def make_population(*rows: list[int]) -> np.ndarray:
    """Return chromosomes."""
    return np.array(rows, dtype=np.int8)


TIED = make_population([0, 1, 2], [0, 1, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0], [1, 0, 1])
SAME = make_objectives([(9, 9, 8), (9, 9, 8), (9, 9, 8), (9, 9, 8), (9, 9, 9), (12, 10, 20)])


def test_ties_have_one_representative() -> None:
    """Of tied chromosomes, the one with fewest stages, then the lexicographically least; repeats do not count as ties."""
    ranking = rank_population(TIED, SAME, constraints=Constraints(), epsilon=0.01, distinct="objectives")
    assert TIED[ranking.order].tolist() == [[0, 0, 1], [1, 0, 1], [0, 0, 0]]
    assert ranking.ties.tolist() == [3, 1, 1]
    assert ranking.front == 2
    assert ranking.feasible


def test_the_papers_way_counts_chromosomes() -> None:
    """Every different chromosome represents itself; equal fitness is in lexicographic order."""
    ranking = rank_population(TIED, SAME, constraints=Constraints(), epsilon=0.01, distinct="chromosomes")
    assert TIED[ranking.order].tolist() == [[0, 0, 1], [0, 1, 1], [0, 1, 2], [1, 0, 1], [0, 0, 0]]
    assert ranking.ties.tolist() == [1] * 5
    assert ranking.front == 4


def test_shared_place_on_the_wheel() -> None:
    """A tie of four, repeats included, has the weight of one; order and front stay."""
    plain = rank_population(TIED, SAME, constraints=Constraints(), epsilon=0.01, distinct="objectives")
    shared = rank_population(TIED, SAME, constraints=Constraints(), epsilon=0.01, distinct="objectives", share_ties=True)
    assert np.exp(plain.log_fitness - shared.log_fitness) == pytest.approx([4, 4, 4, 4, 1, 1])
    assert shared.order.tolist() == plain.order.tolist()


def test_infeasible_generation() -> None:
    """The nearest to feasible come first, and the ranking says that they are not feasible."""
    ranking = rank_population(TIED, SAME, constraints=Constraints(min_coverage=0.9), epsilon=0.01, distinct="objectives")
    assert (TIED[ranking.order[0]].tolist(), ranking.front, ranking.feasible) == ([1, 0, 1], 1, True)
    ranking = rank_population(TIED, SAME, constraints=Constraints(max_cost=0.5), epsilon=0.01, distinct="objectives")
    assert (TIED[ranking.order[0]].tolist(), ranking.front, ranking.feasible) == ([0, 0, 1], 1, False)


@given(designs(), st.integers(0, 1000), st.sampled_from(["objectives", "chromosomes"]))
def test_order_puts_the_front_first(objectives: Objectives, seed: int, distinct: str) -> None:
    """The first `front` are exactly the distinct designs that nothing dominates, and fitness falls along the order."""
    # Equal chromosomes have equal objectives: the chromosome spells the vector's number, and some ties get a second spelling.
    numbers = np.unique(objectives.vectors(), axis=0, return_inverse=True)[1].reshape(-1)
    spelling = np.random.default_rng(seed).integers(0, 2, len(numbers))
    rows = np.column_stack([numbers, spelling]).astype(np.int8)
    ranking = rank_population(rows, objectives, constraints=Constraints(), epsilon=0.01, distinct=distinct)
    best = non_dominated(objectives)
    key = objectives.vectors() if distinct == "objectives" else rows
    assert {tuple(row) for row in key[ranking.order[: ranking.front]].tolist()} == {tuple(row) for row in key[best].tolist()}
    assert len({tuple(row) for row in key.tolist()}) == len(ranking.order)
    assert (np.diff(ranking.log_fitness[ranking.order]) <= 1e-9).all()
    assert ranking.ties.sum() == len({tuple(row) for row in rows.tolist()})


coordinates = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0.0, 1.5)


@given(st.lists(st.tuples(coordinates, coordinates, coordinates), min_size=1, max_size=25))
def test_added_volume_is_the_difference_of_hypervolumes(rows: list[tuple[float, float, float]]) -> None:
    """What the last point adds to those before it is what the reference library finds, for equal and for far points, too."""
    points, reference = np.array(rows), np.array([1.0, 1.0, 1.0])
    taken = np.argsort(points[:-1, 2], kind="stable")
    inside = np.minimum(points, 1.0)
    before = moocore.hypervolume(inside[:-1], ref=reference) if len(rows) > 1 else 0.0
    expected = moocore.hypervolume(inside, ref=reference) - before
    # A point that is beyond the reference is at its edge: it dominates nothing.
    assert added_volume(inside, taken, len(rows) - 1, reference) == pytest.approx(expected, abs=1e-12)
