"""The searches against brute force, and against each other."""

from __future__ import annotations

import itertools
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import config_context, get_config
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from emsco_train.costs.cost_model import CostGroup, CostModel
from emsco_train.data.problem import Problem
from emsco_train.designs.genes import Genes
from emsco_train.errors import DesignError
from emsco_train.export.given_design import export_design
from emsco_train.models.stage_model import StageFitter
from emsco_train.search import searches
from emsco_train.search.exact_search import is_affordable
from emsco_train.search.genetic.checkpoint import Checkpoints, read_checkpoint
from emsco_train.search.genetic.evolution import Generation
from emsco_train.search.pace import Step
from emsco_train.search.searches import Outcome, evolve, exhaustive, run_evolve, run_exhaustive, run_search
from emsco_train.search.settings import Constraints, Settings
from emsco_train.search.workbench import Workbench

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


def first_representative(chromosomes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the design that represents ties: fewest stages, then lexicographically least."""
    return min(chromosomes, key=lambda chromosome: (max(chromosome), chromosome))


CASES = [
    pytest.param(1, 4, Settings(max_stages=4, keep_all=True), id="four features"),
    pytest.param(2, 5, Settings(max_stages=3, keep_all=True), id="five features"),
    pytest.param(3, 6, Settings(max_stages=2, keep_all=True), id="six features"),
    pytest.param(4, 4, Settings(max_stages=3), id="exclusion"),
    pytest.param(5, 5, Settings(max_stages=3, keep_all=True, pinned=(1, 3)), id="pins"),
    pytest.param(6, 4, Settings(max_stages=3, pinned=(2,)), id="exclusion and pins"),
    pytest.param(
        7, 4, Settings(max_stages=4, keep_all=True, constraints=Constraints(max_cost=8.0, min_accuracy=0.75)), id="constraints"
    ),
]


@pytest.mark.parametrize(("seed", "features", "settings"), CASES)
def test_the_exact_search_is_brute_force(seed: int, features: int, settings: Settings) -> None:
    """Every non-dominated vector, its ties counted and listed, its representative, its figures: as by trying all designs."""
    problem = random_problem(seed, features)
    chromosomes = compressed_chromosomes(
        features, settings.max_stages or 1, exclusion=not settings.keep_all, pinned=settings.pinned
    )
    expected = BruteForce(problem).front(chromosomes)
    rows, limits = len(problem.validation), settings.constraints
    if limits.any():
        expected = {
            vector: tied
            for vector, tied in expected.items()
            if vector[2] / rows <= (limits.max_cost or 0) and vector[1] / vector[0] >= (limits.min_accuracy or 0)
        }
    bench = Workbench(problem)
    outcome = run_exhaustive(problem, settings, workbench=bench, jobs=1)
    assert outcome.designs == len(chromosomes)
    found = {(round(d.coverage * rows), round(d.accuracy * d.coverage * rows), round(d.cost * rows, 6)): d for d in outcome.front}
    assert set(found) == set(expected)
    for vector, tied in expected.items():
        assert found[vector].ties == len(tied)
        assert found[vector].chromosome == first_representative(tied)
    listed = run_exhaustive(problem, settings, ties="all", workbench=bench, jobs=1).front
    assert {design.chromosome for design in listed} == {chromosome for tied in expected.values() for chromosome in tied}


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
        run_exhaustive(problem, Settings(max_stages=8), time_limit=60)


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


# Long runs: progress, time limits and interruptions, phase by phase

SHORT = Settings(max_stages=3, population=40, generations=5)


def figures(outcome: Outcome) -> set[tuple[float, float, float]]:
    """Return the objective vectors of a front."""
    return {(design.coverage, design.accuracy, design.cost) for design in outcome.front}


def test_one_call_reports_and_keeps_everything(tmp_path: Path) -> None:
    """`run_search` passes on what it is given: generations, steps of first generation and polish, checkpoints."""
    problem = random_problem(23, 16)
    records: list[Generation] = []
    steps: list[Step] = []
    place = Checkpoints(tmp_path / "run.json")
    chosen = replace(SHORT, polish=True, polish_evaluations=2_000)
    outcome = run_search(problem, chosen, seed=2, on_generation=records.append, on_progress=steps.append, checkpoints=place)
    assert (outcome.method, outcome.stopped, outcome.polished) == ("evolve", "generations", "evaluations")
    assert [record.number for record in records] == list(range(6))
    assert list(dict.fromkeys(step.phase for step in steps)) == ["seeds", "first", "polish"]
    assert read_checkpoint(tmp_path / "run.json").problem == problem.digest()
    assert run_evolve(problem, chosen, seed=2, jobs=1).front == outcome.front


def test_checkpoints_of_a_sweep_name_their_threshold(tmp_path: Path) -> None:
    """A shared workbench: the checkpoint belongs to the problem at the threshold that is searched at, not at its own."""
    problem = random_problem(23, 16)
    bench = Workbench(problem, (0.6, 0.8))
    run_evolve(problem, SHORT, workbench=bench, threshold=1, checkpoints=Checkpoints(tmp_path / "run.json"))
    assert read_checkpoint(tmp_path / "run.json").problem == problem.with_threshold(0.8).digest() != problem.digest()


def test_the_exact_search_reports_its_fits_and_its_designs() -> None:
    """Feature sets first, then designs, both up to the last one."""
    problem = random_problem(16, 6)
    steps: list[Step] = []
    outcome = run_search(problem, on_progress=steps.append, jobs=1)
    fits = [step for step in steps if step.phase == "fits"]
    designs = [step for step in steps if step.phase == "designs"]
    assert steps == fits + designs
    assert (fits[-1].done, fits[-1].total, fits[-1].front) == (63, 63, None)
    assert (designs[-1].done, designs[-1].total) == (outcome.designs, outcome.designs)
    assert designs[-1].front == len(outcome.front)


@pytest.mark.parametrize(("phase", "message"), [("fits", "feature sets were fitted"), ("designs", "designs were visited")])
def test_an_exact_search_out_of_time_is_an_error(phase: str, message: str) -> None:
    """Half of it is not a front: the error says how far it got, and names the search that keeps one."""
    problem = random_problem(16, 6)
    bench = Workbench(problem)
    whole = run_search(problem, method="exhaustive", workbench=bench, jobs=1)

    def slow(step: Step) -> None:
        if step.phase == phase:
            time.sleep(1.1)

    with pytest.raises(DesignError, match=rf"did not finish within `time_limit`, 1 s: .* {message}.*use `search='evolve'`"):
        run_search(problem, method="exhaustive", workbench=bench, jobs=1, time_limit=1.0, on_progress=slow)
    assert run_search(problem, method="exhaustive", workbench=bench, jobs=1, time_limit=100.0).front == whole.front


@pytest.mark.parametrize("phase", ["fits", "designs"])
def test_an_interrupted_exact_search_raises(phase: str) -> None:
    """Ctrl-C while sets are fitted or designs visited: there is no front to keep."""

    def stop(step: Step) -> None:
        if step.phase == phase:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_search(random_problem(16, 6), on_progress=stop, jobs=1)


def test_auto_depends_on_the_time_limit_and_not_on_the_machine() -> None:
    """An exact search that would take longer than the limit is not chosen; nothing but problem, settings and limit counts."""
    problem = random_problem(16, 6)
    assert is_affordable(problem, Settings(), Genes.of_features(len(problem.names)), None)
    assert is_affordable(problem, Settings(), Genes.of_features(len(problem.names)), 10.0)
    assert not is_affordable(problem, Settings(), Genes.of_features(len(problem.names)), 1e-9)
    outcome = run_search(problem, SHORT, time_limit=1e-9, jobs=1)
    assert (outcome.method, outcome.stopped) == ("evolve", "time")
    assert len(outcome.front) >= 1
    with pytest.raises(DesignError, match=r"the exact search is too large: .* raise `time_limit`, or use `search='evolve'`"):
        run_search(problem, SHORT, method="exhaustive", time_limit=1e-9, jobs=1)


def test_auto_counts_the_fits_too() -> None:
    """Few designs over many rows and labels: the fits of all sets alone would take too long."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 14))
    many = Problem.of(rows, rng.integers(0, 5, 20_000))
    few = Problem.of(rows[:500], rng.integers(0, 2, 500))
    assert not is_affordable(many, Settings(max_stages=2), Genes.of_features(len(many.names)))
    assert is_affordable(few, Settings(max_stages=2), Genes.of_features(len(few.names)))


def test_auto_is_the_same_every_time() -> None:
    """Same data, settings and seed: the same front with one thread and with two, exact or genetic."""
    for problem in (random_problem(16, 6), random_problem(17, 30)):
        fronts = [run_search(problem, SHORT, seed=5, jobs=jobs).front.to_json() for jobs in (1, 2)]
        assert fronts[0] == fronts[1]


@pytest.mark.parametrize("phase", ["first", "polish"])
def test_ctrl_c_keeps_the_front_so_far(phase: str) -> None:
    """In the first generation and in the polish; the polish then has at least what the generations found."""
    problem = random_problem(24, 16)
    bench = Workbench(problem)
    # Without the recombination, which an interrupted search does not make.
    plain = replace(SHORT, recombine=False)
    whole = run_evolve(problem, plain, workbench=bench)

    def stop(step: Step) -> None:
        if step.phase == phase:
            raise KeyboardInterrupt

    outcome = run_search(problem, replace(plain, polish=True), workbench=bench, on_progress=stop)
    assert (outcome.stopped, outcome.polished) == ("interrupted", "skipped" if phase == "first" else "interrupted")
    assert len(outcome.front) >= 1
    if phase == "polish":
        assert outcome.designs > whole.designs
        assert not any(is_better(old, new) for old in figures(whole) for new in figures(outcome))
        assert all(old in figures(outcome) or any(is_better(new, old) for new in figures(outcome)) for old in figures(whole))


def is_better(one: tuple[float, float, float], two: tuple[float, float, float]) -> bool:
    """Return whether one of two (coverage, accuracy, cost) dominates the other."""
    mine, theirs = (one[0], one[1], -one[2]), (two[0], two[1], -two[2])
    return mine != theirs and all(a >= b for a, b in zip(mine, theirs, strict=True))


def test_ctrl_c_before_the_polish_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the polish found nothing yet, the front is that of the generations, and the outcome says so."""
    problem = random_problem(24, 16)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(searches, "polish_population", interrupted)
    plain = replace(SHORT, recombine=False)
    outcome = run_evolve(problem, replace(plain, polish=True), jobs=1)
    assert (outcome.stopped, outcome.polished) == ("interrupted", "interrupted")
    assert outcome.front == run_evolve(problem, plain, jobs=1).front


def test_the_polish_has_the_time_that_is_left() -> None:
    """Generations and polish share the limit; seconds of the polish's own do not limit the search."""
    problem = random_problem(24, 16)

    def slow(step: Step) -> None:
        if step.phase == "polish":
            time.sleep(3.1)

    chosen = replace(SHORT, polish=True)
    cut = run_evolve(problem, chosen, jobs=1, time_limit=3.0, on_progress=slow)
    assert (cut.stopped, cut.polished) == ("time", "time")
    own = run_evolve(problem, replace(chosen, polish_seconds=1e-9), jobs=1, time_limit=600.0)
    assert (own.stopped, own.polished) == ("generations", "time")
    none = run_evolve(problem, chosen, jobs=1, time_limit=0.0)
    assert (none.stopped, none.polished) == ("time", "skipped")
    assert run_evolve(problem, SHORT, jobs=1).polished is None


def test_one_check_of_seeds() -> None:
    """Problem, search and export refuse an invalid seed with the same message."""
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    problem = Problem.of(rows, y)
    for seed in ("x", -1, 1.5, True, None):
        message = rf"^seed is {seed!r}: expected a whole number, 0 or more$"
        with pytest.raises(DesignError, match=message):
            Problem.of(rows, y, seed=seed)  # type: ignore[arg-type]
        for method in ("auto", "evolve"):
            with pytest.raises(DesignError, match=message):
                run_search(problem, method=method, seed=seed)  # type: ignore[arg-type]
        with pytest.raises(DesignError, match=message):
            export_design("nowhere", stages=[["x0"]], X=rows, y=y, held_out=(rows, y), threshold=0.9, seed=seed)  # type: ignore[arg-type]


def test_numbers_beyond_floats_are_refused_in_plain_words() -> None:
    """A cost, a threshold, a share or a setting of 10**400 is not a number to calculate with."""
    huge = 10**400
    rows, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    with pytest.raises(DesignError, match="beta is 1000"):
        Settings(beta=huge)
    with pytest.raises(DesignError, match="max_cost is 1000"):
        Constraints(max_cost=huge)
    with pytest.raises(DesignError, match="1000"):
        Problem.of(rows, y, costs=[huge, 1])
    with pytest.raises(DesignError, match="1000"):
        Problem.of(rows, y, threshold=huge)


@pytest.mark.parametrize("jobs", [1, 2, 32])
def test_auto_is_genetic_where_the_exact_search_has_no_room(jobs: int) -> None:
    """Tables of limits grow with the square of the validation rows: few features and many rows take the genetic search."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50_000, 3))
    problem = Problem.of(x, x.sum(axis=1) + rng.normal(size=50_000) > 0, threshold=0.8)
    outcome = run_search(problem, Settings(population=10, generations=2, max_stages=2), jobs=jobs)
    assert outcome.method == "evolve"
    with pytest.raises(DesignError, match=r"10,000 validation rows would take .* MiB are allowed.*max_search_rows"):
        run_search(problem, Settings(max_stages=2), method="exhaustive", jobs=jobs)


def test_the_exact_search_takes_as_many_threads_as_fit() -> None:
    """With more threads requested than memory holds tables for, it runs with fewer: the front is the same."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 2))
    problem = Problem.of(x, x.sum(axis=1) + rng.normal(size=20_000) > 0, threshold=0.8)
    fronts = [run_search(problem, Settings(max_stages=2), method="exhaustive", jobs=jobs).front for jobs in (1, 64)]
    assert fronts[0] == fronts[1]


def test_other_classifiers_are_fitted_by_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two fits are under way at the same time, with the user's scikit-learn settings, and warnings are filtered as before."""
    problem = random_problem(4, 4, classifier=DecisionTreeClassifier(max_depth=3))
    meeting = threading.Barrier(2)
    calls = itertools.count()
    own = StageFitter.fit

    def fit(fitter: StageFitter, columns: Any) -> Any:
        call = next(calls)
        if call == 0:
            # Alone, to have a front soon; slow ones after it are still fitted together.
            time.sleep(0.3)
        elif call <= 2:
            # A generous guard: with one thread, no other ever arrives.
            meeting.wait(timeout=60)
        assert get_config()["assume_finite"]
        return own(fitter, columns)

    monkeypatch.setattr(StageFitter, "fit", fit)
    before = list(warnings.filters)
    with config_context(assume_finite=True):
        assert len(run_search(problem, Settings(population=10, generations=2), method="evolve", jobs=2).front)
    assert list(warnings.filters) == before


def test_other_classifiers_give_the_same_front_whatever_the_threads() -> None:
    """Designs and all their figures are those of one thread."""
    problem = random_problem(4, 4, classifier=DecisionTreeClassifier(max_depth=3))
    found = [run_search(problem, Settings(population=10, generations=3), method="evolve", jobs=jobs) for jobs in (1, 3)]
    assert found[0].front == found[1].front
    assert found[0].fits == found[1].fits
