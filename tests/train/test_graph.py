"""Stage graphs: the same numbers as scikit-learn, in float64, in a form that any onnxruntime reads."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from emsco_runtime.bundle.manifest import Feature
from emsco_train.data.encoder import BlockEncoder
from emsco_train.models.conversion import stage_scorer
from emsco_train.models.graph import INPUT, OUTPUT, classifier_graph, logistic_graph
from emsco_train.models.logistic.regression import LogisticModel
from emsco_train.models.stage_model import ClassifierModel
from tests.train.single_fit import fit_logistic

LOADERS = {2: load_breast_cancer, 3: load_wine, 10: load_digits}


def numeric(count: int, missing: str = "forbid") -> list[Feature]:
    """Return numeric features x0, x1, ..."""
    return [Feature(name=f"x{index}", kind="numeric", cost=1.0, missing=missing) for index in range(count)]


def score_both_ways(content: bytes, codes: np.ndarray, labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of a graph, of all rows at once and of each alone."""
    scorer = stage_scorer(content, codes.shape[1], labels)
    return scorer.score_rows(0, codes), np.array([scorer.score(0, row) for row in codes.tolist()])


@pytest.mark.parametrize("labels", [2, 3, 10])
def test_numbers_equal_predict_proba(labels: int) -> None:
    """With raw numbers in, the graph gives what a scaler and a fitted LogisticRegression give, to 1e-14."""
    x, y = LOADERS[labels](return_X_y=True)
    x, y = x[:600, :15], y[:600]
    encoder = BlockEncoder.fit(numeric(x.shape[1]), x)
    twin = make_pipeline(StandardScaler(), LogisticRegression(solver="newton-cholesky", tol=1e-12)).fit(x, y)
    coef, intercept = twin[-1].coef_, twin[-1].intercept_
    if labels == 2:
        coef, intercept = np.vstack([-coef, coef]) / 2, np.concatenate([-intercept, intercept]) / 2
    batch, single = score_both_ways(logistic_graph(encoder, LogisticModel(coef, intercept)), x, labels)
    wanted = twin.predict_proba(x)
    assert np.abs(batch - wanted).max() < 1e-14
    assert np.abs(single - wanted).max() < 1e-14


def mixed(rows: int, seed: int) -> tuple[list[Feature], np.ndarray]:
    """Return features of all kinds with their codes; some are gaps, some categories unknown."""
    rng = np.random.default_rng(seed)
    features = [
        Feature(name="c1", kind="categorical", categories=("a", "b", "c"), cost=1.0, missing="impute", unknown="ignore"),
        Feature(name="n1", kind="numeric", cost=1.0, missing="impute"),
        Feature(name="c2", kind="categorical", categories=("p", "q"), cost=1.0),
        Feature(name="b1", kind="boolean", cost=1.0, missing="impute"),
        Feature(name="n2", kind="numeric", cost=1.0),
    ]
    codes = np.column_stack(
        [
            rng.integers(-1, 3, rows),
            rng.normal(1e6, 1.0, rows),
            rng.integers(0, 2, rows),
            rng.integers(0, 2, rows),
            rng.normal(0.0, 1e-6, rows),
        ]
    ).astype(np.float64)
    for column in (0, 1, 3):
        codes[rng.random(rows) < 0.2, column] = np.nan
    return features, codes


@pytest.mark.parametrize("names", [["c1", "n1", "c2", "b1", "n2"], ["c1", "c2"], ["c2"], ["b1"], ["n2", "c1"], ["n1", "n2"]])
@pytest.mark.parametrize("labels", [2, 4])
def test_mixed_features(names: list[str], labels: int) -> None:
    """Gaps, categories and unknown ones go through the graph as they go through the encoder and the model."""
    features, codes = mixed(200, 5)
    y = np.random.default_rng(6).integers(0, labels, 200)
    encoder = BlockEncoder.fit(features, np.where(codes == -1.0, 0.0, codes))
    part, chosen = encoder.select(names), codes[:, encoder.positions(names)]
    model = fit_logistic(part.transform(chosen), y, labels)
    wanted = model.probabilities(part.transform(chosen))
    for scores in score_both_ways(logistic_graph(part, model), chosen, labels):
        assert np.abs(scores - wanted).max() < 1e-14


