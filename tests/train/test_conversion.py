"""Which classifiers convert, and which are refused: this list is the documentation.

Every one is tried with two labels and with three. A classifier that converts agrees with its own `predict_proba` on rows that
training did not see: within 1e-9 where its operators have float64 kernels, within 1e-5 where they are float32 (trees, ...).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from emsco_runtime.bundle.manifest import Feature
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.stage_settings import StageSettings
from emsco_train.errors import ConversionError
from emsco_train.models.conversion import convert_stage, stage_scorer
from emsco_train.models.stage_model import ClassifierModel, StageFitter

# Much of it repeats what other tests have counted.
pytestmark = pytest.mark.uncounted

TWO_MODELS = [("one", LogisticRegression()), ("two", GaussianNB())]

DOUBLE = [
    CalibratedClassifierCV(LinearSVC(), cv=3),
    GaussianNB(),
    HistGradientBoostingClassifier(max_iter=5),
    KNeighborsClassifier(),
    LogisticRegression(),
    MLPClassifier((5,), max_iter=2000, solver="lbfgs"),
    QuadraticDiscriminantAnalysis(reg_param=0.1),
    SGDClassifier(loss="log_loss"),
    StackingClassifier(TWO_MODELS, cv=3),
    VotingClassifier(TWO_MODELS, voting="soft", flatten_transform=False),
    make_pipeline(StandardScaler(), GaussianNB()),
]
FLOAT = [
    AdaBoostClassifier(n_estimators=10),
    BaggingClassifier(n_estimators=5),
    BernoulliNB(),
    DecisionTreeClassifier(),
    ExtraTreesClassifier(10),
    GradientBoostingClassifier(n_estimators=10),
    RandomForestClassifier(10),
]
REFUSED = [
    (DummyClassifier(), "both", "MissingShapeCalculator"),
    (GaussianProcessClassifier(), "binary", "com.microsoft"),
    (GaussianProcessClassifier(), "three", "Only binary"),
    (LinearDiscriminantAnalysis(), "binary", r"differ from predict_proba by up to 0\.\d+"),
    (VotingClassifier(TWO_MODELS, voting="soft"), "both", "flatten_transform"),
]


def fit_classifier(classifier: Any, labels: int) -> tuple[BlockEncoder, ClassifierModel, np.ndarray, np.ndarray]:
    """Fit on every other row of a real table; return encoder, model, these rows and the others."""
    x, y = {2: load_breast_cancer, 3: load_wine}[labels](return_X_y=True)
    x = x[:, :8]
    encoder = BlockEncoder.fit([Feature(name=f"x{i}", kind="numeric", cost=1.0) for i in range(8)], x[::2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether it converged does not matter here
        model = StageFitter(encoder.transform(x[::2]), y[::2], labels, None, StageSettings(classifier)).fit(np.arange(8))
    assert isinstance(model, ClassifierModel)
    return encoder, model, x[::2], x[1::2]


def classifier_name(classifier: Any) -> str:
    """Name a case by its class."""
    return type(classifier).__name__


def deviation(classifier: Any, labels: int) -> float:
    """Return the largest difference between graph and `predict_proba` on rows that training did not see."""
    encoder, model, train, new = fit_classifier(classifier, labels)
    scorer = stage_scorer(convert_stage(encoder, model, train), 8, labels)
    scores = np.array([scorer.score(0, row) for row in new.tolist()])
    return float(np.abs(scores - model.probabilities(encoder.transform(new))).max())


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("classifier", DOUBLE, ids=classifier_name)
def test_converts_in_double(classifier: Any, labels: int) -> None:
    """These keep float64 all the way."""
    assert deviation(classifier, labels) < 1e-9


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("classifier", FLOAT, ids=classifier_name)
def test_converts_in_float(classifier: Any, labels: int) -> None:
    """These work in float32 inside; scikit-learn's trees do so too."""
    assert deviation(classifier, labels) < 1e-5


def test_linear_discriminant_converts_with_three_labels() -> None:
    """Only its two-label form is converted wrongly."""
    assert deviation(LinearDiscriminantAnalysis(), 3) < 1e-9


@pytest.mark.parametrize(
    ("classifier", "labels", "reason"),
    [
        pytest.param(classifier, labels, reason, id=f"{classifier_name(classifier)}-{labels}")
        for classifier, when, reason in REFUSED
        for labels in ([2, 3] if when == "both" else [2] if when == "binary" else [3])
    ],
)
def test_refused(classifier: Any, labels: int, reason: str) -> None:
    """These cannot be converted: the error names the classifier, what was wrong in each precision, and the remedy."""
    encoder, model, train, _ = fit_classifier(classifier, labels)
    name = classifier_name(classifier)
    found = rf"double: .*{reason}.*float: .*Choose a classifier that converts"
    message = f"{name} cannot be converted to ONNX with equal probabilities: {found}"
    with pytest.raises(ConversionError, match=message):
        convert_stage(encoder, model, train)


def test_wrong_scores_are_never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN instead of probabilities counts as an infinite deviation, and an error without a text is still reported."""
    encoder, model, train, _ = fit_classifier(GaussianNB(), 2)
    monkeypatch.setattr(ClassifierModel, "probabilities", lambda self, encoded: np.full((len(encoded), 2), np.nan))
    with pytest.raises(ConversionError, match="by up to inf"):
        convert_stage(encoder, model, train)

    def fail(*_: Any) -> bytes:
        raise RuntimeError

    monkeypatch.setattr("emsco_train.models.conversion.classifier_graph", fail)
    with pytest.raises(ConversionError, match="RuntimeError: no message"):
        convert_stage(encoder, model, train)
