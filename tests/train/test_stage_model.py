"""Stage models: weights, settings and other classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from emsco_train.data.stage_settings import StageSettings, row_weights
from emsco_train.errors import DataError, DesignError, FitError
from emsco_train.models.logistic.regression import LogisticModel
from emsco_train.models.stage_model import ClassifierModel, StageFitter, StageModel
from emsco_train.support.stop_flag import FitStopped, StopFlag

RNG = np.random.default_rng(3)
X = RNG.normal(size=(120, 4))
Y = (X @ [1.0, -1.0, 0.5, 0.0] + RNG.normal(size=120) > 0.7).astype(np.intp)
W = RNG.uniform(0.0, 3.0, 120)


def fit_stage(weights: np.ndarray | None, settings: StageSettings) -> StageModel:
    """Fit all columns."""
    return StageFitter(X, Y, 2, weights, settings).fit(np.arange(X.shape[1]))


@pytest.mark.parametrize("class_weight", [None, "balanced", {"no": 1.0, "yes": 4.0}, {"yes": 4}])
@pytest.mark.parametrize("sample_weight", [None, W])
def test_weights_mean_what_they_mean_in_scikit_learn(class_weight: Any, sample_weight: Any) -> None:
    """Class weights (balanced or given) and sample weights give the model that scikit-learn fits with them."""
    weights = row_weights(Y, ("no", "yes"), class_weight=class_weight, sample_weight=sample_weight)
    found = fit_stage(weights, StageSettings()).probabilities(X)
    theirs = class_weight if isinstance(class_weight, str | None) else {0: 1.0, 1: 4.0}
    twin = LogisticRegression(solver="newton-cholesky", tol=1e-12, class_weight=theirs).fit(X, Y, sample_weight)
    assert np.abs(found - twin.predict_proba(X)).max() < 1e-9


def test_no_weights() -> None:
    """Without weights there is no array of ones either: classifiers that take none still work."""
    assert row_weights(Y, ("no", "yes"), class_weight=None, sample_weight=None) is None


@pytest.mark.parametrize(
    ("class_weight", "sample_weight", "kind", "message"),
    [
        ("balanecd", None, DesignError, "class_weight is 'balanecd'"),
        ({"maybe": 1.0, "yes": -1}, None, DesignError, r"'maybe' is not a label; -1 for label 'yes'.*\(labels: no, yes\)"),
        (None, W[:-1], DataError, r"shape \(119,\) for 120 rows"),
        (None, ["a"] * 120, DataError, "one number per row"),
        (None, np.where(np.arange(120) == 7, np.nan, 1.0), DataError, "row 7: nan is not a weight"),
        (None, (Y == 1).astype(float), DataError, "0 for every row of label 'no'"),
    ],
)
def test_bad_weights(class_weight: Any, sample_weight: Any, kind: type[Exception], message: str) -> None:
    """Each unusable weight is named."""
    with pytest.raises(kind, match=message):
        row_weights(Y, ("no", "yes"), class_weight=class_weight, sample_weight=sample_weight)


def test_other_classifier_is_cloned_and_seeded() -> None:
    """The caller's object stays untouched; an open random state takes the seed, so that a fit can be repeated."""
    forest = RandomForestClassifier(5)
    fits = [fit_stage(W, StageSettings(forest, seed=seed)) for seed in (1, 1, 2)]
    assert not hasattr(forest, "estimators_")
    assert forest.random_state is None
    first, again, other = (fit.probabilities(X) for fit in fits)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert isinstance(fits[0], ClassifierModel)
    assert fits[0].name == "RandomForestClassifier"


def test_seeds_inside_a_pipeline() -> None:
    """The random state of a step is filled in too; one that the caller set is kept."""
    inner = make_pipeline(StandardScaler(), RandomForestClassifier(3))
    fitted = fit_stage(None, StageSettings(inner, seed=9))
    assert isinstance(fitted, ClassifierModel)
    assert fitted.estimator[-1].random_state == 9
    kept = fit_stage(None, StageSettings(RandomForestClassifier(3, random_state=4), seed=9))
    assert isinstance(kept, ClassifierModel)
    assert kept.estimator.random_state == 4


