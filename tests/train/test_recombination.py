"""Recombination: chains of fitted sets, and stages that accept nobody."""

from __future__ import annotations

import time

import numpy as np
import pytest

from emsco_train.data.problem import Problem
from emsco_train.search.genetic.pareto import non_dominated, spread_over_front
from emsco_train.search.recombination import distinct_sets, drop_idle_stages, recombine_sets
from emsco_train.search.scoring.objectives import Objectives
from emsco_train.search.searches import run_evolve, run_exhaustive
from emsco_train.search.settings import Settings
from emsco_train.search.workbench import Workbench

FEATURES, STAGES = 6, 3


def make_bench(*, weighted: bool = False) -> Workbench:
    """Return the workbench of a small problem."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, FEATURES))
    y = x @ np.linspace(2.0, 0.2, FEATURES) + rng.normal(size=300) > 0
    weight = rng.integers(1, 4, 300).astype(float) if weighted else None
    return Workbench(Problem.of(x, y, costs=[6, 5, 4, 3, 2, 1], threshold=0.85, sample_weight=weight))


def all_sets() -> np.ndarray:
    """Return every set of features."""
    return ((np.arange(1, 2**FEATURES)[:, None] >> np.arange(FEATURES)) & 1).astype(bool)


@pytest.mark.parametrize("keep_all", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_chains_of_all_sets_are_nearly_the_exact_front(keep_all: bool, weighted: bool) -> None:
    """No design dominates another; without weights, the volume is that of the exact front within a thousandth.

    Where all features are kept, three stages are two sets and the last one, and all pairs are tried: then it is exact.
    """
    bench = make_bench(weighted=weighted)
    evaluator = bench.evaluator()
    found = recombine_sets(evaluator, all_sets(), max_stages=STAGES, keep_all=keep_all)
    assert found.max() < STAGES
    assert found.min() >= (0 if keep_all else -1)
    assert non_dominated(evaluator(found)).all()
    # Every design with one set is covered.
    if not keep_all:
        singles = evaluator(np.where(all_sets(), 0, -1).astype(np.int8))
        together = singles.join([evaluator(found)])
        assert {tuple(v) for v in together.take(non_dominated(together)).vectors().tolist()} == {
            tuple(v) for v in evaluator(found).vectors().tolist()
        }
    if not weighted:
        exact = run_exhaustive(bench.problem, Settings(max_stages=STAGES, keep_all=keep_all), workbench=bench, jobs=1).front
        volume = bench.front(bench.designs(found, [1] * len(found))).hypervolume()
        least = exact.hypervolume() - 1e-12 if keep_all else 0.999 * exact.hypervolume()
        assert least <= volume <= exact.hypervolume() + 1e-12


def test_nothing_to_recombine_and_no_time() -> None:
    """Without sets there are no designs; when time is over, those of one stage are the result."""
    bench = make_bench()
    assert len(recombine_sets(bench.evaluator(), all_sets()[:0], max_stages=2, keep_all=False)) == 0
    late = recombine_sets(bench.evaluator(), all_sets(), max_stages=3, keep_all=False, deadline=time.monotonic() - 1)
    assert late.max() == 0


def test_stages_that_accept_nobody_are_dropped() -> None:
    """The same objectives in fewer stages; a last stage that accepts nobody is not acquired, unless all features are kept."""
    bench = make_bench()
    evaluator = bench.evaluator()
    population = np.array([[5, 4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 5], [-1, -1, -1, 1, 0, 0], [-1, -1, -1, -1, -1, 0]], dtype=np.int8)
    for keep_all in (True, False):
        merged = drop_idle_stages(population, evaluator, keep_all=keep_all)
        before, after = evaluator(population), evaluator(merged)
        assert (after.accepted == before.accepted).all()
        assert (after.right == before.right).all()
        assert (after.cost <= before.cost).all()
        exits = evaluator.exits(merged).accepted
        for row, stages in zip(exits, merged.max(axis=1) + 1, strict=True):
            assert (row[: stages - 1] > 0).all()
            assert keep_all or row[stages - 1] > 0 or stages == 1
    assert len(drop_idle_stages(population[:0], evaluator, keep_all=False)) == 0


def test_no_design_of_a_front_is_dominated_by_a_shorter_form() -> None:
    """Any stage left out of any design of a genetic front: what is left is not better, and not equal."""
    bench = make_bench()
    found = run_evolve(bench.problem, Settings(max_stages=4, population=20, generations=4), workbench=bench, jobs=1).front
    evaluator = bench.evaluator()
    for design in found:
        genes = np.array(design.chromosome, dtype=np.int8)
        for stage in range(genes.max()):
            shorter = np.where(genes > stage, genes - 1, genes)[None].astype(np.int8)
            both = evaluator(np.concatenate([genes[None], shorter]))
            assert non_dominated(both)[0]
            assert tuple(both.vectors()[0]) != tuple(both.vectors()[1])


def test_recombination_adds_no_fit_and_loses_nothing() -> None:
    """The same fits with and without it, and at least the volume; sets are those of the stages, each once."""
    settings = Settings(max_stages=4, population=20, generations=4)
    volumes, fits = [], []
    for recombine in (False, True):
        bench = make_bench()
        outcome = run_evolve(
            bench.problem, Settings(**{**settings_fields(settings), "recombine": recombine}), workbench=bench, jobs=1
        )
        volumes.append(outcome.front.hypervolume())
        fits.append(outcome.fits)
    assert fits[0] == fits[1]
    assert volumes[0] <= volumes[1]
    sets = distinct_sets(np.array([[0, 1, -1], [0, 0, -1], [1, 0, 0]], dtype=np.int8))
    assert sorted(map(tuple, sets.astype(int).tolist())) == [(0, 1, 1), (1, 0, 0), (1, 1, 0), (1, 1, 1)]


def settings_fields(settings: Settings) -> dict[str, object]:
    """Return the settings that were given."""
    return {"max_stages": settings.max_stages, "population": settings.population, "generations": settings.generations}


def test_spread_takes_what_adds_most() -> None:
    """The first is the design that dominates most, then the one that adds most to it: by trying all."""
    rng = np.random.default_rng(0)
    accepted = rng.integers(1, 100, 12)
    objectives = Objectives(accepted, accepted - rng.integers(0, accepted), rng.integers(1, 100, 12), rows=100)
    import moocore

    points = np.column_stack([-objectives.coverage, -objectives.accuracy, objectives.cost / objectives.cost.max()])
    expected: list[int] = []
    for _ in range(4):
        rest = [index for index in range(12) if index not in expected]
        gains = [moocore.hypervolume(points[[*expected, index]], ref=[0.0, 0.0, 2.0]) for index in rest]
        expected.append(rest[int(np.argmax(gains))])
    assert spread_over_front(objectives, 4).tolist() == expected
    assert spread_over_front(objectives, 12).tolist() == list(range(12))
