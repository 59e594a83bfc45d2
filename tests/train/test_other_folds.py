"""Designs measured again on other divisions into folds: the figures by which a choice is made."""

from __future__ import annotations

from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from emsco_runtime.support.arrays import Floats
from emsco_train.data.problem import Problem
from emsco_train.data.splits import Shares, Splits
from emsco_train.designs.front import Front
from emsco_train.designs.selection import Requirements
from emsco_train.errors import SelectionError
from emsco_train.export.likely_figures import _collect_outcomes, _find_common_rows, _mean_outcomes, estimate_likely_figures
from emsco_train.export.searched_design import check_counts
from emsco_train.export.tuned_choice import choose_tuned_design, select_tuned_design
from emsco_train.guarantee.choice import SelectionCriteria
from emsco_train.guarantee.ledger import MemoryLedger
from emsco_train.models.evaluation import evaluate_validation
from emsco_train.search import other_folds
from emsco_train.search.ladder import ladder_front
from emsco_train.search.other_folds import find_near, measure_on_other_folds
from emsco_train.search.searches import run_search
from emsco_train.search.settings import Settings

ASKED = Requirements(min_accuracy=0.8, min_coverage=0.6, sure=0.85)
POOL, FRESH = 240, 600


def make_problem(seed: int = 0, *, folds: int = 4, **options: object) -> Problem:
    """Return five features of falling worth, noise, and test rows."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(POOL + FRESH, 6))
    y = np.where(rows @ [2.0, 1.0, 0.7, 0.4, 0.2, 0.0] + rng.normal(size=len(rows)) > 0, "yes", "no")
    train, validation, test = np.split(np.arange(len(rows)), [POOL // 2, POOL])
    splits = Splits(train, validation, test, np.array([], dtype=np.intp))
    return Problem.of(rows, y, costs=[6, 3, 2, 1, 1, 1], threshold=0.7, splits=splits, folds=folds, seed=seed, **options)  # type: ignore[arg-type]


def make_front(problem: Problem) -> Front:
    """Return the designs of up to two stages, at all thresholds of the ladder."""
    return ladder_front(problem, run_search(problem, Settings(max_stages=2), jobs=1).front)


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Return one problem for all tests of this file."""
    return make_problem()


@pytest.fixture(scope="module")
def front(problem: Problem) -> Front:
    """Return its front."""
    return make_front(problem)


