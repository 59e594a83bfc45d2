"""The choice of a design that decides as all features at once do: what differs is counted row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from emsco_train.data.problem import Problem
from emsco_train.data.splits import Shares, Splits
from emsco_train.designs.front import Front
from emsco_train.designs.selection import MatchEverything, Requirements
from emsco_train.errors import DesignError, SelectionError
from emsco_train.export.matching_choice import MatchingDesign, evaluate_all_features, find_matching_design
from emsco_train.export.searched_design import check_counts, fit_design
from emsco_train.export.tuned_choice import choose_tuned_design, select_tuned_design
from emsco_train.guarantee.choice import SelectionCriteria
from emsco_train.guarantee.ledger import MemoryLedger
from emsco_train.guarantee.promise import Promise
from emsco_train.models.cascade_model import CascadeFitter
from emsco_train.models.evaluation import evaluate_split, evaluate_validation
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.completion import completed_populations
from emsco_train.search.searches import run_search
from emsco_train.search.settings import Settings
from emsco_train.search.sweep import search_thresholds
from emsco_train.support.binomial import upper_bound

ROWS, FRESH = 500, 4000


def make_problem(
    seed: int = 5,
    *,
    costs: Sequence[float] = (1, 2, 3, 4),
    threshold: float | dict[str, float] = 0.8,
    certified: bool = False,
    **options: object,
) -> Problem:
    """Return features of falling worth and rising price, and many test rows or certify rows."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(ROWS + FRESH, 4))
    y = np.where(rows @ [2.0, 1.2, 0.8, 0.0] + rng.normal(size=len(rows)) > 0, "spam", "ham")
    train, fresh = np.split(np.arange(len(rows)), [ROWS])
    none = np.array([], dtype=np.intp)
    splits = Splits(train[::2], train[1::2], none if certified else fresh, fresh if certified else none)
    return Problem.of(rows, y, costs=costs, threshold=threshold, splits=splits, folds=4, **options)  # type: ignore[arg-type]


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


def test_the_cheapest_of_those_that_differ_little(problem: Problem, front: Front) -> None:
    """Every design that is tried, evaluated by itself: the chosen one is the cheapest whose exact bound is within the share."""
    everything = find_matching_design(problem, front, MatchEverything(0.05)).everything
    assert everything.stages == (tuple(problem.names),)
    assert (everything.cost, everything.thresholds) == (problem.full_cost, (0.8, 0.8))
    parts = CascadeFitter.of_parts(problem)
    baseline = evaluate_validation(problem, everything.stages, everything.stage_thresholds, parts).label
    counted = []
    for bench, place, population in completed_populations(problem, front):
        for design in bench.designs(population, [1] * len(population), place):
            found = evaluate_validation(problem, design.stages, design.stage_thresholds, parts).label
            differs, answered = found != baseline, int(((found >= 0) | (baseline >= 0)).sum())
            of_labels = [(int(differs[baseline == label].sum()), int((baseline == label).sum())) for label in (0, 1)]
            counted.append((design.cost, int(differs.sum()), answered, of_labels))
    assert len(counted) > 150
    chosen = set()
    for share, sure in ((0.02, None), (0.03, 0.85), (0.05, 0.5), (0.05, 0.95), (0.2, 0.85)):
        found = find_matching_design(problem, front, MatchEverything(share, sure))
        within = [
            cost
            for cost, count, answered, of_labels in counted
            if (count / answered if sure is None else upper_bound(count, answered, sure)) <= share
            and all(one <= max(1, share * rows) for one, rows in of_labels)
            and cost < problem.full_cost
        ]
        assert found.design.cost == pytest.approx(min(within))
        # Of those that cost as much, the one that differs least.
        assert found.different == min(
            count / answered for cost, count, answered, _ in counted if cost == pytest.approx(found.design.cost)
        )
        check_counts(problem, found.design)
        chosen.add(found.design.id)
    assert len(chosen) > 2


