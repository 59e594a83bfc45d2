"""The choice of a design that matches everything at once: compared row by row, and the cheapest of those that are no worse."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from emsco_train.data.problem import Problem
from emsco_train.data.splits import Shares
from emsco_train.designs.front import Front
from emsco_train.designs.selection import MatchEverything, Requirements
from emsco_train.errors import DesignError
from emsco_train.export import matching_choice
from emsco_train.export.matching_choice import _is_at_least_zero, find_matching_design
from emsco_train.export.searched_design import check_counts
from emsco_train.export.tuned_choice import choose_tuned_design, select_tuned_design
from emsco_train.guarantee.choice import SelectionCriteria
from emsco_train.guarantee.ledger import MemoryLedger
from emsco_train.guarantee.promise import Promise
from emsco_train.models.evaluation import Evaluation, evaluate_validation
from emsco_train.search.ladder import ladder_designs
from emsco_train.search.searches import run_search
from emsco_train.search.settings import Settings
from emsco_train.search.sweep import search_thresholds

ROWS = 500


def make_problem(**options: object) -> Problem:
    """Return features of falling worth and rising price, and certify rows."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(ROWS, 4))
    y = np.where(rows @ [2.0, 1.2, 0.8, 0.0] + rng.normal(size=ROWS) > 0, "spam", "ham")
    shares = Shares(0.6, 0.0, 0.0, 0.4)
    return Problem.of(rows, y, costs=[1, 2, 3, 4], threshold=0.8, shares=shares, folds=4, **options)  # type: ignore[arg-type]


