"""The genetic algorithm as a whole: its two properties, halting rules, growth, interruptions and constraints."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from emsco_train.designs.chromosome import DesignSpace, compress
from emsco_train.errors import DesignError
from emsco_train.search.genetic.evolution import Evolution, Generation, evolve_population
from emsco_train.search.genetic.generation import GeneticAlgorithm
from emsco_train.search.genetic.pareto import non_dominated, pareto_layers
from emsco_train.search.pace import AdaptiveBatches, Step
from emsco_train.search.scoring.objectives import Objectives
from emsco_train.search.settings import Constraints, Settings, round_half_up
from emsco_train.support.stop_flag import FitStopped
from tests.train.toy_landscape import Landscape, all_designs, exact_front, fitted_landscape, random_landscape, vectors

# Much of it repeats what other tests have counted.
pytestmark = pytest.mark.uncounted

SMALL = Settings(max_stages=3, keep_all=True, population=40, generations=12)


class RecordingEvaluator:
    """An evaluator that remembers every design it evaluated."""

    def __init__(self, landscape: Landscape) -> None:
        """Wrap a landscape."""
        self.landscape, self.n, self.rows = landscape, landscape.n, landscape.rows
        self.requested: list[np.ndarray] = []

    def __call__(self, population: np.ndarray) -> Objectives:
        """Evaluate and remember."""
        self.requested.append(population.copy())
        return self.landscape(population)


def is_same_run(one: Evolution, two: Evolution) -> bool:
    """Return whether two runs found the same, bit for bit, in the same way."""
    return (
        np.array_equal(one.chromosomes, two.chromosomes)
        and np.array_equal(one.objectives.vectors(), two.objectives.vectors())
        and np.array_equal(one.ties, two.ties)
        and np.array_equal(one.population, two.population)
        and (one.generations, one.stopped, one.evaluations) == (two.generations, two.stopped, two.evaluations)
    )


def test_same_seed_same_run() -> None:
    """Seed and settings decide everything; another seed searches elsewhere."""
    landscape = random_landscape(6, 20, 0)
    one, two, other = (evolve_population(landscape, SMALL, seed=seed) for seed in (1, 1, 2))
    assert is_same_run(one, two)
    assert not np.array_equal(one.population, other.population)


@pytest.mark.parametrize("distinct", ["objectives", "chromosomes"])
@settings(max_examples=15)
@given(st.integers(0, 10_000), st.booleans())
def test_property_1(distinct: Any, seed: int, exclusion: bool) -> None:
    """A design that nothing dominates globally, once met, is returned: as a chromosome, or as its objective vector."""
    landscape = random_landscape(5, 15, seed)
    recorder = RecordingEvaluator(landscape)
    chosen = replace(SMALL, distinct=distinct, keep_all=not exclusion, population=60)
    found = evolve_population(recorder, chosen, seed=seed)
    met = np.unique(np.concatenate(recorder.requested), axis=0)
    best = exact_front(landscape, all_designs(5, 3, exclusion=exclusion))
    top = [tuple(row) in best for row in landscape(met).vectors().tolist()]
    if distinct == "objectives":
        assert vectors(landscape(met[top])) <= vectors(found.objectives)
    elif len(met[top]) <= 60:
        returned = {tuple(row) for row in found.chromosomes.tolist()}
        assert {tuple(row) for row in met[top].tolist()} <= returned


def test_result_is_the_front_of_the_last_generation() -> None:
    """Distinct, not dominated within it, fittest first, with objectives that the evaluator gives."""
    landscape = random_landscape(6, 20, 3)
    found = evolve_population(landscape, SMALL, seed=0)
    last = landscape(found.population)
    assert vectors(found.objectives) == vectors(last.take(non_dominated(last)))
    assert len(vectors(found.objectives)) == len(found.chromosomes)
    assert np.array_equal(landscape(found.chromosomes).vectors(), found.objectives.vectors())
    performance = last.performance()
    by_row = {tuple(row): value for row, value in zip(found.population.tolist(), performance, strict=True)}
    records = [by_row[tuple(row)] for row in found.chromosomes.tolist()]
    assert records == sorted(records, reverse=True)
    assert np.array_equal(found.best, found.chromosomes[0])
    tied = [
        len({tuple(r) for r, v in zip(found.population.tolist(), last.vectors().tolist(), strict=True) if v == vector})
        for vector in found.objectives.vectors().tolist()
    ]
    assert found.ties.tolist() == tied


def test_each_generation_follows_the_rules() -> None:
    """Elite first and unchanged, the size held, every chromosome allowed; only different children are evaluated."""
    recorder = RecordingEvaluator(random_landscape(6, 20, 4))
    algorithm = GeneticAlgorithm.of(recorder, SMALL, 0)
    state = algorithm.first_generation()
    for number in range(8):
        elite = algorithm.elite_size(state)
        layers = pareto_layers(state.objectives)
        front = len(vectors(state.objectives.take(layers == 0)))
        assert elite == max(round_half_up(0.2 * len(vectors(state.objectives))), front)
        successor = algorithm.next_generation(state)
        assert successor.number == number + 1
        assert len(successor.population) == 40
        assert np.array_equal(successor.population[:elite], state.population[state.ranking.order[:elite]])
        assert np.array_equal(compress(successor.population), successor.population)
        assert successor.population.max() < 3
        children = np.unique(successor.population[elite:], axis=0)
        assert np.array_equal(recorder.requested[-1], children)
        assert successor.evaluations == state.evaluations + len(children)
        assert np.array_equal(recorder.landscape(successor.population).vectors(), successor.objectives.vectors())
        state = successor


def test_generations_and_records() -> None:
    """Rule (i), and one frozen record for each generation, the first population included."""
    records: list[Generation] = []
    found = evolve_population(random_landscape(6, 20, 0), SMALL, seed=0, on_generation=records.append)
    assert (found.stopped, found.generations) == ("generations", 12)
    assert [record.number for record in records] == list(range(13))
    assert records[-1].evaluations == found.evaluations
    assert records[-1].best == tuple(found.best.tolist())
    assert records[-1].front == len(found.chromosomes)
    assert records[-1].size == 40
    assert {record.most for record in records} == {12}
    assert all(one.elapsed_s <= two.elapsed_s for one, two in pairwise(records))
    assert all(0 < record.performance <= 3**0.5 and np.isfinite(record.log_fitness) for record in records)
    with pytest.raises(AttributeError):
        records[0].number = 3  # type: ignore[misc]


def test_patience() -> None:
    """Rule (ii): the fittest chromosome has been the same for `patience` generations, and not for fewer."""
    records: list[Generation] = []
    chosen = replace(SMALL, patience=4, generations=500)
    found = evolve_population(random_landscape(6, 20, 0), chosen, seed=0, on_generation=records.append)
    assert found.stopped == "patience"
    best = [record.best for record in records]
    assert len(set(best[-5:])) == 1
    assert all(len(set(best[index : index + 5])) > 1 for index in range(len(best) - 5))


def _all_tied(n: int = 6) -> Landscape:
    """Return a landscape where everything is accepted at once, and features cost the same: first stages decide."""
    confident = np.ones((1 << n, 10), dtype=bool)
    return Landscape(confident, confident, np.ones(n, dtype=np.int64))


def test_full_elite_halts_the_papers_way_only() -> None:
    """Rule (iii): ties fill the population and halt the search where chromosomes count; objective vectors do not."""
    chosen = replace(SMALL, population=5, generations=60)
    papers = evolve_population(_all_tied(), replace(chosen, distinct="chromosomes"), seed=0)
    assert papers.stopped == "elite"
    assert papers.generations < 60
    assert len(papers.chromosomes) == 5
    ours = evolve_population(_all_tied(), chosen, seed=0)
    assert ours.stopped == "generations"
    assert len(ours.chromosomes) == 1
    assert ours.ties[0] >= 1


def test_growth() -> None:
    """With room to grow, a full elite makes the population larger; when it is not needed any more, it shrinks again."""
    sizes: list[int] = []
    chosen = replace(SMALL, population=5, generations=30, growth=2, distinct="chromosomes")
    found = evolve_population(_all_tied(), chosen, seed=0, on_generation=lambda record: sizes.append(record.size))
    assert found.stopped == "generations"
    assert max(sizes) > 5
    assert {abs(one - two) for one, two in pairwise(sizes)} <= {0, 1, 2}


@pytest.mark.parametrize(("elite", "size", "expected"), [(5, 5, 7), (4, 5, 6), (3, 7, 5), (5, 7, 7), (4, 7, 5), (2, 5, 5)])
def test_next_size_by_hand(elite: int, size: int, expected: int) -> None:
    """Grow until there is room for enough children; shrink when it leaves more than the growth free, never below the start."""
    algorithm = GeneticAlgorithm.of(_all_tied(), replace(SMALL, population=5, growth=2), 0)
    assert algorithm._next_size(size, elite) == expected


@pytest.mark.parametrize(
    "chosen",
    [
        Settings(max_stages=1, keep_all=True),
        Settings(pinned=(0, 1, 2, 3, 4, 5)),
        Settings(max_stages=1, keep_all=True, pinned=(2,)),
    ],
)
def test_single_design(chosen: Settings) -> None:
    """One stage, or everything pinned: the one design there is, without a search."""
    landscape = random_landscape(6, 20, 0)
    found = evolve_population(landscape, chosen, seed=0)
    assert (found.stopped, found.generations, landscape.evaluated) == ("single", 0, 1)
    assert found.chromosomes.tolist() == [[0] * 6]


@pytest.mark.parametrize("seed", [-1, 1.5, True, None])
def test_seed_is_checked(seed: Any) -> None:
    """A seed that is not an integer of at least 0 is refused before anything is evaluated."""
    landscape = random_landscape(4, 5, 0)
    with pytest.raises(DesignError, match="seed is"):
        evolve_population(landscape, Settings(), seed=seed)
    assert landscape.evaluated == 0


def test_time_limit_keeps_the_front() -> None:
    """No time at all: a part of the first population is evaluated, and its front returned."""
    found = evolve_population(random_landscape(6, 20, 0), SMALL, seed=0, time_limit=0.0)
    assert (found.stopped, found.generations) == ("time", 0)
    assert len(found.chromosomes)


def test_time_that_is_over_in_the_first_batch_keeps_the_seeds() -> None:
    """Seeds take no new fits: their front is returned where no other design could be evaluated; without them there is none."""
    landscape = random_landscape(6, 20, 0)
    seeds = compress(np.array([[0, 0, 0, 1, 1, 1], [0, 1, 2, 2, 2, 2]], dtype=np.int8))

    class OutOfTime(RecordingEvaluator):
        def __call__(self, population: np.ndarray) -> Objectives:
            if len(population) > len(seeds) or not all(row in seeds.tolist() for row in population.tolist()):
                raise FitStopped
            return super().__call__(population)

    found = evolve_population(OutOfTime(landscape), SMALL, seed=0, time_limit=60.0, make_seeds=lambda _: seeds)
    assert (found.stopped, found.generations, found.evaluations) == ("time", 0, 2)
    assert np.array_equal(found.population, seeds)
    with pytest.raises(FitStopped):
        evolve_population(OutOfTime(landscape), SMALL, seed=0, time_limit=60.0)


@pytest.mark.parametrize("where", ["evaluator", "callback"])
def test_interruption_keeps_the_front_so_far(where: str) -> None:
    """Ctrl-C in the middle of generation 5: the front of the last complete generation is returned."""
    landscape = random_landscape(6, 20, 0)
    records: list[int] = []

    class Interrupting(RecordingEvaluator):
        def __call__(self, population: np.ndarray) -> Objectives:
            if records and records[-1] == 4:
                raise KeyboardInterrupt
            return super().__call__(population)

    def callback(record: Generation) -> None:
        records.append(record.number)
        if record.number == 4 and where == "callback":
            raise KeyboardInterrupt

    found = evolve_population(Interrupting(landscape), SMALL, seed=0, on_generation=callback)
    assert (found.stopped, found.generations) == ("interrupted", 4)
    assert is_same_run(replace(found, stopped="generations"), evolve_population(landscape, replace(SMALL, generations=4), seed=0))


class InterruptedEvaluator(RecordingEvaluator):
    """An evaluator that is interrupted at one of its calls."""

    def __init__(self, landscape: Landscape, at: int) -> None:
        """Wrap a landscape."""
        super().__init__(landscape)
        self.at = at

    def __call__(self, population: np.ndarray) -> Objectives:
        """Evaluate, or be interrupted."""
        if len(self.requested) == self.at:
            self.at = -1
            raise KeyboardInterrupt
        return super().__call__(population)


def test_interruption_of_the_first_generation_keeps_what_was_evaluated() -> None:
    """Ctrl-C after the first batch: the front of those designs, as if they had been the whole generation."""
    landscape = random_landscape(6, 20, 0)
    evaluator = InterruptedEvaluator(landscape, 1)
    steps: list[Step] = []
    found = evolve_population(evaluator, replace(SMALL, population=200), seed=0, on_step=steps.append)
    assert (found.stopped, found.generations) == ("interrupted", 0)
    part = evaluator.requested[0]
    assert 0 < len(part) < 200
    assert np.array_equal(found.population, part)
    scored = landscape(part)
    assert vectors(found.objectives) == vectors(scored.take(non_dominated(scored)))
    assert found.evaluations == len(part) == steps[-1].done < steps[-1].total
    assert {step.phase for step in steps} == {"first"}


def test_interruption_before_anything_is_no_front() -> None:
    """Ctrl-C in the first batch: KeyboardInterrupt is raised, with a message about why there is no front."""
    with pytest.raises(KeyboardInterrupt, match="before any design was evaluated: there is no front yet"):
        evolve_population(InterruptedEvaluator(random_landscape(6, 20, 0), 0), SMALL, seed=0)


def test_interruption_while_the_first_generation_is_reported() -> None:
    """Ctrl-C while the first generation is reported: its front is returned."""
    landscape = random_landscape(6, 20, 0)

    def callback(record: Generation) -> None:
        raise KeyboardInterrupt

    found = evolve_population(landscape, SMALL, seed=0, on_generation=callback)
    assert (found.stopped, found.generations, len(found.population)) == ("interrupted", 0, 40)


@pytest.mark.parametrize("limit", [-1, True, "10", float("nan"), float("inf"), 10**400])
def test_time_limit_is_checked(limit: Any) -> None:
    """A time limit that is not a number of seconds is refused before anything is evaluated."""
    landscape = random_landscape(4, 5, 0)
    with pytest.raises(
        DesignError, match=r"time_limit is .*: expected a number of seconds, 0 or more; leave it out for no limit"
    ):
        evolve_population(landscape, Settings(), seed=0, time_limit=limit)
    assert landscape.evaluated == 0


def test_batches_change_nothing() -> None:
    """Steps reported or not, a far limit or none: the same run; the first generation is reported up to its end, in order."""
    landscape = random_landscape(6, 20, 0)
    chosen = replace(SMALL, population=200)
    steps: list[Step] = []
    plain = evolve_population(landscape, chosen, seed=3)
    assert is_same_run(plain, evolve_population(landscape, chosen, seed=3, on_step=steps.append, time_limit=3600.0))
    done = [step.done for step in steps]
    assert len(done) > 1
    assert done == sorted(set(done))
    assert done[-1] == steps[-1].total <= 200


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=50), st.integers(0, 3_000))
def test_parts_are_the_whole(durations: list[float], count: int) -> None:
    """Whatever the clock says, the batches follow one another without a gap or an overlap; none is empty."""
    now, taken = [0.0], iter(durations)
    covered: list[int] = []

    def work(part: slice) -> int:
        now[0] += next(taken, 0.0)
        return part.stop - part.start

    for part, size in AdaptiveBatches(lambda: now[0]).run(count, work):
        assert size > 0
        covered += range(part.start, part.stop)
    assert covered == list(range(count))


@pytest.mark.parametrize(("seconds", "finer"), [(10.0, True), (0.001, False)])
def test_batches_follow_the_clock(seconds: float, finer: bool) -> None:
    """Slow work is cut finer, quick work coarser; how slow the caller is in between does not count."""
    now = [0.0]

    def work(part: slice) -> int:
        now[0] += seconds
        return part.stop - part.start

    sizes = []
    for _, size in AdaptiveBatches(lambda: now[0]).run(500, work):
        sizes.append(size)
        now[0] += 1000.0
    assert sizes[0] == 4
    assert (sizes[1] < 4) is finer


def test_slow_work_keeps_every_thread_busy() -> None:
    """However slow the work, batches after the first are no smaller than asked for."""
    now = [0.0]

    def work(part: slice) -> int:
        now[0] += 10.0
        return part.stop - part.start

    batches = AdaptiveBatches(lambda: now[0], first=1, least=3)
    assert [size for _, size in batches.run(9, work)] == [1, 3, 3, 2]


def test_constraints() -> None:
    """Only feasible designs are returned, and they are the feasible part of the exact front."""
    landscape = random_landscape(5, 20, 1)
    requirements = Constraints(max_cost=9.0, min_coverage=0.6)
    found = evolve_population(
        landscape, replace(SMALL, constraints=requirements, population=100, generations=60, mutation=0.4), seed=0
    )
    assert (found.objectives.mean_cost <= 9.0).all()
    assert (found.objectives.coverage >= 0.6).all()
    exact = exact_front(landscape, all_designs(5, 3))
    feasible = {vector for vector in exact if vector[2] <= 9 * 20 and vector[0] >= 12}
    assert feasible
    assert vectors(found.objectives) == feasible


def test_nothing_feasible() -> None:
    """An empty front, and the nearest design in addition to it."""
    landscape = random_landscape(5, 20, 1)
    requirements = Constraints(max_cost=0.001)
    found = evolve_population(landscape, replace(SMALL, constraints=requirements), seed=0)
    assert len(found.chromosomes) == len(found.objectives) == len(found.ties) == 0
    assert landscape(found.best[None]).cost[0] == landscape(found.population).cost.min()


def test_pins_and_exclusion_hold() -> None:
    """Every design evaluated respects them."""
    recorder = RecordingEvaluator(random_landscape(6, 20, 5))
    evolve_population(recorder, replace(SMALL, pinned=(1, 4), keep_all=False), seed=0)
    met = np.concatenate(recorder.requested)
    assert (met[:, [1, 4]] == 0).all()
    assert (met == -1).any()


def _requested_designs(revisit: bool, n: int) -> tuple[list[tuple[int, ...]], Evolution]:
    """Return every design that a run evaluated, in order, and the run."""
    recorder = RecordingEvaluator(random_landscape(n, 20, 4))
    found = evolve_population(recorder, replace(SMALL, revisit=revisit, generations=30), seed=0)
    return [tuple(row) for population in recorder.requested for row in population.tolist()], found


def test_no_design_is_visited_twice() -> None:
    """Children are designs that the run has not met, so that no evaluation is repeated; the paper's way repeats some."""
    requested, found = _requested_designs(revisit=False, n=9)
    assert len(set(requested)) == len(requested) == found.evaluations
    papers, _ = _requested_designs(revisit=True, n=9)
    assert len(set(papers)) < 0.8 * len(papers)


