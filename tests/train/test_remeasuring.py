"""Designs measured again on other divisions into folds: the figures by which a choice is made."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from emsco_runtime.support.arrays import Floats
from emsco_train.data.problem import Problem
from emsco_train.data.splits import Splits
from emsco_train.designs.front import Front
from emsco_train.designs.selection import Requirements
from emsco_train.errors import SelectionError
from emsco_train.export.likely_figures import _collect_outcomes, _mean_outcomes, estimate_likely_figures
from emsco_train.export.searched_design import check_counts
from emsco_train.export.tuned_choice import choose_tuned_design, select_tuned_design
from emsco_train.guarantee.choice import SelectionCriteria
from emsco_train.guarantee.ledger import MemoryLedger
from emsco_train.models.evaluation import evaluate_validation
from emsco_train.search import remeasuring
from emsco_train.search.ladder import ladder_front
from emsco_train.search.remeasuring import find_near, remeasure_front
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
    measured = remeasure_front(problem, front, ASKED)
    meeting = [design for design in front if ASKED.meets(design)]
    assert len(measured.divisions) == 4
    assert len(front) > len(meeting) > 10
    others = [problem.with_other_folds(number) for number in range(1, 5)]
    for design in meeting[::9]:
        found = [
            evaluate_validation(other, design.stages, design.thresholds).expected(
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
    measured = remeasure_front(problem, front, ASKED).front
    missing = [design for design in front if not ASKED.meets(design)]
    assert missing
    assert all(measured.find(design.id) == design for design in missing)
    assert {design.id for design in measured} == {design.id for design in front}


def test_figures_per_label_are_means_too(problem: Problem, front: Front) -> None:
    """Floors per label are met or missed by other divisions as well."""
    asked = Requirements.of(min_recall={"yes": 0.6}, min_accuracy=0.8)
    measured = remeasure_front(problem, front, asked).front
    others = [problem.with_other_folds(number) for number in range(1, 5)]
    design = next(design for design in front if asked.meets(design))
    counts = [
        evaluate_validation(other, design.stages, design.thresholds).expected(
            other.validation.target, "again", None, problem.labels
        )
        for other in others
    ]
    for place, label in enumerate(measured.find(design.id).labels):
        assert label.rows == counts[0].labels[place].rows
        assert label.right == round(fmean(one.labels[place].right for one in counts))
        assert label.accepted_as == round(fmean(one.labels[place].accepted_as for one in counts))


@pytest.mark.uncounted
def test_the_luck_of_the_searched_division_is_gone() -> None:
    """Over several tables, the most accurate design by the folds of its search is less accurate on others, on average."""
    shown, again = [], []
    for seed in range(8):
        problem = make_problem(seed)
        front = make_front(problem)
        measured = remeasure_front(problem, front, ASKED).front
        best = max(filter(ASKED.meets, front), key=lambda design: design.accuracy)
        shown.append(best.accuracy)
        again.append(measured.find(best.id).accuracy)
    assert np.mean(again) < np.mean(shown) - 0.001


def test_a_choice_has_the_figures_of_its_search(problem: Problem, front: Front) -> None:
    """Other divisions decide; the design that is returned is the one that was found, as its export checks."""
    chosen = select_tuned_design(problem, run_search(problem, Settings(max_stages=2), jobs=1).front, ASKED)
    measured = remeasure_front(problem, front, ASKED).front
    assert ASKED.meets(measured.find(chosen.id))
    assert ASKED.meets(chosen)
    assert chosen == front.find(chosen.id)
    check_counts(problem, chosen)


def test_what_satisfies_on_one_division_alone_is_explained(problem: Problem, front: Front) -> None:
    """A user who sees a design that satisfies in the front is told why it is not taken."""
    plain = run_search(problem, Settings(max_stages=2), jobs=1).front
    best = max((design for design in front if design.coverage >= 0.6), key=lambda design: design.accuracy)
    asked = Requirements(min_accuracy=best.accuracy, min_coverage=0.6, sure=None)
    assert not asked.meets(remeasure_front(problem, front, asked).front.find(best.id))
    message = "none of .* satisfies .* 1 design did on the folds of the search, and not on other divisions of the same rows"
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
        monkeypatch.setattr(remeasuring, "_MOST_ROWS", POOL - 1)
    problem = make_problem(
        folds=0 if kind == "one validation split" else 4,
        time=np.arange(POOL + FRESH) if kind == "folds by time" else None,
        classifier=GaussianNB() if kind == "slow fits" else None,
    )
    front = make_front(problem)
    measured = remeasure_front(problem, front, asked)
    assert measured.divisions == ()
    assert measured.front is front


def test_more_rows_take_fewer_divisions(monkeypatch: pytest.MonkeyPatch, problem: Problem, front: Front) -> None:
    """There is less luck in many rows, and fits take longer: the work stays the same."""
    monkeypatch.setattr(remeasuring, "_MOST_ROWS", 2 * POOL + 1)
    assert len(remeasure_front(problem, front, ASKED).divisions) == 2


def test_rows_of_several_divisions_are_the_same_rows(problem: Problem, front: Front) -> None:
    """Likely figures take the mean row by row: each division has the rows in an order of its own."""
    measured = remeasure_front(problem, front, ASKED)
    near = find_near(front, ASKED)[:5]
    outcomes = [_collect_outcomes(near, 1, division) for division in measured.divisions]
    mean = _mean_outcomes(outcomes, measured.divisions)
    for place, design in enumerate(near):
        by_row: Floats = np.zeros(POOL)
        for number in range(1, 5):
            other = problem.with_other_folds(number)
            rows = np.concatenate([part.fold.scored for part in other.parts if part.fold is not None])
            by_row[rows] += evaluate_validation(other, design.stages, design.thresholds).accepted / 4
        first = problem.with_other_folds(1)
        rows = np.concatenate([part.fold.scored for part in first.parts if part.fold is not None])
        np.testing.assert_allclose(mean.accepted[place], by_row[rows])


def test_likely_figures_are_those_of_other_divisions(problem: Problem, front: Front) -> None:
    """With divisions, the choice that is repeated is the one that is made."""
    measured = remeasure_front(problem, front, ASKED)
    likely = estimate_likely_figures(problem, front, ASKED, divisions=measured.divisions)
    assert likely is not None
    assert 0.7 < likely.accuracy < 1.0
    assert likely != estimate_likely_figures(problem, front, ASKED)
