"""Likely figures: what a choice gives on new rows, estimated from the rows that it was made on."""

from __future__ import annotations

import numpy as np
import pytest

from emsco_train.data.problem import Problem
from emsco_train.data.splits import Splits
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.designs.selection import Requirements
from emsco_train.export import likely_figures
from emsco_train.export.likely_figures import estimate_likely_figures
from emsco_train.models.evaluation import evaluate_validation
from emsco_train.search.searches import evolve, run_search
from emsco_train.search.settings import Settings

ASKED = Requirements(min_coverage=0.4, by="accuracy", sure=None)
POOL, FRESH = 200, 3000


def make_problem(seed: int, *, groups: object = None, sample_weight: object = None) -> Problem:
    """Return six weak features, of which many designs look alike: the luckiest of them is chosen. Test rows tell the truth."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(POOL + FRESH, 6))
    target = (rows.sum(axis=1) + 3 * rng.normal(size=len(rows)) > 0).astype(int)
    splits = Splits(*np.split(np.arange(len(rows)), [POOL, POOL]), np.array([], dtype=np.intp))
    return Problem.of(rows, target, threshold=0.6, splits=splits, folds=4, groups=groups, sample_weight=sample_weight, seed=seed)


def make_front(problem: Problem) -> Front:
    """Return the front of all designs of up to two stages."""
    return run_search(problem, Settings(max_stages=2), jobs=1).front


def single(problem: Problem, front: Front) -> tuple[Front, Requirements]:
    """Return a front of one design, and requirements that it meets whatever rows are drawn."""
    return replace_designs(problem, front, [front[0]]), Requirements(min_coverage=0.01, sure=None)


def replace_designs(problem: Problem, front: Front, designs: list[object]) -> Front:
    """Return a front of other designs."""
    return Front(designs, full_cost=front.full_cost, offset=problem.offset, unit=front.unit)  # type: ignore[arg-type]


@pytest.mark.uncounted
def test_they_are_free_of_the_luck_of_the_choice() -> None:
    """Forty designs that are all right in 70 of 100 cases: the best looks far better; the likely figures do not, on average."""
    problem, asked = make_problem(0), Requirements(min_coverage=0.1, by="accuracy", sure=None)
    found, best = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        accepted = rng.random((40, POOL)) < 0.5
        right = accepted & (rng.random((40, POOL)) < 0.7)
        accuracy = right.sum(axis=1) / accepted.sum(axis=1)
        outcomes = likely_figures._Outcomes(
            accepted.astype(float), right.astype(float), np.ones((40, POOL)), np.zeros((40, POOL), dtype=np.int16)
        )
        # Forty different thresholds make them forty designs.
        designs = [
            Design.of([0] * 6, problem.names, (0.5 + place / 100, 0.9), coverage=0.5, accuracy=accuracy[place], cost=1.0)
            for place in range(40)
        ]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(likely_figures, "_collect_outcomes", lambda *_, outcomes=outcomes: outcomes)
            likely = estimate_likely_figures(problem, Front(designs, full_cost=6.0, offset=0.0), asked)
        assert likely is not None
        assert (likely.coverage, likely.cost) == (pytest.approx(0.5, abs=0.1), 1.0)
        found.append(likely.accuracy)
        best.append(float(accuracy.max()))
    assert np.mean(best) > 0.78
    # One estimate has a spread of 0.033.
    assert np.mean(found) == pytest.approx(0.7, abs=0.025)


@pytest.mark.parametrize("kind", ["plain", "weights"])
def test_of_one_design_they_are_its_figures(kind: str) -> None:
    """Where there is nothing to choose there is no luck: the figures themselves, but for the draws."""
    weights = None if kind == "plain" else np.random.default_rng(1).uniform(0.2, 3.0, POOL + FRESH)
    problem = make_problem(3, sample_weight=weights)
    settings = Settings(max_stages=2, population=10, generations=2)
    front, asked = single(problem, evolve(problem, settings, seed=1))
    found = estimate_likely_figures(problem, front, asked)
    assert found is not None
    design = front[0]
    assert found.coverage == pytest.approx(design.coverage, abs=0.02)
    assert found.accuracy == pytest.approx(design.accuracy, abs=0.02)
    assert found.cost == pytest.approx(design.cost, rel=0.02)


def test_they_are_counted_on_rows_that_were_not_drawn() -> None:
    """One draw, one design: the counts of exactly the rows outside the draw, all rows of a group inside or outside together."""
    groups = np.arange(POOL + FRESH) // 5
    problem = make_problem(4, groups=groups)
    front, asked = single(problem, make_front(problem))
    rows = problem.validation
    drawn = likely_figures._draw_rows(len(rows), rows.groups, np.random.default_rng((problem.settings.seed, 3)))
    assert rows.groups is not None
    assert all(len(set(drawn[rows.groups == group])) == 1 for group in set(rows.groups.tolist()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(likely_figures, "_DRAWS", 1)
        found = estimate_likely_figures(problem, front, asked)
    made = evaluate_validation(problem, front[0].stages, front[0].stage_thresholds)
    outside = drawn == 0
    accepted = made.accepted & outside
    right = accepted & (made.label == rows.target)
    assert found is not None
    assert found.coverage == pytest.approx(accepted.sum() / outside.sum())
    assert found.accuracy == pytest.approx(right.sum() / accepted.sum())
    assert found.cost == pytest.approx(made.cost[outside].mean())


def test_where_there_are_none() -> None:
    """Nothing is asked for, nothing can satisfy, or by the figures of a draw but not by its bounds, or rows are many: None."""
    problem = make_problem(5)
    front = make_front(problem)
    assert estimate_likely_figures(problem, front, Requirements()) is None
    assert estimate_likely_figures(problem, front, Requirements(min_accuracy=0.999, min_coverage=0.9)) is None
    best = max(front, key=lambda design: design.accuracy)
    hardly = Requirements(min_accuracy=best.accuracy, min_coverage=best.coverage, sure=0.99)
    assert estimate_likely_figures(problem, replace_designs(problem, front, [best]), hardly) is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(likely_figures, "_MAX_CELLS", POOL)
        assert estimate_likely_figures(problem, front, ASKED) is None