@pytest.mark.parametrize("classifier", ["forest", RandomForestClassifier, StandardScaler()])
def test_no_classifier(classifier: Any) -> None:
    """Names, classes and transformers are no classifiers."""
    with pytest.raises(DesignError, match="give an instance of a scikit-learn classifier"):
        StageSettings(classifier)


def test_boosted_stages_are_seeded_and_exact() -> None:
    """They are scikit-learn's boosted trees, the same for a seed, read exactly; weights count."""
    fits = [fit_stage(weights, StageSettings(kind="boosted", seed=seed)) for weights, seed in ((None, 1), (None, 1), (W, 1))]
    assert all(isinstance(fitted, ClassifierModel) and fitted.trees is not None for fitted in fits)
    first, again, weighted = (fitted.probabilities(X) for fitted in fits)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, weighted)
    assert StageSettings(kind="boosted", seed=7).make_classifier().random_state == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "crooked"}, "stages is 'crooked': expected 'straight' or 'curved' or 'boosted'"),
        (
            {"kind": "boosted", "calibrate": "temperature"},
            "calibrate is for logistic regression: leave it out with `stages='boosted'`",
        ),
        ({"kind": "boosted", "classifier": RandomForestClassifier()}, "give one or the other"),
    ],
)
def test_settings_that_exclude_each_other(options: Any, message: str) -> None:
    """Stages are of a known kind, and either ours or the user's classifier."""
    with pytest.raises(DesignError, match=message):
        StageSettings(**options)


def test_no_fit_begins_when_time_is_over() -> None:
    """A classifier is not fitted once the flag is set: a search ends within the time of one fit."""
    stop = StopFlag()
    fitter = StageFitter(X, Y, 2, None, StageSettings(kind="boosted"), stop=stop)
    stop.array[0] = 1
    with pytest.raises(FitStopped):
        fitter.fit(np.array([0, 1]))


@pytest.mark.parametrize("C", [0, -1.0, float("inf"), "1", True])
def test_bad_penalty(C: Any) -> None:  # noqa: N803
    """C is a finite number above 0."""
    with pytest.raises(DesignError, match=r"C is .*a finite number above 0"):
        StageSettings(C=C)


def test_classifiers_that_cannot_serve() -> None:
    """No probabilities, no sample weights, a failing fit: each a message of one line."""
    with pytest.raises(DesignError, match="Perceptron has no predict_proba"):
        fit_stage(None, StageSettings(Perceptron()))
    with pytest.raises(DesignError, match="KNeighborsClassifier takes no sample weights"):
        fit_stage(W, StageSettings(KNeighborsClassifier()))
    with pytest.raises(FitError, match="RandomForestClassifier failed to fit 120 rows x 4 columns"):
        fit_stage(None, StageSettings(RandomForestClassifier(n_estimators=-1)))


def test_a_set_has_one_model_whatever_the_order_and_the_batch() -> None:
    """The model of a column set, fitted alone in any order or in a batch with others, is the same to the last bit."""
    fitter = StageFitter(X, Y, 2, W, StageSettings())
    alone, turned = fitter.fit(np.array([1, 3])), fitter.fit(np.array([3, 1]))
    batch = fitter.fit_batch(np.array([[True, True, True, False], [False, True, False, True]]), workers=2).model(1)
    assert isinstance(alone, LogisticModel)
    assert isinstance(turned, LogisticModel)
    assert np.array_equal(alone.coef, batch.coef)
    assert np.array_equal(alone.coef, turned.coef[:, ::-1])
    assert np.array_equal(alone.intercept, turned.intercept)


def test_only_logistic_regressions_come_in_batches() -> None:
    """Another classifier is fitted one set at a time."""
    with pytest.raises(DesignError, match="one set at a time"):
        StageFitter(X, Y, 2, None, StageSettings(RandomForestClassifier(3))).fit_batch(np.ones((1, 4), dtype=bool), workers=1)
