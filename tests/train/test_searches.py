"""The searches against brute force, and against each other."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from emsco_train.costs.model import CostGroup, CostModel
from emsco_train.data.problem import Problem
from emsco_train.errors import DesignError
from emsco_train.searches import evolve, exhaustive, run_evolve, run_exhaustive, run_search
from emsco_train.settings import Constraints, Settings
from emsco_train.workbench import Workbench

Vector = tuple[int, int, float]


def random_problem(seed: int, features: int, *, labels: int = 2, threshold: Any = 0.7, classifier: Any = None) -> Problem:
    """Return a problem with prices in cents, a group, and an unimportant feature."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(240, features))
    score = rows @ rng.normal(size=features) + rng.normal(size=240)
    y = np.digitize(score, np.quantile(score, np.linspace(0, 1, labels + 1)[1:-1]))
    names = [f"f{index}" for index in range(features)]
    prices = {name: round(float(rng.uniform(0, 5)), 2) for name in names}
    costs = CostModel.from_mapping(prices, groups=[CostGroup("g", 2.5, tuple(names[:2]))], unit="EUR")
    columns = {name: rows[:, index] for index, name in enumerate(names)}
    return Problem.of(columns, y, costs=costs, threshold=threshold, classifier=classifier, seed=seed)


def compressed_chromosomes(features: int, stages: int, *, exclusion: bool, pinned: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return every design as a chromosome, by trying all."""
    genes = range(-1 if exclusion else 0, stages)
    found = []
    for chromosome in itertools.product(genes, repeat=features):
        used = {gene for gene in chromosome if gene >= 0}
        if used == set(range(len(used))) and used and all(chromosome[position] == 0 for position in pinned):
            found.append(chromosome)
    return found


class BruteForce:
    """Every design evaluated item by item, with scikit-learn's own converged fits."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._scores: dict[tuple[int, ...], np.ndarray] = {}

    def scores(self, chosen: tuple[int, ...]) -> np.ndarray:
        """Return validation probabilities of a feature set."""
        if chosen not in self._scores:
            train, validation = self._problem.train, self._problem.validation
            model = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000)
            model.fit(train.encoded[:, chosen], train.target)
            self._scores[chosen] = model.predict_proba(validation.encoded[:, chosen])
        return self._scores[chosen]

    def vector(self, chromosome: tuple[int, ...]) -> Vector:
        """Return accepted, right and total cost of one design."""
        problem = self._problem
        accepted = right = 0
        bills = []
        sets = [
            tuple(index for index, gene in enumerate(chromosome) if 0 <= gene <= stage) for stage in range(max(chromosome) + 1)
        ]
        for item in range(len(problem.validation)):
            for chosen in sets:
                row = self.scores(chosen)[item]
                label = int(row.argmax())
                if row[label] >= problem.thresholds[label]:
                    accepted += 1
                    right += label == problem.validation.target[item]
                    break
            bills.append(problem.meter.cost([problem.names[index] for index in chosen]))
        return accepted, right, round(sum(bills), 6)

    def front(self, chromosomes: list[tuple[int, ...]]) -> dict[Vector, list[tuple[int, ...]]]:
        """Return the non-dominated vectors with all designs that have them."""
        designs: dict[Vector, list[tuple[int, ...]]] = {}
        for chromosome in chromosomes:
            designs.setdefault(self.vector(chromosome), []).append(chromosome)
        return {one: designs[one] for one in designs if not any(dominates(other, one) for other in designs)}


def dominates(one: Vector, other: Vector) -> bool:
    """Return whether a vector is nowhere worse and somewhere better."""
    mine = (one[0], one[1] / max(one[0], 1), -one[2])
    theirs = (other[0], other[1] / max(other[0], 1), -other[2])
    return mine != theirs and all(a >= b for a, b in zip(mine, theirs, strict=True))


