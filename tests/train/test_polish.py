"""The local search: its neighbours, its bounds, and what share of exact fronts it finds."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_train.designs.chromosome import DesignSpace
from emsco_train.search.genetic.evolution import evolve_population
from emsco_train.search.genetic.neighbours import neighbour_count, neighbours
from emsco_train.search.genetic.polish import count_dominators, polish_population
from emsco_train.search.pace import Step
from emsco_train.search.scoring.objectives import Objectives
from emsco_train.search.settings import Constraints, Settings
from tests.train.toy_landscape import all_designs, exact_front, fitted_landscape, random_landscape, vectors

pytestmark = pytest.mark.uncounted

ONE = np.zeros((1, 6), dtype=np.int8)


def neighbours_by_hand(chromosome: list[int], space: DesignSpace) -> set[tuple[int, ...]]:
    """Return the neighbours of a design, made one by one from its stages."""
    n, found = len(chromosome), set()
    stages = [[i for i in range(n) if chromosome[i] == stage] for stage in range(max(chromosome) + 1)]
    made = []
    for feature in range(n):
        rest = [[i for i in stage if i != feature] for stage in stages]
        made += [[*rest[:at], [feature], *rest[at:]] for at in range(len(rest) + 1)]
        made += [[*rest[:at], [*rest[at], feature], *rest[at + 1 :]] for at in range(len(rest))]
        made += [rest] if space.allow_exclusion else []
    made += [[*stages[:at], stages[at] + stages[at + 1], *stages[at + 2 :]] for at in range(len(stages) - 1)]
    for design in made:
        genes = [-1] * n
        for number, stage in enumerate([stage for stage in design if stage]):
            for feature in stage:
                genes[feature] = number
        found.add(tuple(genes))
    for one in range(n):
        for two in range(one):
            genes = list(chromosome)
            genes[one], genes[two] = genes[two], genes[one]
            found.add(tuple(genes))
    legal = {genes for genes in found if -1 < max(genes) < space.max_stages}
    return {genes for genes in legal if all(genes[pin] == 0 for pin in space.pinned)}


@given(st.lists(st.integers(-1, 3), min_size=2, max_size=6), st.integers(1, 4), st.booleans(), st.booleans())
def test_neighbours_by_hand(genes: list[int], most: int, exclusion: bool, pin: bool) -> None:
    """Moves, merges and swaps, made one by one from the stages, are just what is found."""
    space = DesignSpace(len(genes), most, exclusion, (0,) if pin else ())
    origin = np.clip(np.array([genes], dtype=np.int8), -1 if exclusion else 0, most - 1)
    origin = space.repair(origin)
    if origin.max() < 0:
        return
    near = neighbours(origin, space)
    assert len(near) <= neighbour_count(space)
    found = {tuple(row) for row in near.tolist()}
    expected = neighbours_by_hand(origin[0].tolist(), space)
    own = tuple(origin[0].tolist())
    assert found | {own} == expected | {own}


@pytest.mark.parametrize("exclusion", [False, True])
def test_small_spaces_are_exhausted(exclusion: bool) -> None:
    """Without a bound in the way, every design is evaluated once, from the simplest start: the result is exact."""
    landscape = random_landscape(5, 20, 2)
    designs = all_designs(5, 3, exclusion=exclusion)
    exact = exact_front(landscape, designs)
    found = polish_population(landscape, Settings(max_stages=3, keep_all=not exclusion), ONE[:, :5], seed=0)
    assert found.stopped == "exhausted"
    assert found.evaluations == found.expanded == len(designs)
    assert vectors(found.objectives) == exact
    assert len(found.chromosomes) == len(exact)
    scored = landscape(designs).vectors().tolist()
    assert found.ties.tolist() == [scored.count(vector) for vector in found.objectives.vectors().tolist()]


def test_the_papers_ties() -> None:
    """Where chromosomes count, every tied one is returned."""
    landscape = random_landscape(4, 6, 2)
    ours = polish_population(landscape, Settings(max_stages=3, keep_all=True), ONE[:, :4], seed=0)
    papers = polish_population(landscape, Settings(max_stages=3, keep_all=True, distinct="chromosomes"), ONE[:, :4], seed=0)
    assert len(papers.chromosomes) == ours.ties.sum()
    assert vectors(papers.objectives) == vectors(ours.objectives)


def test_order_and_representatives() -> None:
    """Fittest first; objectives are those of the chromosomes."""
    landscape = random_landscape(6, 20, 2)
    found = polish_population(landscape, Settings(max_stages=3, keep_all=True, polish_evaluations=300), ONE, seed=0)
    assert np.array_equal(landscape(found.chromosomes).vectors(), found.objectives.vectors())
    assert (np.diff(found.objectives.performance()) <= 0).all()


@pytest.mark.parametrize("bound", [1, 50, 333])
def test_bound_on_evaluations(bound: int) -> None:
    """Never more than allowed, and the same again with the same seed."""
    runs = []
    for _ in range(2):
        landscape = random_landscape(6, 20, 2)
        found = polish_population(landscape, Settings(max_stages=4, keep_all=True, polish_evaluations=bound), ONE, seed=1)
        assert found.stopped == "evaluations"
        assert landscape.evaluated == found.evaluations == bound
        runs.append(found.chromosomes.tolist())
    assert runs[0] == runs[1]


def test_bound_on_neighbours_met_again() -> None:
    """A space that is nearly exhausted is not combed to the end: neighbours made are bounded as well."""
    landscape = random_landscape(6, 20, 2)
    found = polish_population(landscape, Settings(max_stages=4, keep_all=True, polish_evaluations=2_200), ONE, seed=1)
    assert found.stopped == "evaluations"
    assert found.expanded < found.evaluations <= len(all_designs(6, 4)) == 2_163


def test_bound_on_seconds() -> None:
    """No time: the start is evaluated, and that is all."""
    found = polish_population(random_landscape(6, 20, 2), Settings(max_stages=4, keep_all=True, polish_seconds=1e-9), ONE, seed=1)
    assert (found.stopped, found.evaluations) == ("time", 1)
    assert found.chromosomes.tolist() == ONE.tolist()


def test_a_time_limit_beside_that_of_the_settings() -> None:
    """The shorter of the two holds; with no time left, no neighbour is evaluated."""
    for own, limit in ((1e-9, 100.0), (100.0, 0.0), (None, 0.0)):
        chosen = Settings(max_stages=4, keep_all=True, polish_seconds=own)
        found = polish_population(random_landscape(6, 20, 2), chosen, ONE, seed=1, time_limit=limit)
        assert (found.stopped, found.evaluations) == ("time", 1)


def test_time_runs_out_within_a_round() -> None:
    """The batch that was evaluated counts, the rest of the round is left."""
    landscape = random_landscape(6, 20, 2)
    steps: list[Step] = []

    def slow(step: Step) -> None:
        steps.append(step)
        time.sleep(0.3)

    found = polish_population(landscape, Settings(max_stages=4, keep_all=True), ONE, seed=1, time_limit=0.25, on_step=slow)
    assert found.stopped == "time"
    assert len(steps) == 1
    assert found.evaluations == steps[0].done == landscape.evaluated < len(neighbours(ONE, DesignSpace(6, 4)))
    scored = landscape(found.chromosomes)
    assert np.array_equal(scored.vectors(), found.objectives.vectors())


def test_progress_is_reported() -> None:
    """Evaluations grow up to the bound; reporting changes nothing."""
    chosen = Settings(max_stages=4, keep_all=True, polish_evaluations=500)
    steps: list[Step] = []
    reported = polish_population(random_landscape(6, 20, 2), chosen, ONE, seed=1, on_step=steps.append)
    plain = polish_population(random_landscape(6, 20, 2), chosen, ONE, seed=1)
    assert np.array_equal(reported.chromosomes, plain.chromosomes)
    done = [step.done for step in steps]
    assert done == sorted(done)
    assert (done[-1], steps[-1].total, steps[-1].phase) == (500, 500, "polish")
    assert all(step.front for step in steps)


def test_interruption_while_progress_is_reported() -> None:
    """Ctrl-C while a step is reported: what was evaluated until then counts."""
    landscape = random_landscape(6, 20, 2)

    def stop(step: Step) -> None:
        if step.done > 200:
            raise KeyboardInterrupt

    found = polish_population(landscape, Settings(max_stages=4, keep_all=True), ONE, seed=1, on_step=stop)
    assert found.stopped == "interrupted"
    assert found.evaluations == landscape.evaluated > 200


def test_interruption_keeps_what_was_found() -> None:
    """Ctrl-C in the third round."""
    landscape = random_landscape(6, 20, 2)

    class Interrupting:
        n, rows = landscape.n, landscape.rows

        def __call__(self, population: np.ndarray) -> Objectives:
            if landscape.calls == 3:
                raise KeyboardInterrupt
            return landscape(population)

    found = polish_population(Interrupting(), Settings(max_stages=4, keep_all=True), ONE, seed=1)
    assert found.stopped == "interrupted"
    assert found.evaluations == landscape.evaluated
    assert len(found.chromosomes)


def test_constraints() -> None:
    """Only feasible designs; they are the feasible part of the exact front, or none."""
    landscape = random_landscape(5, 20, 1)
    chosen = Settings(max_stages=3, keep_all=True, constraints=Constraints(max_cost=9.0, min_coverage=0.6))
    found = polish_population(landscape, chosen, ONE[:, :5], seed=0)
    exact = exact_front(landscape, all_designs(5, 3))
    assert vectors(found.objectives) == {vector for vector in exact if vector[2] <= 180 and vector[0] >= 12}
    nothing = replace(chosen, constraints=Constraints(max_cost=0.001))
    assert len(polish_population(landscape, nothing, ONE[:, :5], seed=0).chromosomes) == 0


def test_pins_hold() -> None:
    """A pinned feature is never moved."""
    landscape = random_landscape(5, 20, 1)
    designs = all_designs(5, 3)
    pinned = designs[(designs[:, 1] == 0) & (designs[:, 3] == 0)]
    found = polish_population(landscape, Settings(max_stages=3, keep_all=True, pinned=(1, 3)), ONE[:, :5], seed=0)
    assert found.evaluations == len(pinned)
    assert vectors(found.objectives) == exact_front(landscape, pinned)


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=30), st.integers(1, 20))
def test_dominators_by_hand(rows: list[tuple[int, ...]], cut: int) -> None:
    """How many members of the front dominate each point, by the definition."""

    def beats(one: tuple[float, ...], two: tuple[float, ...]) -> bool:
        return one != two and all(a <= b for a, b in zip(one, two, strict=True))

    front = sorted({row for row in rows[:cut] if not any(beats(other, row) for other in rows[:cut])})
    counts, first = count_dominators(np.array(rows, dtype=float), np.array(front, dtype=float))
    for row, count, member in zip(rows, counts, first, strict=True):
        expected = [index for index, other in enumerate(front) if beats(other, row)]
        assert count == len(expected)
        assert not expected or member == expected[0]


@pytest.mark.parametrize(
    ("n", "stages", "seeds"), [(8, 3, 2), (8, 4, 1), *(pytest.param(12, stages, 1, marks=pytest.mark.proof) for stages in (2, 3))]
)
def test_realistic_fronts_are_found_whole(n: int, stages: int, seeds: int) -> None:
    """Eight and twelve features with real logistic fits: after the generations, polish finds what they missed."""
    landscape = fitted_landscape(n)
    exact = exact_front(landscape, all_designs(n, stages))
    chosen = Settings(max_stages=stages, keep_all=True, generations=60, polish_evaluations=25_000 if n == 8 else 60_000)
    for seed in range(seeds):
        plain = evolve_population(landscape, chosen, seed=seed)
        found = polish_population(landscape, chosen, plain.population, seed=seed)
        assert vectors(found.objectives) >= vectors(plain.objectives) & exact
        assert len(vectors(found.objectives) & exact) >= 0.99 * len(exact)