def test_tails_are_exact() -> None:
    """Log-odds of 700 leave the small probability its digits: 1 - p would have lost it."""
    encoder = BlockEncoder.fit(numeric(1), np.array([[-1.0], [1.0]]))
    model = LogisticModel(np.array([[-350.0], [350.0]]), np.zeros(2))
    scores, _ = score_both_ways(logistic_graph(encoder, model), np.array([[-1.0], [1.0]]), 2)
    assert scores[0, 1] == pytest.approx(np.exp(-700.0), rel=1e-12)
    assert scores[1].tolist() == [pytest.approx(np.exp(-700.0), rel=1e-12), 1.0]


@pytest.mark.parametrize("labels", [2, 3, 10])
def test_agrees_with_skl2onnx(labels: int) -> None:
    """skl2onnx's own float64 graph of the same model, where it runs, says the same."""
    x, y = LOADERS[labels](return_X_y=True)
    x, y = x[:300, :10], y[:300]
    encoder = BlockEncoder.fit(numeric(10), x)
    twin = LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(encoder.transform(x), y)
    ours = logistic_graph(encoder, fit_logistic(encoder.transform(x), y, labels))
    theirs = classifier_graph(encoder, ClassifierModel(twin), labels, "double")
    assert np.abs(score_both_ways(ours, x, labels)[0] - score_both_ways(theirs, x, labels)[0]).max() < 1e-9


@pytest.mark.parametrize("names", [["n1", "n2"], ["c1", "c2"], ["c1", "n1", "c2", "b1", "n2"]])
def test_encoding_for_other_classifiers(names: list[str]) -> None:
    """In front of a converted classifier, the graph builds the encoded matrix itself."""
    features, codes = mixed(150, 8)
    y = np.arange(150) % 2
    encoder = BlockEncoder.fit(features, np.where(codes == -1.0, 0.0, codes)).select(names)
    chosen = codes[:, [feature.name in names for feature in features]]
    encoder = encoder.select([feature.name for feature in features if feature.name in names])
    network = MLPClassifier((4,), max_iter=5000, solver="lbfgs", random_state=0).fit(encoder.transform(chosen), y)
    content = classifier_graph(encoder, ClassifierModel(network), 2, "double")
    wanted = network.predict_proba(encoder.transform(chosen))
    for scores in score_both_ways(content, chosen, 2):
        assert np.abs(scores - wanted).max() < 1e-12


def test_form_of_the_file() -> None:
    """One float64 input, one float64 output, old operators only, sound by onnx's own checker."""
    x, y = load_wine(return_X_y=True)
    encoder = BlockEncoder.fit(numeric(13), x)
    forest = RandomForestClassifier(3, random_state=0).fit(encoder.transform(x), y)
    logistic = logistic_graph(encoder, fit_logistic(encoder.transform(x), y, 3))
    for content in (logistic, classifier_graph(encoder, ClassifierModel(forest), 3, "float")):
        model = onnx.load_from_string(content)
        onnx.checker.check_model(model, full_check=True)
        assert (model.ir_version, model.producer_name) == (8, "emsco")
        assert {opset.domain: opset.version for opset in model.opset_import} == {"": 17, "ai.onnx.ml": 3}
        assert [port.name for port in model.graph.input] == [INPUT]
        assert [port.name for port in model.graph.output] == [OUTPUT]
        assert {node.op_type for node in model.graph.node}.isdisjoint({"ZipMap", "ArrayFeatureExtractor", "LinearClassifier"})


@pytest.mark.parametrize("classifier", [RandomForestClassifier(3, random_state=0), KNeighborsClassifier(3)])
def test_same_model_same_bytes(classifier: RandomForestClassifier | KNeighborsClassifier) -> None:
    """A graph depends on nothing but the model: converters that count their names over the process are renumbered."""
    x, y = load_wine(return_X_y=True)
    encoder = BlockEncoder.fit(numeric(13), x)
    fitted = ClassifierModel(classifier.fit(encoder.transform(x), y))
    precision = "double" if isinstance(classifier, KNeighborsClassifier) else "float"
    assert classifier_graph(encoder, fitted, 3, precision) == classifier_graph(encoder, fitted, 3, precision)
    model = fit_logistic(encoder.transform(x), y, 3)
    assert logistic_graph(encoder, model) == logistic_graph(encoder, model)


def test_trees_are_not_converted_in_double() -> None:
    """float64 values against float32 thresholds would go astray on rows that training did not see."""
    x, y = load_wine(return_X_y=True)
    encoder = BlockEncoder.fit(numeric(13), x)
    forest = RandomForestClassifier(3, random_state=0).fit(encoder.transform(x), y)
    with pytest.raises(NotImplementedError, match="trees compare in float32"):
        classifier_graph(encoder, ClassifierModel(forest), 3, "double")
