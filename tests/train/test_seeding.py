"""Seeds of the genetic search: greedy paths, designs of a warm start, wide tables."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from emsco_train.costs.cost_model import CostModel
from emsco_train.costs.costs_file import CostGroup
from emsco_train.data.problem import Problem
from emsco_train.designs.chromosome import DesignSpace
from emsco_train.designs.genes import Genes
from emsco_train.search import seeding
from emsco_train.search.greedy import PathRule
from emsco_train.search.searches import run_evolve
from emsco_train.search.seeding import fit_start, seed_designs
from emsco_train.search.settings import Settings
from emsco_train.search.workbench import Workbench

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import wide


def wide_problem(columns: int = 60, rows: int = 1_500) -> tuple[Problem, set[int]]:
    """Return a problem in which ten columns matter, and these."""
    table = wide.make_wide_table(columns, rows, 0, decoys=False)
    return Problem.of(table.rows, table.labels, threshold=0.9, seed=0), set(table.informative.tolist())


def path_of(problem: Problem, start: np.ndarray, **options: object) -> list[np.ndarray]:
    """Return the sets of one path."""
    bench = Workbench(problem)
    return list(bench.greedy_paths().walk(start, [PathRule(**options)]))  # type: ignore[arg-type]


@pytest.mark.parametrize("thresholds", [None, (0.9, 0.9)])
def test_a_path_takes_the_columns_that_matter_first(thresholds: tuple[float, float] | None) -> None:
    """Nested sets up to all columns; of the first ten, nearly all are among the ten that decide the label."""
    problem, informative = wide_problem()
    sets = path_of(problem, np.zeros(60, dtype=bool), thresholds=thresholds, price_power=1.0)
    assert sets[-1].all()
    assert all((one <= two).all() and (one < two).any() for one, two in itertools.pairwise(sets))
    assert len(informative & set(np.flatnonzero(sets[9]).tolist())) >= 8


def test_prices_and_groups_steer_a_path() -> None:
    """Of two equal columns the cheap one is taken, and a group that is paid once is taken whole; a start stays."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(500, 6))
    x[:, 1] = x[:, 0]
    y = x[:, 0] + x[:, 2] + x[:, 3] + x[:, 4] + 0.3 * rng.normal(size=500) > 0
    names = [f"x{index}" for index in range(6)]
    own = dict(zip(names, [9.0, 1.0, 0.0, 0.0, 0.0, 1.0], strict=True))
    costs = CostModel.from_mapping(own, groups=[CostGroup("lab", 2.0, ("x2", "x3", "x4"))])
    problem = Problem.of(dict(zip(names, x.T, strict=True)), y.tolist(), costs=costs, threshold=0.9, folds=0)
    start = np.array([False] * 5 + [True])
    sets = path_of(problem, start, thresholds=None, price_power=1.0)
    assert all(one[5] for one in sets)
    assert sets[-2].tolist() == [False, True, True, True, True, True]
    group = next(one for one in sets if one[2])
    assert group[2:5].all()


def test_seeds_are_few_and_small_in_a_wide_table() -> None:
    """A third of the population at most; some hundred fits; cheap designs among them; the same whatever the workers."""
    problem, informative = wide_problem()
    space = Settings().space(60)
    seeds = []
    for jobs in (1, 2):
        bench = Workbench(problem, jobs=jobs)
        seeds.append(seed_designs(bench, 0, Genes.of_features(60), space, 60, deadline=None, on_step=None))
        assert bench.bits.fits <= 4 * 50 + 60 + 1
    assert np.array_equal(*seeds)
    assert 1 <= len(seeds[0]) <= 20
    small = seeds[0][(seeds[0] >= 0).sum(axis=1) <= 12]
    assert any(len(informative & set(np.flatnonzero(design >= 0).tolist())) >= 8 for design in small)


def test_half_of_the_time_is_for_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the paths would take, sets of them are fitted before the deadline: a path alone is no design."""
    ticks = itertools.count()
    monkeypatch.setattr(seeding, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    problem, _ = wide_problem()
    bench, steps = Workbench(problem, jobs=1), list[object]()
    seeds = seed_designs(bench, 0, Genes.of_features(60), Settings().space(60), 60, deadline=40.0, on_step=steps.append)
    assert len(steps) == 20
    assert bench.bits.fits >= 20
    assert len(seeds) > 1


def test_seeding_ends_at_the_deadline() -> None:
    """A deadline that has passed: one step of a path at most, and there are designs still."""
    problem, _ = wide_problem()
    for keep_all in (False, True):
        bench, space = Workbench(problem), Settings(keep_all=keep_all).space(60)
        steps: list[object] = []
        seeds = seed_designs(bench, 0, Genes.of_features(60), space, 60, deadline=time.monotonic() - 1, on_step=steps.append)
        assert len(steps) == 1
        assert len(seeds) >= 1


def test_other_classifiers_are_seeded_by_logistic_paths() -> None:
    """The paths need slopes, which a forest has not: they are those of logistic regressions."""
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4))
    problem = Problem.of(x, (x[:, 0] > 0).tolist(), threshold=0.8, classifier=DecisionTreeClassifier(max_depth=2), folds=0)
    outcome = run_evolve(problem, Settings(population=6, generations=1, max_stages=2), jobs=1)
    assert any(design.stages[0] == ("x0",) for design in outcome.front)


@pytest.mark.uncounted
def test_the_obvious_design_of_a_wide_table_is_found() -> None:
    """The short form of `benchmarks/wide.py tables`: ten columns of a hundred, in two generations."""
    result = wide.search_wide_table(100, 2_000, 0, Settings(population=150, generations=2), decoys=False)
    assert result.found
    assert result.informative >= 9
    assert result.fits < 3_000


def test_designs_of_another_run_are_fitted_into_the_space() -> None:
    """Fewer stages, pins first, all features kept where that is asked for; each design once."""
    designs = np.array([[0, 1, 2, -1], [0, 1, 1, -1], [-1, 0, -1, -1]], dtype=np.int8)
    assert fit_start(designs, DesignSpace(4, 2, allow_exclusion=True)).tolist() == [[-1, 0, -1, -1], [0, 1, 1, -1]]
    assert fit_start(designs, DesignSpace(4, 3)).tolist() == [[0, 1, 1, 2], [0, 1, 2, 2], [1, 0, 1, 1]]
    assert fit_start(designs, DesignSpace(4, 3, allow_exclusion=True, pinned=(3,)))[:, 3].tolist() == [0, 0, 0]


def test_a_warm_start_is_kept() -> None:
    """A design that nothing dominates is on the front of a search that begins with it, however short."""
    problem, informative = wide_problem()
    genes = np.full(60, -1, dtype=np.int8)
    genes[list(informative)] = 0
    short = Settings(population=4, generations=1, seeded=False, recombine=False)
    cold = run_evolve(problem, short, jobs=1).front
    warm = run_evolve(problem, short, jobs=1, start=genes[None]).front
    assert tuple(genes.tolist()) in {design.chromosome for design in warm}
    assert warm.hypervolume() > cold.hypervolume()