def test_it_holds_on_new_rows() -> None:
    """Of ten draws, by exported models: on thousands of fresh rows, designs differ in what was asked for, or hardly more."""
    shares = []
    for seed in range(10):
        problem = make_problem(seed)
        found = find_matching_design(problem, search(problem), MatchEverything(0.05))
        assert problem.test is not None
        answers = [
            evaluate_split(problem, fit_design(problem, one), problem.test).label for one in (found.design, found.everything)
        ]
        differs, answered = answers[0] != answers[1], (answers[0] >= 0) | (answers[1] >= 0)
        shares.append(float(differs.sum() / answered.sum()))
        assert found.design.cost < problem.full_cost
    assert sum(share <= 0.05 for share in shares) >= 7
    assert max(shares) <= 0.08


def test_where_nothing_matches() -> None:
    """The error has the nearest design, how much it differs, and the costs of both; or says that none is near."""
    problem = make_problem()
    front = search(problem)
    cheapest = Front.of_problem(problem, [min(front, key=lambda design: design.cost)])
    message = r"no cheaper design decides at most 0\.1 % .*; to show so small a share takes 1897 answered rows, .*none is near"
    with pytest.raises(SelectionError, match=message):
        find_matching_design(problem, cheapest, MatchEverything(0.001))
    message = (
        r"; the nearest that answers about as many rows has \d features in \d stages?, threshold 0\.\d+.* and cost \d.* "
        r"instead of 10, and differs in .* % of the answered rows \(at most .* % at level 0\.99\)\. Allow more, such as "
        r"`match_everything=0\.\d+`, give more rows"
    )
    with pytest.raises(SelectionError, match=message) as caught:
        find_matching_design(problem, front, MatchEverything(0.008, 0.99))
    assert caught.value.nearest is not None
    silent = make_problem(threshold=1.0)
    with pytest.raises(SelectionError, match=r"all features at once accept no row at threshold 1\.0"):
        find_matching_design(silent, front, MatchEverything(0.01))


def test_rows_of_a_group_are_no_further_evidence(problem: Problem, front: Front) -> None:
    """Where similar rows are a group, differences come together, less is known, and what matched alone may not match."""
    groups = (problem.validation.codes @ [2.0, 1.2, 0.8, 0.0]).argsort().argsort() // 10
    grouped = replace(problem, validation=replace(problem.validation, groups=groups))
    costs = [
        [find_matching_design(one, front, MatchEverything(share)).design.cost for share in (0.06, 0.08, 0.1, 0.15, 0.2)]
        for one in (problem, grouped)
    ]
    assert all(alone <= together for alone, together in zip(*costs, strict=True))
    assert costs[0] != costs[1]


def test_rows_that_nobody_answers_do_not_count() -> None:
    """Everything at once answers a tenth of the rows: a design that answers others is not a match, however many rows agree."""
    problem = make_problem(threshold=0.99)
    found = find_matching_design(problem, search(problem), MatchEverything(0.1, None))
    assert found.everything.coverage < 0.5
    labels = [evaluate_validation(problem, one.stages, one.stage_thresholds).label for one in (found.design, found.everything)]
    differs = labels[0] != labels[1]
    assert differs.mean() < found.different == pytest.approx(differs.sum() / ((labels[0] >= 0) | (labels[1] >= 0)).sum())
    assert found.different <= 0.1


def test_a_rare_label_is_not_given_up() -> None:
    """One row in fifty is fraud, which the expensive feature alone shows: to answer nearly all others alike is not enough."""
    rng = np.random.default_rng(0)
    target = np.where(np.arange(1500) % 50 == 0, 2, rng.integers(0, 2, size=1500))
    rows = np.column_stack([4.0 * (target == 1), 8.0 * (target == 2)]) + rng.normal(size=(1500, 2))
    y = np.array(["ham", "spam", "fraud"])[target]
    problem = Problem.of(rows, y, costs=[1, 9], threshold=0.8, folds=3, shares=Shares(0.6, 0.4, 0.0, 0.0), stages="straight")
    front = run_search(problem, Settings(max_stages=2), jobs=1).front
    found = find_matching_design(problem, front, MatchEverything(0.04))
    shares = [{one.label: one.recall for one in design.labels}["fraud"] for design in (found.design, found.everything)]
    assert shares[1] > 0.8
    assert shares[0] > shares[1] - 0.1


