"""How many trees a boosted stage has: what was kept back decides, and nothing but the rows of the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss

from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.data.folds import make_folds
from emsco_train.data.stage_settings import StageSettings
from emsco_train.models.stage_model import ClassifierModel, StageFitter
from emsco_train.models.trees.tree_count import choose_tree_count
from emsco_train.support.stop_flag import FitStopped, StopFlag

COUNTS = (10, 20, 40, 80, 160, 320)


def make_rows(rows: int, noise: float, seed: int = 0, columns: int = 8) -> tuple[Floats, Ints]:
    """Return rows whose label is the sign of a sum of sines: smooth, so that each tree adds a little, but for the noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, size=(rows, columns))
    return x, (np.sin(x).sum(axis=1) + noise * rng.normal(size=rows) > 0).astype(np.intp)


def choose(x: Floats, y: Ints, weights: Floats | None = None, seed: int = 0) -> int:
    """Choose for the trees of boosted stages."""
    return choose_tree_count(StageSettings(kind="boosted", seed=seed).make_classifier(), x, y, weights, StopFlag())


def losses_by_hand(x: Floats, y: Ints, weights: Floats | None, seed: int) -> dict[int, float]:
    """Return the log loss of each number of trees, each fitted from the start on two thirds of the rows, three times."""
    estimator = StageSettings(kind="boosted", seed=seed).make_classifier()
    folds = make_folds(y, 3, rng=np.random.default_rng((seed, 3)), labels=(0, 1))
    counted = np.ones(len(y)) if weights is None else weights
    total = dict.fromkeys(COUNTS, 0.0)
    for count in COUNTS:
        for fold in folds:
            fitted = clone(estimator).set_params(max_iter=count)
            fitted.fit(x[fold.fitted], y[fold.fitted], counted[fold.fitted])
            scores, truth = fitted.predict_proba(x[fold.scored]), y[fold.scored]
            total[count] += log_loss(truth, scores, sample_weight=counted[fold.scored], normalize=False, labels=[0, 1])
    return total


@pytest.mark.parametrize(("rows", "noise", "weighted"), [(150, 3.0, True), (240, 0.0, False)])
def test_it_is_the_number_with_the_least_loss_where_that_is_worked_out_in_full(rows: int, noise: float, weighted: bool) -> None:
    """Numbers are tried in steps until more trees are worse; from the start on and all of them tried, the best is the same."""
    x, y = make_rows(rows, noise)
    weights = np.random.default_rng(1).uniform(0.5, 2, size=rows) if weighted else None
    total = losses_by_hand(x, y, weights, seed=5)
    assert choose(x, y, weights, seed=5) == min(total, key=total.__getitem__)


def test_noise_gets_few_trees_and_what_is_smooth_and_certain_many() -> None:
    """The same number of rows and of columns: what the label depends on makes the difference."""
    x, y = make_rows(1_200, noise=0.0)
    shuffled = np.random.default_rng(0).permutation(y)
    assert choose(x, shuffled) == 10
    assert choose(x, y) >= 160


def test_a_stage_of_few_features_has_its_own_number() -> None:
    """Two of eight columns tell little, and their model has fewer trees than that of all columns of the same rows."""
    x, y = make_rows(1_200, noise=0.0)
    fitter = StageFitter(x, y, 2, None, StageSettings(kind="boosted"))
    few, every = fitter.fit(np.arange(2)), fitter.fit(np.arange(8))
    assert isinstance(few, ClassifierModel)
    assert isinstance(every, ClassifierModel)
    assert few.estimator.n_iter_ == choose(x[:, :2], y) < every.estimator.n_iter_ == choose(x, y)


def test_a_classifier_that_was_given_keeps_its_number() -> None:
    """Who gives HistGradientBoostingClassifier has decided how many trees it has."""
    x, y = make_rows(300, noise=1.0)
    given_one = StageSettings(HistGradientBoostingClassifier(max_iter=7))
    fitted = StageFitter(x, y, 2, None, given_one).fit(np.arange(8))
    assert isinstance(fitted, ClassifierModel)
    assert fitted.estimator.n_iter_ == 7


def test_it_changes_nothing_and_can_be_repeated() -> None:
    """The estimator stays as it was, not fitted; the same rows and seed give the same number."""
    x, y = make_rows(200, noise=1.0)
    estimator = StageSettings(kind="boosted").make_classifier()
    before = estimator.get_params()
    # What manifests say of it is the most that it may have.
    assert estimator.max_iter == COUNTS[-1]
    first, second = (choose_tree_count(estimator, x, y, None, StopFlag()) for _ in range(2))
    assert first == second
    assert estimator.get_params() == before
    assert not hasattr(estimator, "n_iter_")


@settings(max_examples=15, deadline=None)
@given(labels=st.lists(st.sampled_from([0, 1, 4]), min_size=1, max_size=12), seed=st.integers(0, 3))
def test_any_few_rows_have_a_number(labels: list[int], seed: int) -> None:
    """Labels with a single row, with gaps between them, or one alone: there is a number, whether rows can be kept back or not."""
    y = np.array(labels, dtype=np.intp)
    x = np.random.default_rng(seed).normal(size=(len(y), 2))
    assert choose(x, y, seed=seed) in COUNTS


def test_a_label_that_is_too_rare_to_be_kept_back_is_fitted_all_the_same() -> None:
    """Its single row is in every fit, so no model lacks a label."""
    x, y = make_rows(90, noise=1.0)
    y[0] = 2
    assert choose(x, y) in COUNTS


def test_of_many_rows_a_third_is_kept_back_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three folds would take three times as long, and tell hardly more: above a thousand rows there is one."""
    fitted: list[int] = []
    fit = HistGradientBoostingClassifier.fit

    def count_rows(self: Any, x: Floats, *rest: Any) -> Any:
        fitted.append(len(x))
        return fit(self, x, *rest)

    monkeypatch.setattr(HistGradientBoostingClassifier, "fit", count_rows)
    choose(*make_rows(999, noise=5.0))
    assert fitted == [666] * 3
    fitted.clear()
    choose(*make_rows(1_500, noise=5.0))
    assert fitted == [1_000]


def test_it_ends_where_time_is_over() -> None:
    """The flag that ends fits ends this, too, before anything is fitted."""
    x, y = make_rows(100, noise=1.0)
    stop = StopFlag()
    stop.array[0] = 1
    with pytest.raises(FitStopped):
        choose_tree_count(StageSettings(kind="boosted").make_classifier(), x, y, None, stop)