def test_when_everything_was_met_the_run_goes_on() -> None:
    """A space of 75 designs is soon visited whole; then designs are met again, and the generations keep their size."""
    requested, found = _requested_designs(revisit=False, n=4)
    assert set(requested) == {tuple(row) for row in all_designs(4, 3).tolist()}
    assert (found.generations, found.stopped, len(found.population)) == (30, "generations", 40)


def test_small_spaces_are_found_whole() -> None:
    """Six features, three stages: the exact front, every vector of it."""
    landscape = random_landscape(6, 20, 6)
    found = evolve_population(landscape, Settings(max_stages=3, keep_all=True), seed=0)
    assert vectors(found.objectives) == exact_front(landscape, all_designs(6, 3))


@pytest.mark.parametrize(("stages", "least"), [(2, 0.95), pytest.param(3, 0.8, marks=pytest.mark.proof)])
def test_share_of_a_realistic_front(stages: int, least: float) -> None:
    """Eight features with real logistic fits: mean share of the exact front over three seeds, at the paper's settings."""
    landscape = fitted_landscape(8)
    exact = exact_front(landscape, all_designs(8, stages))
    runs = [evolve_population(landscape, Settings(max_stages=stages, keep_all=True), seed=seed) for seed in range(3)]
    assert np.mean([len(vectors(run.objectives) & exact) / len(exact) for run in runs]) >= least


def test_sharing_ties_keeps_property_1() -> None:
    """The wheel changes, what is kept does not: the front never gets worse from one generation to the next."""
    algorithm = GeneticAlgorithm.of(random_landscape(6, 20, 7), replace(SMALL, share_ties=True), 0)
    state = algorithm.first_generation()
    for _ in range(10):
        successor = algorithm.next_generation(state)
        before = state.objectives.take(state.ranking.order[: state.ranking.front])
        both = before.join([successor.objectives])
        still = non_dominated(both)[: len(before)]
        assert vectors(before.take(still)) <= vectors(successor.objectives)
        state = successor


def test_space_of_settings() -> None:
    """The space of the algorithm is that of its settings."""
    chosen = Settings(max_stages=2, pinned=(1,))
    assert GeneticAlgorithm.of(random_landscape(4, 5, 0), chosen, 0).space == DesignSpace(4, 2, allow_exclusion=True, pinned=(1,))
