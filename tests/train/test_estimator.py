"""`EmscoClassifier`: what scikit-learn expects of a classifier, and what only a cascade has."""

# ruff: noqa: N806 - X is scikit-learn's name
from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from emsco_runtime import AcquisitionError, BundleError, Cascade
from emsco_train.costs.cost_model import CostGroup, CostModel
from emsco_train.data.features import FeatureOptions
from emsco_train.data.splits import Shares
from emsco_train.errors import (
    CertificationError,
    CertifyUseWarning,
    ConfidenceWarning,
    DataError,
    DesignError,
    FewGroupsWarning,
    SelectionError,
    VerificationError,
)
from emsco_train.estimator import classifier
from emsco_train.estimator.classifier import EmscoClassifier
from emsco_train.estimator.input_validation import resolve_workers
from emsco_train.search.searches import run_exhaustive
from emsco_train.search.settings import Settings
from emsco_train.support.numbers import worker_count

# Much of it repeats what other tests have counted.
pytestmark = pytest.mark.uncounted

HALVES = Shares(0.5, 0.5, 0.0, 0.0)
NAMES = ["mean radius", "mean texture", "mean smoothness", "mean symmetry", "worst concavity", "worst area"]


class TwoLabels(EmscoClassifier):
    """The same, claiming to know two labels only: the checks then give their smallest tables enough rows of each."""

    def __sklearn_tags__(self) -> Any:
        """Say so."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


_WEIGHT = "a repeated row may be dealt to another split than the one it repeats, and one without weight still is in one"
ALWAYS = {
    "check_sample_weight_equivalence": _WEIGHT,
    "check_sample_weight_equivalence_on_dense_data": _WEIGHT,
}
PRETENDING = {"check_classifier_not_supporting_multiclass": "the class only claims, for these tests, to know two labels"}


def checked_estimator(kind: type[EmscoClassifier], threshold: float, stages: int) -> EmscoClassifier:
    """Return an estimator that the checks' small tables can be divided for, with a short search."""
    return kind(
        threshold=threshold,
        max_stages=stages,
        shares=HALVES,
        # Cross-fitted once: the checks take long, and the others differ in nothing that folds touch.
        folds=None if kind is EmscoClassifier and stages > 1 else 0,
        stages=None if kind is EmscoClassifier and stages > 1 else "straight",
        search="evolve",
        population=10,
        generations=2,
        n_jobs=1,
        # With so few rows, one feature without meaning may be a design: its model is nothing but ties.
        keep_all=True,
        # Not all checks set one, and one division of their twelve rows in 200 leaves a model of nothing but ties.
        random_state=0,
    )


def expected_failures(estimator: EmscoClassifier) -> dict[str, str]:
    """Return the checks that cannot pass, each with its reason."""
    return ALWAYS | (PRETENDING if isinstance(estimator, TwoLabels) else {})