@pytest.mark.parametrize("seed", range(6))
def test_everything_at_once_is_not_a_cheaper_match_of_itself(seed: int) -> None:
    """Sums of the same prices may differ in the last digit, by the order of adding."""
    problem = make_problem(costs=np.random.default_rng(seed).random(4).tolist())
    everything = evaluate_all_features(problem, search(problem)).design
    alone = Front.of_problem(problem, [everything])
    with pytest.raises(SelectionError, match="none is near"):
        find_matching_design(problem, alone, MatchEverything(1e-9, None))


def test_weights_count(front: Front) -> None:
    """Where some rows count five times, the share is by weight: another design may be the cheapest."""
    weights = np.where(np.arange(ROWS + FRESH) % 3 == 0, 5.0, 1.0)
    problem = make_problem(sample_weight=weights)
    found = find_matching_design(problem, search(problem), MatchEverything(0.05, None))
    labels = [evaluate_validation(problem, one.stages, one.stage_thresholds).label for one in (found.design, found.everything)]
    differs, answered = labels[0] != labels[1], (labels[0] >= 0) | (labels[1] >= 0)
    own = problem.validation.weights
    assert own is not None
    assert found.different == pytest.approx((own * differs).sum() / (own * answered).sum())
    assert found.different != pytest.approx(differs.sum() / answered.sum())
    check_counts(problem, found.design)


def upgraded(rng: np.random.Generator, *, bent: bool) -> tuple[Problem, MatchingDesign]:
    """Return what matches in an upgraded run, where only trees can see the label or where lines are better."""
    rows = rng.uniform(-1, 1, size=(400, 3))
    score = 2 * rows[:, 1] + (3 * np.abs(rows[:, 0]) if bent else 3 * rows[:, 0]) + 0.3 * rows[:, 2]
    y = score + 0.4 * rng.normal(size=400) > (1.5 if bent else 0.0)
    problem = Problem.of(rows, y, costs=[1, 1, 5], threshold=0.8, folds=2, stages="straight", shares=Shares(0.6, 0.4, 0.0, 0.0))
    searched = search_thresholds(problem, None, Settings(max_stages=2), method="auto", seed=0, jobs=1, upgrade="boosted")
    return problem, find_matching_design(problem, next(searched).front, MatchEverything(0.2))


def test_everything_is_of_the_better_kind() -> None:
    """In an upgraded run, designs are compared with boosted trees on all features where these answer better, and only there."""
    rng = np.random.default_rng(0)
    problem, found = upgraded(rng, bent=True)
    assert found.everything.upgrade == "boosted"
    assert "(boosted stages, threshold 0.8: coverage" in found.describe(MatchEverything(0.2), "cross-fitted")
    assert found.design.cost < problem.full_cost
    _, found = upgraded(rng, bent=False)
    assert found.everything.upgrade is None


def test_it_is_certified_like_any_choice() -> None:
    """The certify rows take no part in the choice; the reason has both designs' figures."""
    problem = make_problem(certified=True)
    front, match = search(problem), MatchEverything(0.05)
    choice = choose_tuned_design(problem, front, SelectionCriteria(match=match), MemoryLedger())
    assert choice.design == select_tuned_design(problem, front, match)
    assert choice.certificate is not None
    found = find_matching_design(problem, front, match, fitters=ProblemFitters(problem))
    assert choice.reason == found.describe(match, "cross-fitted")
    assert choice.reason.startswith(
        "the cheapest that decides at most 5 % of the answered items differently from all features at once (thresh"
    )
    assert choice.reason.endswith(f" of the answered cross-fitted rows, for {100 * choice.design.cost / 10:.3g} % of its cost")