def least(chromosomes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the design that stands for ties: fewest stages, then lexicographically least."""
    return min(chromosomes, key=lambda chromosome: (max(chromosome), chromosome))


CASES = [
    pytest.param(1, 4, Settings(max_stages=4), id="four features"),
    pytest.param(2, 5, Settings(max_stages=3), id="five features"),
    pytest.param(3, 6, Settings(max_stages=2), id="six features"),
    pytest.param(4, 4, Settings(max_stages=3, allow_exclusion=True), id="exclusion"),
    pytest.param(5, 5, Settings(max_stages=3, pinned=(1, 3)), id="pins"),
    pytest.param(6, 4, Settings(max_stages=3, allow_exclusion=True, pinned=(2,)), id="exclusion and pins"),
    pytest.param(7, 4, Settings(max_stages=4, constraints=Constraints(max_cost=8.0, min_accuracy=0.75)), id="constraints"),
]


@pytest.mark.parametrize(("seed", "features", "settings"), CASES)
def test_the_exact_search_is_brute_force(seed: int, features: int, settings: Settings) -> None:
    """Every non-dominated vector, its ties counted and listed, its representative, its figures: as by trying all designs."""
    problem = random_problem(seed, features)
    chromosomes = compressed_chromosomes(
        features, settings.max_stages or 1, exclusion=settings.allow_exclusion, pinned=settings.pinned
    )
    due = BruteForce(problem).front(chromosomes)
    rows, limits = len(problem.validation), settings.constraints
    if limits.any():
        due = {
            vector: tied
            for vector, tied in due.items()
            if vector[2] / rows <= (limits.max_cost or 0) and vector[1] / vector[0] >= (limits.min_accuracy or 0)
        }
    bench = Workbench(problem)
    outcome = run_exhaustive(problem, settings, workbench=bench, jobs=1)
    assert outcome.designs == len(chromosomes)
    found = {(round(d.coverage * rows), round(d.accuracy * d.coverage * rows), round(d.cost * rows, 6)): d for d in outcome.front}
    assert set(found) == set(due)
    for vector, tied in due.items():
        assert found[vector].ties == len(tied)
        assert found[vector].chromosome == least(tied)
    listed = run_exhaustive(problem, settings, ties="all", workbench=bench, jobs=1).front
    assert {design.chromosome for design in listed} == {chromosome for tied in due.values() for chromosome in tied}


@pytest.mark.parametrize("labels", [2, 3, 5])
def test_the_genetic_search_finds_the_exact_front_of_a_small_problem(labels: int) -> None:
    """Five features, two stages and more labels: nothing is missed, and nothing is there that is dominated."""
    problem = random_problem(11, 5, labels=labels, threshold=0.6)
    settings = Settings(max_stages=2, population=100, generations=40)
    exact, genetic = run_exhaustive(problem, settings, jobs=1), run_evolve(problem, settings, jobs=1)
    figures = [{(d.coverage, d.accuracy, d.cost) for d in outcome.front} for outcome in (exact, genetic)]
    assert figures[0] == figures[1]


def test_same_seed_same_front_whatever_the_jobs() -> None:
    """One thread and two give the same designs, figures and order; another seed may not."""
    problem = random_problem(12, 9)
    settings = Settings(population=60, generations=15)
    fronts = [run_evolve(problem, settings, seed=4, jobs=jobs).front for jobs in (1, 2, 1)]
    assert fronts[0] == fronts[1] == fronts[2]


def test_thresholds_share_all_fits() -> None:
    """A sweep over thresholds and seeds fits each feature set once, and each front is that of the threshold alone."""
    problem = random_problem(13, 6)
    sweep = (0.6, 0.75, 0.9)
    bench = Workbench(problem, sweep)
    settings = Settings(max_stages=3)
    fronts = [run_exhaustive(problem, settings, workbench=bench, threshold=index, jobs=1).front for index in range(3)]
    assert bench.bits.fits == 2**6 - 1
    for threshold, front in zip(sweep, fronts, strict=True):
        assert run_exhaustive(problem.with_threshold(threshold), settings, jobs=1).front == front


def test_thresholds_per_label() -> None:
    """A label that needs more confidence is accepted less often."""
    problem = random_problem(14, 4, threshold={0: 0.6, 1: 0.6})
    strict = problem.with_threshold({0: 0.6, 1: 0.999})
    settings = Settings(max_stages=1)
    assert (
        run_exhaustive(strict, settings, jobs=1).front[0].coverage < run_exhaustive(problem, settings, jobs=1).front[0].coverage
    )


def test_other_classifiers_take_the_slower_path_through_the_same_cache() -> None:
    """A forest is fitted per set and scored through its ONNX graph; the exact search works on it as on logistic stages."""
    problem = random_problem(15, 3, classifier=RandomForestClassifier(5, max_depth=3, random_state=0))
    bench = Workbench(problem)
    outcome = run_search(problem, Settings(max_stages=2), method="exhaustive", workbench=bench, jobs=1)
    assert bench.bits.fits == 7
    assert len(outcome.front) >= 1
    assert run_search(problem, Settings(max_stages=2, generations=2), jobs=1).method == "evolve"


def test_auto_is_exact_where_it_is_affordable() -> None:
    """Six features are searched exactly, thirty by the genetic algorithm."""
    assert run_search(random_problem(16, 6), jobs=1).method == "exhaustive"
    wide = random_problem(17, 30)
    assert run_search(wide, Settings(population=20, generations=2), jobs=1).method == "evolve"


def test_free_features_have_an_offset() -> None:
    """Where a feature set costs nothing, fitness is still finite: a hundredth of the whole is added on both sides."""
    problem = random_problem(18, 4)
    free = replace(problem.costs, features={**problem.costs.features, "f3": 0.0})
    outcome = run_exhaustive(replace(problem, costs=free, meter=free.meter()), Settings(max_stages=2), jobs=1)
    assert all(np.isfinite(design.fitness) for design in outcome.front)


@pytest.mark.parametrize("jobs", [0, -1, True, 1.5])
def test_jobs_must_be_a_count(jobs: Any) -> None:
    """Anything but a whole number from 1, or None, is refused."""
    with pytest.raises(DesignError, match="jobs is"):
        run_evolve(random_problem(19, 4), jobs=jobs)


def test_unknown_methods_and_hopeless_searches_are_refused() -> None:
    """A method that does not exist, and an exact search that would not finish: clear errors before any fit."""
    problem = random_problem(20, 16)
    with pytest.raises(DesignError, match="search is 'magic'"):
        run_search(problem, method="magic")  # type: ignore[arg-type]
    with pytest.raises(DesignError, match=r"the exact search is too large: .* designs would take about"):
        run_exhaustive(problem, Settings(max_stages=8), max_seconds=60)


def test_polish_finds_what_the_generations_missed() -> None:
    """A short run with polish has the exact front of six features in three stages; without it, it may not."""
    problem = random_problem(21, 6)
    short = Settings(max_stages=3, population=20, generations=3)
    bench = Workbench(problem)
    exact = run_exhaustive(problem, short, workbench=bench, jobs=1).front
    polished = run_evolve(problem, replace(short, polish=True), workbench=bench, jobs=1)
    assert {(d.coverage, d.accuracy, d.cost) for d in polished.front} == {(d.coverage, d.accuracy, d.cost) for d in exact}
    assert polished.designs > run_evolve(problem, short, workbench=bench, jobs=1).designs


def test_the_two_searches_in_one_line() -> None:
    """`evolve` and `exhaustive` give the front alone: the contract's short forms."""
    problem = random_problem(22, 4)
    exact = exhaustive(problem, max_stages=2, jobs=1)
    genetic = evolve(problem, Settings(max_stages=2, population=50, generations=20), seed=1, jobs=1)
    assert [design.id for design in exact] == [design.id for design in genetic]
    assert len(exhaustive(problem, max_stages=2, constraints=Constraints(min_coverage=1.0), jobs=1)) <= len(exact)