@pytest.mark.parametrize("kind", ["plain", "weights", "groups"])
def test_figures_are_means_over_other_divisions(kind: str) -> None:
    """What is measured again is what evaluating each division by itself gives, weights and groups included."""
    rng = np.random.default_rng(3)
    weights, groups = rng.choice([0.5, 1.0, 3.0], POOL + FRESH), rng.integers(60, size=POOL + FRESH)
    # Of one group all rows are in one split.
    groups += 60 * (np.arange(POOL + FRESH) >= POOL // 2) + 60 * (np.arange(POOL + FRESH) >= POOL)
    problem = make_problem(sample_weight=weights if kind == "weights" else None, groups=groups if kind == "groups" else None)
    front = make_front(problem)
    measured = measure_on_other_folds(problem, front, ASKED)
    meeting = [design for design in front if ASKED.meets(design)]
    assert len(measured.divisions) == 2
    assert len(front) > len(meeting) > 10
    others = [problem.with_other_folds(number, finer=True) for number in (1, 2)]
    for design in meeting[::9]:
        found = [
            evaluate_validation(other, design.stages, design.stage_thresholds).expected(
                other.validation.target, "again", other.validation.units
            )
            for other in others
        ]
        again = measured.front.find(design.id)
        units = [one.weighted or one for one in found]
        rows = [one.units if hasattr(one, "units") else one.rows for one in units]
        assert again.coverage == pytest.approx(fmean(one.accepted / whole for one, whole in zip(units, rows, strict=True)))
        assert again.accuracy == pytest.approx(sum(one.right for one in units) / sum(one.accepted for one in units))
        assert again.bounds(0.85).accuracy < again.accuracy


def test_designs_that_miss_the_requirements_keep_their_figures(problem: Problem, front: Front) -> None:
    """Nobody would choose them: they are not fitted again, and all designs stay in the front."""
    measured = measure_on_other_folds(problem, front, ASKED).front
    missing = [design for design in front if not ASKED.meets(design)]
    assert missing
    assert all(measured.find(design.id) == design for design in missing)
    assert {design.id for design in measured} == {design.id for design in front}


def test_figures_per_label_are_means_too(problem: Problem, front: Front) -> None:
    """Floors per label are met or missed by other divisions as well."""
    asked = Requirements.of(min_recall={"yes": 0.6}, min_accuracy=0.8)
    measured = measure_on_other_folds(problem, front, asked).front
    others = [problem.with_other_folds(number, finer=True) for number in (1, 2)]
    design = next(design for design in front if asked.meets(design))
    counts = [
        evaluate_validation(other, design.stages, design.stage_thresholds).expected(
            other.validation.target, "again", None, problem.labels
        )
        for other in others
    ]
    again = measured.find(design.id)
    for place, label in enumerate(again.labels):
        assert label.recall == pytest.approx(fmean(one.labels[place].recall for one in counts))
        assert label.right == sum(one.labels[place].right for one in counts)
        # Two divisions of the same rows say no more than one.
        assert again.full_precision.labels[place].rows == counts[0].labels[place].rows
        assert again.label_bounds(label.label, 0.85).recall < label.recall


@pytest.mark.uncounted
def test_the_luck_of_the_searched_division_is_gone() -> None:
    """Over several tables, the most accurate design by the folds of its search is less accurate on others, on average."""
    shown, again = [], []
    for seed in range(8):
        problem = make_problem(seed)
        front = make_front(problem)
        measured = measure_on_other_folds(problem, front, ASKED).front
        best = max(filter(ASKED.meets, front), key=lambda design: design.accuracy)
        shown.append(best.accuracy)
        again.append(measured.find(best.id).accuracy)
    assert np.mean(again) < np.mean(shown) - 0.001


def test_a_choice_has_the_figures_of_its_search(problem: Problem, front: Front) -> None:
    """Other divisions decide; the design that is returned is the one that was found, as its export checks."""
    chosen = select_tuned_design(problem, run_search(problem, Settings(max_stages=2), jobs=1).front, ASKED)
    measured = measure_on_other_folds(problem, front, ASKED).front
    assert ASKED.meets(measured.find(chosen.id))
    assert ASKED.meets(chosen)
    assert chosen == front.find(chosen.id)
    check_counts(problem, chosen)


def test_what_satisfies_on_one_division_alone_is_explained(problem: Problem, front: Front) -> None:
    """A user who sees a design that satisfies in the front is told why it is not taken."""
    plain = run_search(problem, Settings(max_stages=2), jobs=1).front
    best = max((design for design in front if design.coverage >= 0.6), key=lambda design: design.accuracy)
    asked = Requirements(min_accuracy=best.accuracy, min_coverage=0.6, sure=None)
    assert not asked.meets(measure_on_other_folds(problem, front, asked).front.find(best.id))
    message = "none of .* satisfies .* By the figures of the front 1 design satisfies this; measured again .* none does"
    with pytest.raises(SelectionError, match=message) as caught:
        select_tuned_design(problem, plain, asked)
    assert caught.value.nearest is not None
    with pytest.raises(SelectionError, match=message):
        choose_tuned_design(problem, plain, SelectionCriteria.of(asked), MemoryLedger())


@pytest.mark.parametrize("kind", ["one validation split", "folds by time", "slow fits", "many rows", "nothing near"])
def test_where_nothing_is_measured_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without other divisions, with slow fits, on many rows, and far from the requirements, the front stays as it is."""
    asked = Requirements(min_accuracy=1.0, min_coverage=1.0) if kind == "nothing near" else ASKED
    if kind == "many rows":
        monkeypatch.setattr(other_folds, "_MOST_ROWS", POOL - 1)
    problem = make_problem(
        folds=0 if kind == "one validation split" else 4,
        time=np.arange(POOL + FRESH) if kind == "folds by time" else None,
        classifier=GaussianNB() if kind == "slow fits" else None,
    )
    front = make_front(problem)
    measured = measure_on_other_folds(problem, front, asked)
    assert measured.divisions == ()
    assert measured.front is front


def test_more_rows_take_fewer_divisions(monkeypatch: pytest.MonkeyPatch, problem: Problem, front: Front) -> None:
    """There is less luck in many rows, and fits take longer: the work stays the same."""
    assert len(measure_on_other_folds(problem, front, ASKED).divisions) == 2
    monkeypatch.setattr(other_folds, "_MOST_ROWS", 2 * POOL - 1)
    assert len(measure_on_other_folds(problem, front, ASKED).divisions) == 1


def test_rows_of_several_divisions_are_the_same_rows(problem: Problem, front: Front) -> None:
    """Likely figures take the mean row by row: each division has the rows in an order of its own."""
    measured = measure_on_other_folds(problem, front, ASKED)
    near = find_near(front, ASKED)[:5]
    outcomes = [_collect_outcomes(near, 1, division) for division in measured.divisions]
    mean = _mean_outcomes(outcomes, _find_common_rows(measured.divisions))
    for place, design in enumerate(near):
        by_row: Floats = np.zeros(POOL)
        for number in (1, 2):
            other = problem.with_other_folds(number, finer=True)
            rows = np.concatenate([part.fold.scored for part in other.parts if part.fold is not None])
            by_row[rows] += evaluate_validation(other, design.stages, design.stage_thresholds).accepted / 2
        np.testing.assert_allclose(mean.accepted[place], by_row)


def test_likely_figures_are_those_of_other_divisions(problem: Problem, front: Front) -> None:
    """With divisions, the choice is repeated on what these say of each row."""
    measured = measure_on_other_folds(problem, front, ASKED)
    likely = estimate_likely_figures(problem, front, ASKED, divisions=measured.divisions)
    assert likely is not None
    assert 0.7 < likely.accuracy < 1.0
    assert likely != estimate_likely_figures(problem, front, ASKED)


@pytest.mark.filterwarnings("ignore::emsco_train.errors.RareLabelWarning")
def test_rows_that_no_fold_scores_are_left_out() -> None:
    """A label with one row cannot be scored by a model that knows it: divisions have a row less than the pool."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(POOL, 4))
    y = np.where(rows @ [2.0, 1.0, 0.5, 0.0] + rng.normal(size=POOL) > 0, "yes", "no").astype(object)
    y[10] = "rare"
    problem = Problem.of(rows, y, threshold=0.7, shares=Shares(1.0, 0.0, 0.0, 0.0), folds=4)
    front = run_search(problem, Settings(max_stages=2), jobs=1).front
    criteria = SelectionCriteria.of(Requirements(min_accuracy=0.75, min_coverage=0.5))
    choice = choose_tuned_design(problem, front, criteria, MemoryLedger())
    assert len(problem.validation) == POOL - 1
    assert choice.likely is not None
    assert 0.6 < choice.likely.accuracy < 1.0


@pytest.mark.filterwarnings("ignore::emsco_train.errors.RareLabelWarning")
def test_few_groups_with_labels_of_their_own() -> None:
    """Rows of a label that is in one group are scored by no fold; the others are measured, chosen by, and drawn."""
    rng = np.random.default_rng(1)
    rows, groups = rng.normal(size=(POOL, 4)), rng.integers(8, size=POOL)
    y = np.where(rows @ [2.0, 1.0, 0.5, 0.0] + rng.normal(size=POOL) > 0, "yes", "no").astype(object)
    y[groups == 0] = "first"
    problem = Problem.of(rows, y, threshold=0.6, shares=Shares(1.0, 0.0, 0.0, 0.0), folds=3, groups=groups)
    front = run_search(problem, Settings(max_stages=2), jobs=1).front
    asked = Requirements(min_accuracy=0.5, min_coverage=0.2, sure=None)
    choice = choose_tuned_design(problem, front, SelectionCriteria.of(asked), MemoryLedger())
    assert len(problem.validation) < POOL
    assert asked.meets(choice.design)
    assert choice.likely is not None


def test_rows_that_only_some_divisions_score_are_no_common_rows() -> None:
    """Each division says where it has the rows that all of them score."""

    def division(*folds: list[int]) -> Any:
        parts = [SimpleNamespace(fold=SimpleNamespace(scored=np.array(fold))) for fold in folds]
        return SimpleNamespace(problem=SimpleNamespace(parts=parts))

    found = _find_common_rows([division([0, 4], [2, 3]), division([2, 5], [1, 4]), division([1, 2, 3], [4])])
    assert [places.tolist() for places in found] == [[2, 1], [0, 3], [1, 3]]


@pytest.mark.filterwarnings("ignore::emsco_train.errors.RareLabelWarning")
def test_one_fold_by_time_is_not_divided_again() -> None:
    """A label that is first seen late leaves one fold: there is no other division, and the choice is made by this one."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(POOL, 4))
    y = np.where(rows @ [2.0, 1.0, 0.5, 0.0] + rng.normal(size=POOL) > 0, "yes", "no").astype(object)
    y[[205, 210, 230]] = "late"
    problem = Problem.of(rows, y, threshold=0.6, shares=Shares(1.0, 0.0, 0.0, 0.0), folds=4, time=np.arange(POOL))
    assert len(problem.parts) == 1
    assert not problem.has_other_folds
    front = run_search(problem, Settings(max_stages=2), jobs=1).front
    assert select_tuned_design(problem, front, Requirements(min_accuracy=0.5, sure=None)) in tuple(front)


def test_a_cap_on_cost_alone_must_hold_twice(problem: Problem, front: Front) -> None:
    """The most accurate design under a cap is measured again, too: its cost is a figure as any other."""
    asked = Requirements(max_cost=5.0)
    chosen = select_tuned_design(problem, front, asked)
    again = measure_on_other_folds(problem, front, asked).front.find(chosen.id)
    assert asked.meets(chosen)
    assert asked.meets(again)
