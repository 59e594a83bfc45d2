"""Completed designs: the first stages of a design, then all other features."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from emsco_train.data.problem import Problem
from emsco_train.data.splits import Shares
from emsco_train.designs.chromosome import Population, compress, stage_counts
from emsco_train.designs.front import Front
from emsco_train.export.matching_choice import evaluate_all_features
from emsco_train.models.evaluation import evaluate_validation
from emsco_train.search.completion import complete_designs, completed_populations
from emsco_train.search.searches import run_search
from emsco_train.search.settings import Settings

populations = hnp.arrays(np.int8, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=st.integers(-1, 3)).map(compress)


@given(populations.filter(lambda population: stage_counts(population).min() > 0), st.integers(1, 5))
def test_every_beginning_is_completed(population: Population, max_stages: int) -> None:
    """Feature by feature: what the first stages have stays there, and everything else is in one stage after them; none twice."""
    expected = set()
    for design in population.tolist():
        expected.add(tuple(design))
        for kept in range(1, max(design) + 2):
            expected.add(tuple(stage if 0 <= stage < kept else kept for stage in design))
    found = [tuple(design) for design in complete_designs(population, max_stages).tolist()]
    assert len(found) == len(set(found))
    assert set(found) == {design for design in expected if max(design) < max_stages}


def make_problem(threshold: float = 0.8) -> Problem:
    """Return a problem in which two features of four tell nearly everything."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(300, 4))
    y = np.where(rows @ [2.0, 1.0, 0.3, 0.0] + 0.5 * rng.normal(size=300) > 0, "spam", "ham")
    shares = Shares(0.6, 0.4, 0.0, 0.0)
    return Problem.of(rows, y, costs=[1, 2, 3, 4], threshold=threshold, folds=3, shares=shares, stages="straight")


def test_the_last_stage_decides_as_all_features_do() -> None:
    """An item that reaches the last stage of a completed design gets the answer of all features at once, at every threshold."""
    problem = make_problem()
    front = run_search(problem, Settings(max_stages=3), jobs=1).front
    everything = evaluate_all_features(problem, front)
    found, early = 0, set()
    for bench, place, population in completed_populations(problem, front):
        thresholds = bench.thresholds[place]
        assert thresholds.last == problem.thresholds
        assert min(thresholds.early) >= 0.8
        early.add(thresholds.early)
        completed = population[(population >= 0).all(axis=1)]
        for design in bench.designs(completed, [1] * len(completed), place)[:5]:
            decided = evaluate_validation(problem, design.stages, design.stage_thresholds)
            reached = decided.stage == len(design.stages)
            assert (decided.label[reached] == everything.answers[reached]).all()
            found += int(reached.sum())
    assert found
    assert len(early) > 10


def test_no_more_stages_than_the_front_has() -> None:
    """A front does not say how many stages its user allows: no completed design has more than its longest."""
    problem = make_problem()
    front = run_search(problem, Settings(max_stages=2), jobs=1).front
    for longest in (1, 2):
        short = Front.of_problem(problem, [design for design in front if len(design.stages) <= longest])
        counts = [stage_counts(population) for _, _, population in completed_populations(problem, short)]
        assert np.concatenate(counts).max() == longest


def test_a_high_threshold_stays() -> None:
    """Above 0.9999 no higher one is tried: designs have the threshold of the problem in all stages."""
    problem = make_problem(0.99995)
    front = run_search(make_problem(), Settings(max_stages=2), jobs=1).front
    levels = [bench.thresholds[place] for bench, place, _ in completed_populations(problem, front)]
    assert [(level.last, level.early) for level in levels] == [((0.99995, 0.99995), (0.99995, 0.99995))]
