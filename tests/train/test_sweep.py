"""Sweeps over thresholds, and over the settings of the genetic algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emsco_train.data.problem import Problem
from emsco_train.errors import DesignError
from emsco_train.searches import run_search
from emsco_train.settings import Settings
from emsco_train.sweep import settings_score, sweep_settings, sweep_thresholds


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Return a small problem."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 5))
    return Problem.of(rows, rows @ rng.normal(size=5) + rng.normal(size=200) > 0, costs=[1, 2, 3, 4, 5], threshold=0.8)


def test_thresholds_in_one_call(problem: Problem) -> None:
    """Each threshold has the front that it would have alone, all feature sets are fitted once, and the designs stand together."""
    swept = sweep_thresholds(problem, [0.6, 0.8, {0: 0.9, 1: 0.7}])
    assert swept.fits == 2**5 - 1
    assert len(swept.front) == sum(len(outcome.front) for outcome in swept.outcomes)
    alone = run_search(problem.with_threshold({0: 0.9, 1: 0.7})).front
    assert [design.id for design in swept.outcomes[2].front] == [design.id for design in alone]
    assert {design.thresholds for design in swept.front} == {(0.6, 0.6), (0.8, 0.8), (0.9, 0.7)}


def test_settings_are_compared_by_a_score_without_a_population(problem: Problem) -> None:
    """Every combination is tried with every seed; the best mean comes first; scores are those of the fronts."""
    trials = sweep_settings(problem, {"population": [10, 30], "beta": [1.5, 2.5]}, Settings(generations=4), seeds=[0, 1])
    assert len(trials) == 4
    assert [trial.mean for trial in trials] == sorted((trial.mean for trial in trials), reverse=True)
    assert all(len(trial.scores) == 2 for trial in trials)
    front = run_search(problem, trials[0].settings, method="evolve", seed=0).front
    assert trials[0].scores[0] == max(settings_score(design, problem.full_cost) for design in front)


@pytest.mark.parametrize(
    ("grid", "seeds", "said"),
    [({"generations": [1]}, [0], "got \\['generations'\\]"), ({}, [0], "got none"), ({"beta": [2.0]}, [], "no seeds")],
)
def test_a_grid_of_nothing_is_refused(problem: Problem, grid: Any, seeds: Any, said: str) -> None:
    """Settings that are not swept, no settings, no seeds: refused with what is due."""
    with pytest.raises(DesignError, match=said):
        sweep_settings(problem, grid, seeds=seeds)


def test_no_thresholds_are_refused(problem: Problem) -> None:
    """A sweep needs a threshold."""
    with pytest.raises(DesignError, match="at least one is due"):
        sweep_thresholds(problem, [])