def search(problem: Problem) -> Front:
    """Return the front of at most two stages."""
    return run_search(problem, Settings(max_stages=2), jobs=1).front


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Return a problem whose last and most expensive feature is noise."""
    return make_problem()


@pytest.fixture(scope="module")
def front(problem: Problem) -> Front:
    """Return its front."""
    return search(problem)


def right_rows(problem: Problem, made: Evaluation) -> np.ndarray:
    """Return which rows get the right label."""
    return np.asarray(made.label == problem.validation.target)


def test_the_cheapest_of_those_that_are_no_worse(problem: Problem, front: Front) -> None:
    """Every design of the ladder, evaluated by itself: the chosen one is the cheapest with both bounds at 0 or above."""
    everything = find_matching_design(problem, front, MatchEverything()).everything
    baseline = evaluate_validation(problem, everything.stages, everything.stage_thresholds)
    assert everything.stages == (tuple(problem.names),)
    assert everything.cost == problem.full_cost
    lowest = []
    for design in (*front, *ladder_designs(problem, front, None)):
        # Others cannot match: their mean differences are below 0.
        if design.coverage >= everything.coverage and design.accuracy >= everything.accuracy and design.cost < everything.cost:
            made = evaluate_validation(problem, design.stages, design.stage_thresholds)
            answered = made.accepted * 1.0 - baseline.accepted
            gained = right_rows(problem, made) * 1.0 - right_rows(problem, baseline) - everything.accuracy * answered
            errors = [one.std(ddof=1) / math.sqrt(len(one)) for one in (gained, answered)]
            ratios = [one.mean() / error if error else math.inf for one, error in zip((gained, answered), errors, strict=True)]
            lowest.append((design.cost, min(ratios)))
    assert len(lowest) > 10
    for sure in (None, 0.7, 0.85, 0.99):
        found = find_matching_design(problem, front, MatchEverything(sure)).design
        deviations = NormalDist().inv_cdf(sure or 0.5)
        assert found.cost == min(cost for cost, ratio in lowest if ratio >= deviations)
        check_counts(problem, found)


def test_a_higher_level_costs_more(problem: Problem, front: Front) -> None:
    """What matches at a higher level matches at a lower one; without a level at least as cheap a design is found."""
    costs = [find_matching_design(problem, front, MatchEverything(sure)).design.cost for sure in (None, 0.6, 0.8, 0.95, 0.999)]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]


def test_few_cells_change_nothing(problem: Problem, front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """Designs are compared in parts that fit into memory, the cheapest first: the choice is the same."""
    expected = find_matching_design(problem, front, MatchEverything())
    monkeypatch.setattr(matching_choice, "_MAX_CELLS", 1)
    assert find_matching_design(problem, front, MatchEverything()) == expected


def test_everything_where_nothing_matches() -> None:
    """A front of one poor design: everything at once is the answer, and the reason says so."""
    problem = make_problem()
    only = min(search(problem), key=lambda design: design.accuracy * design.coverage)
    found = find_matching_design(problem, Front.of_problem(problem, [only]), MatchEverything(0.99))
    assert found.design is found.everything
    assert found.describe("cross-fitted") == "nothing cheaper matches everything at once on cross-fitted rows, row by row"


def test_rows_of_a_group_are_no_further_evidence() -> None:
    """The differences of a hundred rows, each twice: as single rows they are above 0 at a level where as groups they are not."""
    differences = np.repeat([1.0] * 9 + [-1.0] * 5 + [0.0] * 86, 2)
    weight, deviations = np.ones(200), NormalDist().inv_cdf(0.9)
    assert _is_at_least_zero(differences, np.arange(200), weight, deviations)
    assert not _is_at_least_zero(differences, np.arange(200) // 2, weight, deviations)
    assert _is_at_least_zero(differences, np.arange(200) // 2, weight, NormalDist().inv_cdf(0.8))


def test_weights_count_differences() -> None:
    """Where rows count differently, a design answers no less and is no less right by weight."""
    weights = np.where(np.arange(ROWS) % 3 == 0, 5.0, 1.0)
    problem = make_problem(sample_weight=weights)
    found = find_matching_design(problem, search(problem), MatchEverything())
    made, baseline = (evaluate_validation(problem, one.stages, one.stage_thresholds) for one in (found.design, found.everything))
    counted = np.asarray(problem.validation.weights)
    answered = [(counted * one.accepted).sum() for one in (made, baseline)]
    right = [(counted * right_rows(problem, one)).sum() for one in (made, baseline)]
    assert answered[0] >= answered[1]
    assert right[0] / answered[0] >= right[1] / answered[1]
    assert found.design.cost < problem.full_cost
    check_counts(problem, found.design)


def test_of_an_upgraded_front_everything_is_upgraded() -> None:
    """Where designs have boosted stages, so has what they are compared with."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, size=(400, 3))
    y = 2 * rows[:, 1] + 3 * np.abs(rows[:, 0]) + 0.3 * rows[:, 2] > 1.5
    problem = Problem.of(rows, y, costs=[1, 1, 5], threshold=0.8, folds=2, stages="straight", shares=Shares(0.6, 0.4, 0.0, 0.0))
    searched = search_thresholds(problem, None, Settings(max_stages=2), method="auto", seed=0, jobs=1, upgrade="boosted")
    found = find_matching_design(problem, next(searched).front, MatchEverything(None))
    assert found.everything.upgrade == "boosted"
    assert found.design.cost < problem.full_cost


def test_it_is_certified_like_any_choice(problem: Problem, front: Front) -> None:
    """The certify rows take no part in the choice; the reason names the rows that did, and the share of the cost."""
    choice = choose_tuned_design(problem, front, SelectionCriteria(match=MatchEverything()), MemoryLedger())
    assert choice.design == select_tuned_design(problem, front, MatchEverything())
    assert choice.certificate is not None
    share = 100 * choice.design.cost / problem.full_cost
    assert choice.reason == (
        f"the cheapest that matches everything at once on cross-fitted rows, row by row, for {share:.3g} % of its cost"
    )


def test_other_criteria_are_refused() -> None:
    """It chooses by itself: floors, an id or a guarantee next to it are refused, and a level that is none."""
    match = MatchEverything()
    for criteria in ({"requirements": Requirements(min_accuracy=0.9)}, {"design": "knee"}, {"promise": Promise(max_error=0.1)}):
        with pytest.raises(DesignError, match="`match_everything` chooses by itself: leave out floors, caps, `design`"):
            SelectionCriteria(match=match, **criteria)  # type: ignore[arg-type]
    with pytest.raises(DesignError, match=r"match_everything: sure is 0\.3: expected a number from 0\.5 to below 1, or none"):
        replace(match, sure=0.3)
