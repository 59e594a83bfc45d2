"""From a fitted stage model to a graph that is checked to give its probabilities.

Logistic stages and boosted trees have a float64 graph of our own. For other classifiers skl2onnx is tried in float64, then in
float32 (scikit-learn's other trees compare in float32 too), and the first graph that agrees with `predict_proba` on the training
rows is kept.
"""

from __future__ import annotations

import numpy as np

from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.support.arrays import Floats
from emsco_train.data.encoder import BlockEncoder
from emsco_train.errors import ConversionError
from emsco_train.models.graph import INPUT, OUTPUT, Precision, classifier_graph, logistic_graph, tree_graph
from emsco_train.models.logistic.regression import LogisticModel
from emsco_train.models.stage_model import ClassifierModel, StageModel
from emsco_train.models.trees.tree_classifier import TreeClassifier

__all__ = ["convert_stage", "stage_scorer"]

_TREE_TOLERANCE = 1e-12
# Of a library that adds up in float32, where we do in float64.
_ROUNDED_TOLERANCE = 1e-5
_TOLERANCES: tuple[tuple[Precision, float], ...] = (("double", 1e-9), ("float", _ROUNDED_TOLERANCE))
_REMEDY = (
    "Choose a classifier that converts: logistic regression, trees, forests, HistGradientBoostingClassifier, MLPClassifier, "
    "GaussianNB or KNeighborsClassifier, for example"
)


def convert_stage(encoder: BlockEncoder, model: StageModel, codes: Floats) -> bytes:
    """Return the ONNX graph of a stage; a converted classifier is compared with `predict_proba` on these codes [rows, inputs].

    Raises
    ------
    ConversionError
        If the classifier has no graph that gives its probabilities.
    """
    if isinstance(model, LogisticModel):
        return logistic_graph(encoder, model)
    expected = model.probabilities(encoder.transform(codes))
    if model.trees is not None:
        return _convert_trees(encoder, model, model.trees, codes, expected)
    failures: list[str] = []
    for precision, tolerance in _TOLERANCES:
        try:
            content, worst = _try_precision(encoder, model, codes, expected, precision)
        except Exception as error:  # noqa: BLE001 - converters and onnxruntime raise errors of any class; the message below has them
            failures.append(f"{precision}: {type(error).__name__}: {_first_line(error)}")
            continue
        if worst <= tolerance:
            return content
        failures.append(f"{precision}: {_describe_difference(worst, tolerance)}")
    raise ConversionError(f"{model.name} cannot be converted to ONNX with equal probabilities: {'; '.join(failures)}. {_REMEDY}")


def stage_scorer(content: bytes, inputs: int, labels: int) -> Scorer:
    """Return a scorer of one stage graph, as stage 0."""
    return Scorer.from_model(content, input=INPUT, output=OUTPUT, width=inputs, labels=labels)


def _convert_trees(
    encoder: BlockEncoder, model: ClassifierModel, trees: TreeClassifier, codes: Floats, expected: Floats
) -> bytes:
    content = tree_graph(encoder, trees)
    checks = [(expected, _TREE_TOLERANCE)]
    if trees.is_rounded:
        checks.append((model.predict(encoder.transform(codes)), _ROUNDED_TOLERANCE))
    for probabilities, tolerance in checks:
        worst = _largest_difference(content, codes, probabilities)
        if worst > tolerance:
            reason = _describe_difference(worst, tolerance)
            raise ConversionError(f"{model.name} cannot be converted to ONNX with equal probabilities: {reason}. {_REMEDY}")
    return content


def _try_precision(
    encoder: BlockEncoder, model: ClassifierModel, codes: Floats, expected: Floats, precision: Precision
) -> tuple[bytes, float]:
    content = classifier_graph(encoder, model, expected.shape[1], precision)
    return content, _largest_difference(content, codes, expected)


def _largest_difference(content: bytes, codes: Floats, expected: Floats) -> float:
    got = stage_scorer(content, codes.shape[1], expected.shape[1]).score_rows(0, codes)
    # NaN is not above any tolerance; infinity is.
    return float(np.nan_to_num(np.abs(got - expected), nan=np.inf).max())


def _describe_difference(worst: float, tolerance: float) -> str:
    return f"probabilities differ from predict_proba by up to {worst:.2g} (allowed {tolerance:g})"


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else "no message")[:200]