def test_other_criteria_are_refused() -> None:
    """It excludes other criteria: floors, an id or a guarantee next to it are refused, and numbers that are none."""
    match = MatchEverything(0.01)
    for criteria in ({"requirements": Requirements(min_accuracy=0.9)}, {"design": "knee"}, {"promise": Promise(max_error=0.1)}):
        with pytest.raises(DesignError, match="`match_everything` was given together with other criteria: give one or the other"):
            SelectionCriteria(match=match, **criteria)  # type: ignore[arg-type]
    with pytest.raises(DesignError, match=r"`match_everything`: sure is 0\.3: expected a number from 0\.5 to below 1, or none"):
        replace(match, sure=0.3)
    with pytest.raises(DesignError, match=r"`match_everything`: True is not a number between 0 and 1; sure is 'x'"):
        MatchEverything(True, "x")  # type: ignore[arg-type]


def test_a_threshold_of_the_search_is_refused(problem: Problem) -> None:
    """The choice tries higher thresholds before the last stage: to keep those of the search cannot be asked for with it."""
    with pytest.raises(
        DesignError, match="`match_everything` looks at other thresholds: `tune_thresholds=False` is not possible"
    ):
        SelectionCriteria(match=MatchEverything(0.01), tune_thresholds=False)


def test_a_kind_that_answers_nothing_is_no_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a high threshold lines answer nothing, and trees a little less accurately than it says: these are what is matched."""
    # So many are too sure of themselves here.
    monkeypatch.setattr("emsco_train.models.stage_model.choose_tree_count", lambda *_: 100)
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, size=(800, 3))
    y = np.where((np.abs(rows[:, 0]) + np.abs(rows[:, 1]) > 1) ^ (rng.random(800) < 0.08), "a", "b")
    shares = Shares(0.6, 0.4, 0.0, 0.0)
    problem = Problem.of(rows, y, costs=[1, 1, 5], threshold=0.95, folds=2, stages="straight", shares=shares)
    searched = search_thresholds(problem, None, Settings(max_stages=2), method="auto", seed=0, jobs=1, upgrade="boosted")
    front = next(searched).front
    assert {design.upgrade for design in front} == {"boosted"}
    everything = evaluate_all_features(problem, front).design
    assert everything.upgrade == "boosted"
    assert everything.accuracy < 0.95
    found = find_matching_design(problem, front, MatchEverything(0.3, None))
    assert found.everything == everything
    assert found.design.cost < problem.full_cost


def test_the_error_of_a_label_that_is_given_up() -> None:
    """Nothing matches, and the nearest gives up a label: the error names it, and does not suggest a share that is refused."""
    rng = np.random.default_rng(0)
    target = np.where(np.arange(900) % 20 == 0, 2, rng.integers(0, 2, size=900))
    rows = np.column_stack([4.0 * (target == 1), 8.0 * (target == 2)]) + rng.normal(size=(900, 2))
    y = np.array(["ham", "spam", "fraud"])[target]
    problem = Problem.of(rows, y, costs=[1, 9], threshold=0.6, folds=3, shares=Shares(0.6, 0.4, 0.0, 0.0), stages="straight")
    front = run_search(problem, Settings(max_stages=2), jobs=1).front
    cheap = Front.of_problem(problem, [design for design in front if design.stages == (("x0",),)])
    message = r"and in 100 % of those that are answered 'fraud'\. Give more rows, or ask for floors$"
    with pytest.raises(SelectionError, match=message):
        find_matching_design(problem, cheap, MatchEverything(0.05, None))


def test_the_smallest_share(problem: Problem, front: Front) -> None:
    """A share that is hardly more than 0 is like any that no row can show."""
    for share, rows in ((1e-17, r"1\.89712e\+17"), (5e-324, "inf")):
        with pytest.raises(SelectionError, match=f"to show so small a share takes {rows} answered rows"):
            find_matching_design(problem, front, MatchEverything(share))


def test_a_threshold_for_each_label() -> None:
    """A label is never answered, since its threshold is 1: the others are matched."""
    problem = make_problem(threshold={"ham": 0.8, "spam": 1.0})
    found = find_matching_design(problem, search(problem), MatchEverything(0.1, None))
    assert found.everything.thresholds == (0.8, 1.0)
    assert found.everything.labels[1].accepted_as == 0 < found.everything.labels[0].accepted_as
    assert found.design.cost < problem.full_cost