# A threshold of 0.3 rejects nothing, and one stage takes all features: what is left is a plain classifier.
@pytest.mark.filterwarnings("ignore::emsco_train.errors.ThresholdWarning")
@pytest.mark.filterwarnings("ignore::emsco_train.errors.ConfidenceWarning")
@pytest.mark.filterwarnings("ignore::emsco_train.errors.RareLabelWarning")
@parametrize_with_checks(
    [
        checked_estimator(EmscoClassifier, 0.7, 2),
        checked_estimator(EmscoClassifier, 0.3, 1),
        checked_estimator(TwoLabels, 0.7, 2),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore::emsco_train.TableWarning")  # in the flowers, one column tells two of the labels apart
def test_scikit_learn_checks(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every check of scikit-learn's passes, but for those that are listed above with their reasons."""
    # Without rejections, golden items of all outcomes are looked for in vain.
    monkeypatch.setattr("emsco_train.export.golden_items._MAX_DRAWS", 40)
    try:
        check(estimator)
    except Exception:
        if check.func.__name__ not in expected_failures(estimator):
            raise
        # Without the traceback: showing its frames in scikit-learn's long files takes longer than the check.
        raise AssertionError(check.func.__name__) from None


@pytest.fixture(scope="module")
def cancer() -> tuple[pd.DataFrame, np.ndarray]:
    """Return six columns of the breast cancer data, labels as text."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X[NAMES], np.where(y == 1, "benign", "malignant")


@pytest.fixture(scope="module")
def model(cancer: tuple[pd.DataFrame, np.ndarray]) -> EmscoClassifier:
    """Return a fitted estimator, with made-up costs, and validation rows of their own."""
    costs = CostModel.from_mapping(
        dict(zip(NAMES, [1.0, 1.0, 2.0, 3.0, 5.0, 8.0], strict=True)),
        groups=[CostGroup("worst", 4.0, tuple(NAMES[4:]))],
        unit="EUR",
    )
    return EmscoClassifier(costs=costs, threshold=0.95, max_stages=3, folds=0, random_state=0).fit(*cancer)


def test_fit_sets_what_scikit_learn_and_people_look_at(model: EmscoClassifier) -> None:
    """Labels, names, the front fittest first, and the knee in use; the front is that of the search by itself."""
    assert model.classes_.tolist() == ["benign", "malignant"]
    assert (model.n_features_in_, model.feature_names_in_.tolist()) == (6, NAMES)
    fitness = [design.fitness for design in model.front_]
    assert fitness == sorted(fitness, reverse=True)
    assert model.design_ == model.front_.select() == model.front_.knee
    assert model.front_.fittest == model.front_[0]
    assert model.outcome_.method == "exhaustive"
    assert run_exhaustive(model.problem_, Settings(max_stages=3), jobs=1).front == model.front_


def test_predict_score_coverage_and_cost_are_those_of_the_decisions(
    model: EmscoClassifier, cancer: tuple[pd.DataFrame, np.ndarray]
) -> None:
    """Labels, rejections, probabilities and costs agree with what the cascade decides row by row."""
    X, y = cancer
    decisions = model.decide(X)
    predicted, scores = model.predict(X), model.predict_proba(X)
    accepted = np.array([decision.status == "accepted" for decision in decisions])
    assert predicted.dtype.kind == "U"
    assert predicted.tolist() == [decision.label or "" for decision in decisions]
    assert 0 < accepted.mean() < 1
    assert model.coverage(X) == accepted.mean()
    assert model.score(X, y) == pytest.approx((predicted == y)[accepted].mean())
    assert model.cost(X) == pytest.approx(np.mean([decision.cost for decision in decisions]))
    expected = [[decision.probabilities[label] for label in model.classes_] for decision in decisions]
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-12)
    weights = np.arange(len(X))
    assert model.score(X, y, weights) == pytest.approx(np.average((predicted == y)[accepted], weights=weights[accepted]))
    direct = [model.cascade_.decide(row) for row in X.head(20).to_dict("records")]
    assert [(one.label, one.cost, one.stages) for one in direct] == [
        (decision.label, decision.cost, decision.stages) for decision in decisions[:20]
    ]


def test_score_is_zero_when_nothing_is_accepted(model: EmscoClassifier, cancer: tuple[pd.DataFrame, np.ndarray]) -> None:
    """No accepted row, no accuracy; and weights must be one per row."""
    X, y = cancer
    rejected = np.flatnonzero(model.predict(X) == "")
    assert model.score(X.iloc[rejected], y[rejected]) == 0.0
    with pytest.raises(DataError, match="sample_weight has shape"):
        model.score(X, y, [1.0])


def test_the_figures_of_a_design_are_those_of_its_cascade_and_of_its_bundle(
    model: EmscoClassifier, cancer: tuple[pd.DataFrame, np.ndarray], tmp_path: Path
) -> None:
    """On the validation rows, search, cascade in memory, export and the bundle that is loaded again count the same."""
    X, y = cancer
    problem = model.problem_
    rows, truth = X.iloc[problem.validation.rows], y[problem.validation.rows]
    model, other = clone(model).set_params(certify_uses=3).fit(X, y), clone(model).fit(X, y)
    for number, design in enumerate([model.front_[0], model.front_[-1], model.front_.select(min_accuracy=0.99, sure=None)]):
        other.use(design)
        figures = (other.coverage(rows), other.score(rows, truth), other.cost(rows))
        assert figures == pytest.approx((design.coverage, design.accuracy, design.cost), rel=1e-12)
        export = model.export(tmp_path / str(number), design, split="validation", name="cancer", version="7")
        expected = export.expected
        assert expected.accepted / expected.rows == design.coverage
        assert expected.right / expected.accepted == design.accuracy
        assert expected.cost.mean == pytest.approx(design.cost, rel=1e-12)
        loaded = Cascade.load(tmp_path / str(number))
        assert loaded.manifest.name == "cancer"
        labels = [label or "" for label in loaded.decide_columns(X).label]
        assert labels == other.predict(X).tolist()
        assert loaded.bundle.models == other.cascade_.bundle.models


def test_export_takes_the_design_in_use_and_the_test_rows(model: EmscoClassifier, tmp_path: Path) -> None:
    """By default: the knee of the front, with figures on rows that nothing has seen; other splits by name."""
    export = model.export(tmp_path / "a")
    assert (export.expected.split, export.expected.rows) == ("test", len(model.problem_.test or ()))
    assert [stage.acquire for stage in export.bundle.manifest.stages] == list(model.design_.stages)
    assert model.export(tmp_path / "a", split="certify", force=True).expected.split == "certify"
    with pytest.raises(DesignError, match="split is 'train': expected one of validation, test, certify"):
        model.export(tmp_path / "b", split="train")


@pytest.mark.parametrize(("folds", "split"), [(0, "validation"), (None, "cross-fitted again"), (3, "cross-fitted again")])
def test_without_test_rows_the_figures_of_the_search_are_used(
    cancer: tuple[pd.DataFrame, np.ndarray], tmp_path: Path, folds: int | None, split: str
) -> None:
    """Shares without a test split still export; weights of rows and labels are recorded and used again."""
    X, y = cancer
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    fitted = EmscoClassifier(max_stages=2, shares=HALVES, folds=folds, random_state=1, C=0.5, class_weight={"benign": 1.04}).fit(
        X, y, weights
    )
    export = fitted.export(tmp_path / "bundle")
    assert export.expected.split == split
    assert export.expected.rows == (len(X) // 2 if folds == 0 else len(X))
    weighted = export.expected.weighted
    assert weighted is not None
    # Other folds than those of the choice have nearly the same figures.
    tolerance = 0.0 if folds == 0 else 0.05
    assert weighted.right / weighted.accepted == pytest.approx(fitted.design_.accuracy, abs=tolerance, rel=0.0)
    assert weighted.accepted / weighted.units == pytest.approx(fitted.design_.coverage, abs=tolerance, rel=0.0)
    assert export.bundle.models == fitted.cascade_.bundle.models
    recorded = export.bundle.manifest.provenance.settings
    assert (recorded["C"], recorded["sample_weight"], recorded["class_weight"]) == (0.5, True, {"benign": 1.04})


def test_cross_fitted_by_default(cancer: tuple[pd.DataFrame, np.ndarray], tmp_path: Path) -> None:
    """Train and validation rows are one pool in five folds; the design in use, and its export, are fitted on all of it."""
    X, y = cancer
    groups = np.arange(len(X)) // 2
    fitted = EmscoClassifier(max_stages=2, threshold=0.8, random_state=0).fit(X, y, groups=groups)
    problem = fitted.problem_
    assert (problem.folds, len(problem.parts), problem.validation.name) == (5, 5, "cross-fitted")
    assert len(problem.train) == len(problem.validation) == len(X) - len(problem.test or ()) - len(problem.certify or ())
    for part in problem.parts:
        assert not set(groups[part.fitted.rows]) & set(groups[part.scored.rows])
    export = fitted.export(tmp_path / "bundle", split="validation")
    assert (export.expected.split, export.expected.rows) == ("cross-fitted again", len(problem.train))
    plain = EmscoClassifier(max_stages=2, threshold=0.8, folds=0, random_state=0).fit(X, y, groups=groups)
    names = [split.name for split in plain.problem_.splits()]
    assert (plain.problem_.folds, names) == (0, ["train", "validation", "test", "certify"])
    with pytest.raises(DesignError, match="folds is 1"):
        EmscoClassifier(folds=1).fit(X, y)


def test_low_thresholds_are_reported_once(cancer: tuple[pd.DataFrame, np.ndarray], tmp_path: Path) -> None:
    """The fit warns at the user's own line; an export of what was fitted does not say it again."""
    with pytest.warns(UserWarning, match="at or below 1 / 2 labels") as caught:
        fitted = EmscoClassifier(threshold=0.5, max_stages=1, random_state=0).fit(*cancer)
    assert caught[0].filename == __file__
    fitted.export(tmp_path / "bundle")


def test_same_random_state_same_front(cancer: tuple[pd.DataFrame, np.ndarray]) -> None:
    """A seed, and a generator that draws the same one, repeat a fit whatever the threads; another seed may not."""
    X, y = cancer
    base = EmscoClassifier(max_stages=2, search="evolve", population=40, generations=5, random_state=3, n_jobs=1)
    fits = [clone(base).set_params(n_jobs=jobs).fit(X, y) for jobs in (1, 2, -1)]
    assert fits[0].front_ == fits[1].front_ == fits[2].front_
    drawn = [clone(base).set_params(random_state=np.random.RandomState(5)).fit(X, y).front_ for _ in range(2)]
    assert drawn[0] == drawn[1] != fits[0].front_


def test_pipelines_cross_validation_and_pickles(model: EmscoClassifier, cancer: tuple[pd.DataFrame, np.ndarray]) -> None:
    """A step of a pipeline, a subject of cross-validation, and the same answers after a pickle."""
    X, y = cancer
    line = Pipeline([("same", FunctionTransformer()), ("cascade", EmscoClassifier(max_stages=2, random_state=0))])
    assert (line.fit(X, y).predict(X) == line[-1].predict(X)).all()
    line.set_params(cascade__threshold=0.99)
    assert cross_val_score(line, X, y, cv=2).min() > 0.9
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(X) == model.predict(X)).all()
    assert again.front_ == model.front_


def table(rows: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a frame of numbers with gaps, categories, booleans, and labels of three kinds."""
    rng = np.random.default_rng(0)
    size = rng.normal(size=rows)
    kind = rng.choice(["a", "b", "c"], rows)
    seen = rng.random(rows) < 0.5
    y = np.digitize(size + (kind == "a") + seen + 0.3 * rng.normal(size=rows), [0.3, 1.2])
    frame = pd.DataFrame({"size": size, "kind": pd.Categorical(kind), "seen": seen, "noise": rng.normal(size=rows)})
    frame.loc[::10, "size"] = np.nan
    return frame, y


def test_frames_with_categories_and_gaps(tmp_path: Path) -> None:
    """Gaps are filled, categories are columns, three labels are three; whole numbers are rejected as -1."""
    X, y = table()
    fitted = EmscoClassifier(keep_all=True, threshold=0.6, random_state=0).fit(X, y)
    predicted = fitted.predict(X)
    assert predicted.dtype.kind == "i"
    assert set(predicted.tolist()) == {-1, 0, 1, 2}
    assert {feature.name: feature.kind for feature in fitted.problem_.features}["kind"] == "categorical"
    assert fitted.predict_proba(X).shape == (len(X), 3)
    options = {"kind": FeatureOptions(unknown="ignore"), "noise": FeatureOptions(fallback=None, missing="impute")}
    lenient = clone(fitted).set_params(features=options).fit(X, y)
    assert lenient.decide(X.head(1).assign(kind="d"))[0].status in {"accepted", "rejected"}
    exported = lenient.export(tmp_path / "bundle", split="validation")
    assert exported.bundle.models == lenient.cascade_.bundle.models
    features = {feature.name: feature for feature in lenient.problem_.features}
    assert all(feature == features[feature.name] for feature in exported.bundle.manifest.features)


@pytest.mark.filterwarnings("ignore:no row of the label")
def test_mappings_arrays_and_frames_are_the_same_rows() -> None:
    """The form of the rows changes nothing; a mapping may have its columns in any order, and more of them."""
    X, y = table()
    numbers = X[["size", "noise"]]
    by_frame = EmscoClassifier(random_state=0).fit(numbers, y)
    mapping = {name: numbers[name].to_numpy() for name in reversed(numbers.columns)}
    by_mapping = EmscoClassifier(random_state=0).fit(dict(reversed(mapping.items())), y.tolist())
    assert by_mapping.feature_names_in_.tolist() == ["size", "noise"]
    assert by_mapping.front_ == by_frame.front_
    assert (by_mapping.predict(mapping | {"more": y}) == by_frame.predict(numbers)).all()
    by_array = EmscoClassifier(random_state=0).fit(numbers.to_numpy(), y)
    assert not hasattr(by_array, "feature_names_in_")
    assert (by_array.predict(numbers.to_numpy()) == by_frame.predict(numbers)).all()
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert (by_frame.predict(numbers.to_numpy()) == by_frame.predict(numbers)).all()
    with pytest.raises(DataError, match="no column 'noise'"):
        by_mapping.predict({"size": [1.0]})
    with pytest.raises(ValueError, match="feature names should match"):
        by_frame.predict(numbers[["noise", "size"]])
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        by_array.predict(csr_array(numbers.fillna(0).to_numpy()))
    # A new fit forgets the names of the last one.
    by_array.fit(dict.fromkeys("ab", numbers["size"]), y)
    assert by_array.feature_names_in_.tolist() == ["a", "b"]


def test_groups_stay_together(cancer: tuple[pd.DataFrame, np.ndarray]) -> None:
    """Rows with equal groups are in one split."""
    X, y = cancer
    groups = np.arange(len(X)) // 3
    fitted = EmscoClassifier(max_stages=1, random_state=0).fit(X, y, groups=groups)
    parts = [set(groups[split.rows]) for split in fitted.problem_.splits()]
    assert sum(map(len, parts)) == len(set(groups))


def test_a_gap_in_any_row_is_allowed() -> None:
    """One missing value, in whichever split it falls: the fit passes with every seed, and so do rows with a gap there later."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    y = np.where(X["a"] + X["b"] > 0, "yes", "no")
    X.loc[7, "b"] = np.nan
    for seed in range(4):
        model = EmscoClassifier(stages="straight", folds=0, shares=HALVES, max_stages=1, random_state=seed).fit(X, y)
        assert model.problem_.features[1].missing == "impute"
        assert model.problem_.features[0].missing == "forbid"
    with pytest.raises(DataError, match='missing="forbid"'):
        EmscoClassifier(features={"b": FeatureOptions(missing="forbid")}, random_state=0).fit(X, y)


def test_a_gap_that_the_fit_had_none_of_is_explained() -> None:
    """The error names the row, the feature, and the option of the estimator that allows gaps."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    y = np.where(X["a"] + X["b"] > 0, "yes", "no")
    model = EmscoClassifier(stages="straight", keep_all=True, max_stages=1, random_state=0).fit(X, y)
    X.loc[7, "b"] = np.nan
    for method in (model.predict, model.predict_proba, model.decide, model.coverage):
        with pytest.raises(AcquisitionError, match=r"^item 7: feature 'b' \(stage 1\): the value is missing") as caught:
            method(X)
        assert str(caught.value).endswith("fill it, or fit with `features={'b': FeatureOptions(missing='impute')}`")


def test_what_cannot_be_scored() -> None:
    """Labels in another form than those of the fit, and weights that are none, are errors and no score of 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(X.sum(axis=1) > 0, "yes", "no")
    model = EmscoClassifier(stages="straight", max_stages=1, random_state=0).fit(X, y)
    with pytest.raises(DataError, match=r"^y has the labels 0, 1, but the model was fitted with 'no', 'yes'"):
        model.score(X, y == "yes")
    assert model.score(X, np.where(np.arange(300) < 150, "other", y)) < 1
    for weights, message in ((-1.0, "row 0: -1.0 is not a weight"), (np.nan, "row 0: nan is not"), ("x", "one number per row")):
        with pytest.raises(DataError, match=message):
            model.score(X, y, sample_weight=[weights] * 300)


def test_dates_are_refused_with_what_to_make_of_them() -> None:
    """Dates of numpy, of Python and of a frame, with a time zone or without."""
    days = pd.Series(pd.date_range("2024-01-01", periods=300))
    y = np.arange(300) % 2
    for when in (days, days.dt.tz_localize("UTC"), days.to_numpy(), [None, *days.dt.date[1:]]):
        with pytest.raises(DataError, match=r"column 'when' holds dates .*: make it a number, such as days since a date"):
            EmscoClassifier().fit(pd.DataFrame({"a": np.arange(300.0), "when": when}), y)


@pytest.mark.parametrize(
    ("search", "advice"), [("exhaustive", "relax one of them"), ("evolve", "relax one of them, or search longer")]
)
def test_longer_searches_are_advised_where_they_may_help(search: Any, advice: str) -> None:
    """A complete search has seen all designs: to search longer would find no other."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = np.where(X.sum(axis=1) > 0, "yes", "no")
    model = EmscoClassifier(search=search, generations=2, population=10, stages="straight", max_cost=0.5, random_state=0)
    with pytest.raises(SelectionError, match=f": {advice}$"):
        model.fit(X, y)


def test_groups_that_are_too_few_are_said(cancer: tuple[pd.DataFrame, np.ndarray], tmp_path: Path) -> None:
    """Two groups leave no test and certify rows: a warning says so, and a guarantee is refused with the reason."""
    X, y = cancer
    model = EmscoClassifier(max_stages=1, random_state=0)
    with pytest.warns(FewGroupsWarning, match="^2 groups: too few for test and certify rows, of which there are none"):
        model.fit(X, y, groups=np.arange(len(X)) % 2)
    assert model.problem_.test is model.problem_.certify is None
    with pytest.raises(
        DesignError, match=r"there are no certify rows.*; of few groups, which are never divided, none may be left"
    ):
        model.export(tmp_path / "bundle", max_error=0.1)
    with pytest.raises(DataError, match="are in one group, which is never divided"):
        model.fit(X, y, groups=np.zeros(len(X)))


def test_a_design_of_free_features_is_one_like_others(tmp_path: Path) -> None:
    """Where free features are enough, the cheapest design bills nothing, and is exported and decides as any other."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "c"])
    target = (frame["a"] + frame["b"] > 0).astype(int)
    model = EmscoClassifier(costs=[0, 0, 5], threshold=0.7, random_state=0, stages="straight").fit(frame, target)
    model.use(model.select(min_accuracy=0.8, min_coverage=0.7))
    assert model.design_.cost == model.cost(frame) == 0
    assert model.export(tmp_path / "bundle").bundle.manifest.features[0].cost == 0


def test_select_what_matches_everything() -> None:
    """Instead of floors, at any level: the cheapest that decides nearly as all features at once do; not beside floors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = X @ [2.0, 1.0, 0.2] + rng.normal(size=600) > 0
    model = EmscoClassifier(threshold=0.8, random_state=0, costs=[1, 2, 9]).fit(X, y)
    costs = [model.select(match_everything=0.1, sure=sure).cost for sure in (None, 0.85, 0.9)]
    assert costs == sorted(costs)
    assert costs[0] < costs[2] < 12
    chosen = model.use(model.select(match_everything=0.1, sure=None))
    assert chosen.design_.stages != (("x0", "x1", "x2"),)
    assert set(chosen.predict(X).tolist()) == {-1, 0, 1}
    with pytest.raises(DesignError, match="`match_everything` was given together with other criteria: give one or the other"):
        model.select(match_everything=0.1, min_coverage=0.5)


def test_labels_of_numbers_and_text() -> None:
    """Mixed labels are returned as they are, in an array of objects; rejections are -1."""
    X, y = table()
    mixed = [["no", 1, "yes"][label] for label in y]
    fitted = EmscoClassifier(keep_all=True, threshold=0.6, random_state=0).fit(X, mixed)
    assert fitted.classes_.tolist() == [1, "no", "yes"]
    assert set(fitted.predict(X).tolist()) == {-1, 1, "no", "yes"}


@pytest.mark.parametrize(("reject", "shown"), [("unsure", "unsure"), (9, 9), (None, "")])
def test_the_reject_value(cancer: tuple[pd.DataFrame, np.ndarray], reject: Any, shown: Any) -> None:
    """Text, a number among text, or the default."""
    X, y = cancer
    fitted = EmscoClassifier(keep_all=True, max_stages=1, threshold=0.999, reject_label=reject, random_state=0).fit(X, y)
    assert fitted.reject_label_ == shown
    assert set(fitted.predict(X).tolist()) == {"benign", "malignant", shown}


@pytest.mark.parametrize(("reject", "message"), [(1, "which is also a label"), (0.5, "expected text, a whole number, or None")])
def test_invalid_reject_values(reject: Any, message: str) -> None:
    """Neither a label nor a value of another type can mean a rejection."""
    X, y = table()
    with pytest.raises(DesignError, match=message):
        EmscoClassifier(reject_label=reject, random_state=0).fit(X, y)


def test_labels_of_minus_one_and_one(cancer: tuple[pd.DataFrame, np.ndarray]) -> None:
    """The usual labels of margin classifiers work without an option: rejections are then -2."""
    X, y = cancer
    signs = np.where(y == "benign", 1, -1)
    fitted = EmscoClassifier(keep_all=True, max_stages=1, threshold=0.999, random_state=0).fit(X, signs)
    assert fitted.reject_label_ == -2
    assert set(fitted.predict(X).tolist()) == {-2, -1, 1}


def test_pins_exclusion_and_constraints(cancer: tuple[pd.DataFrame, np.ndarray]) -> None:
    """Pinned features are in the first stage of every design, by name or by position; designs keep to the constraints."""
    X, y = cancer
    fitted = EmscoClassifier(max_stages=3, pinned=["mean symmetry", 0], max_cost=4.0, min_accuracy=0.9, random_state=0).fit(X, y)
    for design in fitted.front_:
        assert {"mean symmetry", "mean radius"} <= set(design.stages[0])
        assert design.cost <= 4
        assert design.accuracy >= 0.9
    # The one in use keeps to them by bounds, by default.
    assert fitted.design_.bounds(0.85).accuracy >= 0.9
    assert fitted.design_.bounds(0.85).cost <= 4
    assert clone(fitted).set_params(sure=None).fit(X, y).design_ == fitted.front_.knee
    with pytest.raises(SelectionError, match=r"with bounds at `sure=0\.9999999`.*rows instead of"):
        clone(fitted).set_params(sure=0.9999999, min_accuracy=0.93).fit(X, y)
    with pytest.raises(
        DesignError, match=r"max_cost is 0\.5, but the pinned features \(mean radius, mean symmetry\), .* cost 2:"
    ):
        clone(fitted).set_params(max_cost=0.5).fit(X, y)
    with pytest.raises(
        SelectionError,
        match=r"satisfies the limits: max_cost is 0\.5, and the cheapest design that was found costs 1 \(0\.5 over\); min_acc",
    ):
        clone(fitted).set_params(max_cost=0.5, pinned=()).fit(X, y)


@pytest.mark.parametrize("method", ["evolve", "exhaustive"])
def test_a_search_on_a_sample_is_measured_on_all_rows(cancer: tuple[pd.DataFrame, np.ndarray], method: Any) -> None:
    """Designs found on few rows have the figures of all validation rows, and none dominates another there."""
    X, y = cancer
    fitted = EmscoClassifier(
        max_stages=2, max_search_rows=60, search=method, population=40, generations=5, shares=HALVES, folds=0, random_state=0
    ).fit(X, y)
    whole = {design.id: design for design in run_exhaustive(fitted.problem_, Settings(max_stages=2), ties="all", jobs=1).front}
    rows = fitted.problem_.validation.rows
    assert fitted.coverage(X.iloc[rows]) == fitted.design_.coverage
    figures = [(design.coverage, design.accuracy, -design.cost) for design in fitted.front_]
    for one in figures:
        assert not any(other != one and all(a >= b for a, b in zip(other, one, strict=True)) for other in figures)
    for design in fitted.front_:
        if design.id in whole:
            assert (design.coverage, design.cost) == (whole[design.id].coverage, whole[design.id].cost)
    assert len(fitted.problem_.train) > 60
    with pytest.raises(SelectionError, match="satisfies"):
        clone(fitted).set_params(min_accuracy=1.0, min_coverage=1.0).fit(X, y)


def test_other_stage_models(cancer: tuple[pd.DataFrame, np.ndarray]) -> None:
    """A tree per stage: the cascade decides as the search counted."""
    X, y = cancer
    tree = DecisionTreeClassifier(max_depth=3)
    fitted = EmscoClassifier(
        classifier=tree, max_stages=2, population=10, generations=2, shares=HALVES, folds=0, random_state=0
    ).fit(X[NAMES[:3]], y)
    assert fitted.outcome_.method == "evolve"
    assert fitted.coverage(X[NAMES[:3]].iloc[fitted.problem_.validation.rows]) == fitted.design_.coverage


def test_verbose_shows_progress(cancer: tuple[pd.DataFrame, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    """The last state and the end, on standard error, for both searches; nothing by default."""
    X, y = cancer
    base = EmscoClassifier(max_stages=2, population=20, generations=3, random_state=0)
    base.fit(X, y)
    assert capsys.readouterr() == ("", "")
    clone(base).set_params(verbose=1, search="evolve").fit(X, y)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-2].startswith("generation 3 of 3, ")
    assert err.splitlines()[-1].startswith("done: ")
    clone(base).set_params(verbose=1).fit(X, y)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-2].startswith("exact search, 100 % of ")
    clone(base).set_params(verbose=1, search="evolve", time_limit=1e-9).fit(X, y)
    assert capsys.readouterr().err.splitlines()[-1].startswith("time limit reached, the front so far is kept: ")


def test_a_time_limit(cancer: tuple[pd.DataFrame, np.ndarray]) -> None:
    """The genetic search keeps what it has; an exact one that would take longer is refused."""
    X, y = cancer
    base = EmscoClassifier(max_stages=3, search="evolve", population=20, time_limit=1e-9, random_state=0)
    assert base.fit(X, y).outcome_.stopped == "time"
    with pytest.raises(DesignError, match="the exact search is too large"):
        clone(base).set_params(search="exhaustive").fit(X, y)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"search": "magic"}, "search is 'magic': expected 'auto', 'evolve' or 'exhaustive'"),
        ({"pinned": ["size", "colour"]}, "pinned holds 'colour', which is not a feature"),
        ({"pinned": "size"}, "pinned is 'size': expected a list of feature names or positions"),
        ({"pinned": [4]}, r"pinned holds \[4\]"),
        ({"pinned": [True]}, "pinned holds True"),
        ({"population": 0}, "population is 0"),
        ({"max_stages": 9}, "max_stages is 9"),
        ({"n_jobs": 0}, "n_jobs is 0: expected a whole number other than 0"),
        ({"n_jobs": 1.5}, "n_jobs is 1.5"),
        ({"random_state": -1}, "random_state is -1: expected a whole number, 0 or more"),
        ({"time_limit": -1}, "time_limit is -1"),
        ({"time_limit": "1 h", "verbose": 1}, "time_limit is '1 h'"),
        ({"costs": {"size": 1}}, "no cost for feature 'kind'"),
        ({"costs": "costs.toml"}, r"costs is 'costs.toml': a file of them is read with `CostModel.from_file\('costs.toml'\)`"),
        ({"threshold": 1.5}, "1.5 for label"),
        ({"max_search_rows": "few"}, "max_search_rows is 'few': expected a whole number of rows, 'auto', or None"),
        ({"max_search_rows": 1}, "sample of 1: expected a whole number of rows"),
        ({"min_accuracy": 2}, "min_accuracy is 2"),
        ({"shares": (0.5, 0.2, 0.1, 0.2)}, r"shares is \(0.5, 0.2, 0.1, 0.2\): expected a `Shares`, such as Shares\(train=0.6"),
        ({"shares": []}, r"shares is \[\]: expected a `Shares`"),
        ({"shares": "0.5,0.2,0.1,0.2"}, "shares is '0.5,0.2,0.1,0.2': expected a `Shares`"),
        ({"shares": {"train": 1.0}}, r"shares is \{'train': 1.0\}: expected a `Shares`"),
        ({"sure": 2}, "sure is 2: expected a number from 0.5 to below 1, or none"),
        ({"features": {"colour": FeatureOptions()}}, "options for"),
    ],
)
def test_settings_that_cannot_be(setting: dict[str, Any], message: str) -> None:
    """One clear error of ours for each, when it is fitted."""
    X, y = table()
    with pytest.raises(DesignError, match=message):
        EmscoClassifier(**({"random_state": 0} | setting)).fit(X, y)


def test_workers_are_counted_as_joblib_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """None and -1 are all cores, -2 all but one, and never fewer than one; numbers of numpy are numbers."""
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert [resolve_workers(n_jobs) for n_jobs in (None, -1, -2, -9, 3, np.int64(1))] == [4, 4, 3, 1, 3, 1]
    assert worker_count(np.int64(2)) == 2


def test_select_and_export_take_the_workers_of_the_estimator(
    model: EmscoClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both fit designs again, on as many threads as `n_jobs` says."""
    used: list[int] = []

    def note_workers(*_: Any, jobs: int, **__: Any) -> Any:
        used.append(jobs)
        raise DesignError("far enough")

    monkeypatch.setattr(classifier, "choose_tuned_design", note_workers)
    monkeypatch.setattr(classifier, "select_tuned_design", note_workers)
    other = copy.copy(model).set_params(n_jobs=3)
    for call in (lambda: other.select(min_accuracy=0.5), lambda: other.export(tmp_path / "bundle", max_error=0.1)):
        with pytest.raises(DesignError, match="far enough"):
            call()
    assert used == [3, 3]


@pytest.mark.filterwarnings("ignore:no row of the label")
def test_designs_of_other_data_are_refused(model: EmscoClassifier) -> None:
    """A design must have the features and labels of the fit."""
    X, y = table()
    fitted = EmscoClassifier(random_state=0).fit(X, y)
    with pytest.raises(DesignError, match="has other features or labels"):
        model.use(fitted.design_)
    with pytest.raises(DesignError, match="design is str: expected a Design"):
        model.export("nowhere", "fittest")  # type: ignore[arg-type]


def test_labels_and_weights_that_cannot_be() -> None:
    """One label, no labels, real numbers, weights that are all zero: refused before any search."""
    X, y = table()
    fit = EmscoClassifier(random_state=0).fit
    with pytest.raises(ValueError, match="requires y to be passed"):
        fit(X, None)
    with pytest.raises(DataError, match="y has only 1 class, the label 0: at least two"):
        fit(X, y * 0)
    with pytest.raises(DataError, match=r"y has only 1 class, the label 0\.0: at least two"):
        fit(X, y * 0.0)
    with pytest.raises(ValueError, match="Unknown label type"):
        fit(X, y + 0.5)
    with pytest.raises(DataError, match="only the label 'a'"):
        fit(X, np.array(["a"] * len(X), dtype=object))
    with pytest.raises(DataError, match="sample_weight is zero for every row"):
        fit(X, y, np.zeros(len(X)))
    with pytest.raises(DataError, match="sample_weight leaves only 1 class"):
        fit(X, y, (y == 1).astype(float))
    with pytest.raises(DataError, match="sample_weight has shape"):
        fit(X, y, [1.0])


def test_an_export_is_certified(tmp_path: Path) -> None:
    """With certify rows the bundle carries a bound; with max_error the design is chosen for it; both at once are refused."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1500, 3))
    truth = rows @ [3.0, 1.0, 1.0] + 0.3 * rng.normal(size=1500) > 0
    model = EmscoClassifier(threshold=0.9, certify_uses=3, random_state=0).fit(rows, truth)
    fixed = model.export(tmp_path / "fixed", confidence=0.9).bundle.manifest.certificate
    assert (fixed.method, fixed.use.confidence, fixed.rows) == ("clopper-pearson", 0.9, 300)
    chosen = model.export(tmp_path / "chosen", max_error=0.1).bundle.manifest.certificate
    assert (chosen.method, chosen.max_error) == ("fixed-sequence", 0.1)
    whole = {"max_error_of": {1: 0.15}, "min_coverage": 0.3, "max_cost": 3.0}
    joint = model.export(tmp_path / "joint", max_error=0.1, **whole).bundle.manifest.certificate
    assert joint.promise.min_coverage == 0.3
    assert joint.promise.max_error_of[0].label == 1
    with pytest.raises(DesignError, match="design and max_error were both given"):
        model.export(tmp_path / "both", model.design_, max_error=0.1)
    with pytest.raises(DesignError, match="min_coverage, min_recall and max_cost are guaranteed together with an error"):
        model.export(tmp_path / "floor", min_coverage=0.3)
    bare = EmscoClassifier(threshold=0.9, random_state=0, shares=Shares(0.5, 0.25, 0.25, 0.0)).fit(rows, truth)
    assert bare.export(tmp_path / "bare").bundle.manifest.certificate is None


def test_uses_of_the_certify_rows_are_counted(tmp_path: Path) -> None:
    """Planned uses share the level, refusals among them; a repetition is none, and a further one says what it is not."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1500, 3))
    truth = rows @ [3.0, 1.0, 1.0] + 0.3 * rng.normal(size=1500) > 0
    model = EmscoClassifier(threshold=0.9, certify_uses=2, random_state=0).fit(rows, truth)
    assert (len(model.certify_uses_), repr(model.certify_uses_)) == (0, "MemoryLedger(0 used, 2 planned)")
    # Nothing of this looks at the certify rows.
    with pytest.raises(CertificationError, match="The certify rows were not looked at"):
        model.export(tmp_path / "none", max_error=0.0001)
    with pytest.raises(DesignError, match="split is 'certify', but the certify rows were used to choose the design"):
        model.export(tmp_path / "none", max_error=0.1, split="certify")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("mine")
    with pytest.raises(BundleError, match="the folder is not empty and holds no bundle"):
        model.export(tmp_path / "full")
    letter = tmp_path / "full" / "letter"
    for target in (letter, letter / "bundle"):
        with pytest.raises(DesignError, match=r"cannot be written: .*letter is not a folder"):
            model.export(target)
    with pytest.raises(DesignError, match="version is '', which a bundle cannot hold"):
        model.export(tmp_path / "none", version="")
    other = EmscoClassifier(threshold=0.9, random_state=1).fit(rows, truth)
    with pytest.raises(VerificationError, match="has other figures"):
        model.export(tmp_path / "none", other.design_)
    assert len(model.certify_uses_) == 0
    first = model.export(tmp_path / "first", max_error=0.1).bundle.manifest
    assert first.certificate.confidence == 0.975
    assert first.certificate.use.model_dump() == {"number": 1, "planned": 2, "confidence": 0.95}
    model.set_params(certify_uses=9)
    model.export(tmp_path / "second")
    again = model.export(tmp_path / "again", max_error=0.1).bundle.manifest
    assert again.certificate == first.certificate
    assert [use.result for use in model.certify_uses_.uses] == ["certified", "certified"]
    with pytest.warns(CertifyUseWarning, match="used 2 times before, 2 uses were planned: the confidence is not held"):
        third = model.export(tmp_path / "third", max_error=0.11).bundle.manifest
    assert third.certificate.use.number == 3
    with pytest.raises(DesignError, match="certify_uses is 0: expected a whole number from 1 to 1,000"):
        EmscoClassifier(certify_uses=0).fit(rows, truth)


def test_expected_figures_without_test_rows(tmp_path: Path) -> None:
    """They come from the certify rows while these are new to the design, and from the rows of the search afterwards."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(900, 3))
    truth = rows @ [3.0, 1.0, 1.0] + 0.3 * rng.normal(size=900) > 0
    for folds, searched in ((0, "validation"), (3, "cross-fitted again")):
        shares = Shares(0.5, 0.2, 0.0, 0.3)
        model = EmscoClassifier(threshold=0.9, certify_uses=2, shares=shares, folds=folds, random_state=0).fit(rows, truth)
        fixed = model.export(tmp_path / f"fixed-{folds}").expected
        assert (fixed.split, fixed.rows) == ("certify", 270)
        chosen = model.export(tmp_path / f"chosen-{folds}", max_error=0.1).expected
        assert chosen.split == searched


def test_a_fit_that_fails_changes_nothing(cancer: tuple[pd.DataFrame, np.ndarray]) -> None:
    """Data that are refused leave the model as it was: its columns, and what it answers instead of a label."""
    X, y = cancer
    model = EmscoClassifier(max_stages=2, population=10, generations=2, random_state=0).fit(
        X[NAMES[:3]], np.where(y == y[0], -1, 0)
    )
    before = model.predict(X[NAMES[:3]])
    with pytest.raises(DataError, match="is not a weight"):
        model.fit(X[NAMES[:2]], y, sample_weight=-np.ones(len(y)))
    assert model.reject_label_ == -2
    assert model.feature_names_in_.tolist() == NAMES[:3]
    assert (model.predict(X[NAMES[:3]]) == before).all()


def test_a_choice_that_fails_keeps_the_search(cancer: tuple[pd.DataFrame, np.ndarray], tmp_path: Path) -> None:
    """Where no design surely satisfies, none is in use, not one of an earlier fit either; another can be chosen."""
    X, y = cancer
    model = EmscoClassifier(max_stages=2, population=10, generations=2, random_state=0).fit(X, y)
    with pytest.raises(SelectionError):
        model.set_params(min_accuracy=0.9, min_coverage=0.1, sure=1 - 1e-12).fit(X[NAMES[:3]], y)
    for call in (model.predict, lambda rows: model.score(rows, y), lambda _: model.export(tmp_path / "bundle")):
        with pytest.raises(NotFittedError):
            call(X[NAMES[:3]])
    assert set(model.use(model.front_[0]).predict(X[NAMES[:3]])) <= {*model.classes_, model.reject_label_}


def test_labels_in_a_frame_of_one_column(cancer: tuple[pd.DataFrame, np.ndarray]) -> None:
    """What `fit` takes, with scikit-learn's warning, `score` takes too: else a cross-validation is all NaN."""
    X, y = cancer
    model = EmscoClassifier(max_stages=2, population=10, generations=2, random_state=0)
    with pytest.warns(DataConversionWarning):
        model.fit(X[NAMES[:3]], pd.DataFrame({"class": y}))
    assert model.score(X[NAMES[:3]], pd.DataFrame({"class": y})) == model.score(X[NAMES[:3]], y) > 0.5


def test_arrays_for_a_frame_with_columns_of_a_vector(cancer: tuple[pd.DataFrame, np.ndarray]) -> None:
    """Columns e[0] and e[1] are one feature, in an array of the same columns, too."""
    X, y = cancer
    frame = X[NAMES[:3]].set_axis(["a", "e[0]", "e[1]"], axis=1)
    model = EmscoClassifier(costs=[1, 5], max_stages=2, population=10, generations=2, random_state=0).fit(frame, y)
    with pytest.warns(UserWarning, match="valid feature names"):
        assert (model.predict(frame.to_numpy()) == model.predict(frame)).all()


def test_options_and_weights_that_cannot_be_meant(cancer: tuple[pd.DataFrame, np.ndarray]) -> None:
    """A dictionary instead of options, and a weight beside which all others vanish."""
    X, y = cancer
    with pytest.raises(DesignError, match=r"options for 'a' are .*: expected FeatureOptions, such as"):
        EmscoClassifier(features={"a": {"kind": "numeric"}}).fit({"a": X[NAMES[0]], "b": X[NAMES[1]]}, y)  # type: ignore[dict-item]
    weights = np.ones(len(y))
    weights[3] = 1e30
    with pytest.raises(DataError, match=r"`sample_weight`, row 3: all other rows together count for nothing beside 1e\+30"):
        EmscoClassifier().fit(X, y, sample_weight=weights)


def test_options_name_boolean_labels_as_the_rows_do(cancer: tuple[pd.DataFrame, np.ndarray]) -> None:
    """True and False are 1 and 0 among the labels, and in thresholds, class weights and floors."""
    X, y = cancer
    model = EmscoClassifier(threshold={True: 0.8, False: 0.7}, max_stages=2, population=10, generations=2, random_state=0)
    model.fit(X[NAMES[:3]], np.asarray(y == y[0]))
    assert model.problem_.thresholds == (0.7, 0.8)
    by_label = model.front_.select(min_recall={1: 0.5})
    assert model.front_.select(min_recall={True: 0.5}).id == by_label.id
    with pytest.warns(ConfidenceWarning):
        model.set_params(class_weight={True: 2, False: 1}).fit(X[NAMES[:3]], np.asarray(y == y[0]))


def test_prices_whose_squares_no_number_holds(cancer: tuple[pd.DataFrame, np.ndarray]) -> None:
    """Bounds on the mean cost are computed all the same."""
    X, y = cancer
    model = EmscoClassifier(costs=[1, 1e200], max_stages=2, population=10, generations=2, random_state=0).fit(X[NAMES[:2]], y)
    assert 0 < model.cost(X[NAMES[:2]]) <= 1e200
