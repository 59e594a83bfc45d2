"""Sweeps over thresholds, and over the settings of the genetic algorithm."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config

from emsco_train.data.problem import Problem
from emsco_train.errors import DesignError
from emsco_train.search import sweep
from emsco_train.search.genetic.evolution import Generation
from emsco_train.search.pace import Step
from emsco_train.search.searches import Outcome, run_search
from emsco_train.search.settings import Settings
from emsco_train.search.sweep import search_thresholds, settings_score, sweep_seeds, sweep_settings, sweep_thresholds


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


@pytest.mark.parametrize("backend", ["sequential", "threading", "loky"])
def test_workers_of_joblib_change_nothing(problem: Problem, backend: str) -> None:
    """Thresholds, seeds and settings that are searched apart, by whatever backend, have the results of one process."""
    settings = Settings(population=10, generations=3)
    grid = {"population": [10, 20]}
    with parallel_config(backend=backend):
        swept = sweep_thresholds(problem, [0.6, 0.8], settings, method="evolve", workers=2)
        seeds = sweep_seeds(problem, [0, 1], settings, method="evolve", workers=2)
        trials = sweep_settings(problem, grid, settings, seeds=[0, 1], workers=2)
    expected = sweep_thresholds(problem, [0.6, 0.8], settings, method="evolve")
    assert swept.front == expected.front
    assert swept.stopped == "complete"
    assert swept.fits == sum(outcome.fits for outcome in swept.outcomes)
    alone = [run_search(problem, settings, method="evolve", seed=seed).front for seed in (0, 1)]
    assert [outcome.front for outcome in seeds] == alone
    here = sweep_settings(problem, grid, settings, seeds=[0, 1])
    assert [(trial.settings, trial.scores) for trial in trials] == [(trial.settings, trial.scores) for trial in here]


def test_no_seeds_are_refused(problem: Problem) -> None:
    """Without a seed there is nothing to search."""
    with pytest.raises(DesignError, match="seeds: expected at least one, got none"):
        sweep_seeds(problem, [])


def test_settings_are_compared_by_a_score_without_a_population(problem: Problem) -> None:
    """Every combination is tried with every seed; the best mean comes first; scores are those of the fronts."""
    trials = sweep_settings(problem, {"population": [10, 30], "beta": [1.5, 2.5]}, Settings(generations=4), seeds=[0, 1])
    assert len(trials) == 4
    assert [trial.mean for trial in trials] == sorted((trial.mean for trial in trials), reverse=True)
    assert all(len(trial.scores) == 2 for trial in trials)
    front = run_search(problem, trials[0].settings, method="evolve", seed=0).front
    assert trials[0].scores[0] == max(settings_score(design, problem.full_cost) for design in front)


@pytest.mark.parametrize(
    ("grid", "seeds", "message"),
    [({"generations": [1]}, [0], "got \\['generations'\\]"), ({}, [0], "got none"), ({"beta": [2.0]}, [], "no seeds")],
)
def test_a_grid_of_nothing_is_refused(problem: Problem, grid: Any, seeds: Any, message: str) -> None:
    """Settings that are not swept, no settings, no seeds: refused with what was expected."""
    with pytest.raises(DesignError, match=message):
        sweep_settings(problem, grid, seeds=seeds)


def test_no_thresholds_are_refused(problem: Problem) -> None:
    """A sweep needs a threshold."""
    with pytest.raises(DesignError, match="expected at least one"):
        sweep_thresholds(problem, [])


def test_ctrl_c_ends_a_sweep_and_keeps_what_it_has(problem: Problem) -> None:
    """In the second of three thresholds: the genetic search has a front there, the exact one has none; the third never starts."""
    settings = Settings(max_stages=2, population=20, generations=3)
    started: list[int] = []

    def stop(record: Generation) -> None:
        started.extend([1] if record.number == 0 else [])
        if len(started) == 2:
            raise KeyboardInterrupt

    swept = sweep_thresholds(problem, [0.6, 0.7, 0.8], settings, method="evolve", on_generation=stop)
    assert (swept.stopped, [outcome.stopped for outcome in swept.outcomes]) == ("interrupted", ["generations", "interrupted"])
    assert len(swept.front) == sum(len(outcome.front) for outcome in swept.outcomes)
    phases: list[str] = []

    def stop_exact(step: Step) -> None:
        phases.append(step.phase)
        if phases.count("fits") > len([phase for phase, after in pairwise(phases) if phase == after == "fits"]) + 1:
            raise KeyboardInterrupt

    exact = sweep_thresholds(problem, [0.6, 0.7, 0.8], settings, method="exhaustive", on_progress=stop_exact)
    assert (exact.stopped, len(exact.outcomes)) == ("interrupted", 1)
    phases.append("fits")
    phases.append("designs")
    with pytest.raises(KeyboardInterrupt):
        sweep_thresholds(problem, [0.6], settings, method="exhaustive", on_progress=stop_exact)


def test_an_interrupt_while_designs_are_measured_again(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """The searches at the thresholds before it are complete, and kept."""
    measured: list[int] = []

    def interrupted(outcome: Outcome, *_: object) -> Outcome:
        measured.append(1)
        if len(measured) == 2:
            raise KeyboardInterrupt
        return outcome

    monkeypatch.setattr(sweep, "remeasure_front", interrupted)
    searches = search_thresholds(
        problem, [0.6, 0.7, 0.8], Settings(population=10, generations=3), method="evolve", seed=0, jobs=1, max_rows=40
    )
    assert len(list(searches)) == 1


def test_a_time_limit_is_shared(problem: Problem) -> None:
    """No time for any: each still has a front, and the sweep says that it was cut short."""
    settings = Settings(max_stages=2, population=20, generations=300)
    swept = sweep_thresholds(problem, [0.6, 0.7], settings, method="evolve", time_limit=0.0, jobs=None)
    assert swept.stopped == "time"
    assert [outcome.stopped for outcome in swept.outcomes] == ["time", "time"]
    assert sweep_thresholds(problem, [0.6], settings, time_limit=100.0).stopped == "complete"


def test_ctrl_c_while_settings_are_compared(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Combinations that are done are returned, half a one is not; nothing done, nothing returned."""
    real, calls = sweep.run_evolve, []

    def interrupted_at(number: int) -> Any:
        def run(*given: Any, **named: Any) -> Any:
            calls.append(1)
            outcome = real(*given, **named)
            return replace(outcome, stopped="interrupted") if len(calls) == number else outcome

        return run

    chosen = Settings(generations=2)
    monkeypatch.setattr(sweep, "run_evolve", interrupted_at(4))
    assert len(sweep_settings(problem, {"population": [10, 20, 30]}, chosen, seeds=[0, 1], jobs=None)) == 1
    assert len(calls) == 4
    calls.clear()
    monkeypatch.setattr(sweep, "run_evolve", interrupted_at(2))
    with pytest.raises(KeyboardInterrupt):
        sweep_settings(problem, {"population": [10]}, chosen, seeds=[0, 1])
