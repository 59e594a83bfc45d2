"""The fakes that users' tests are given."""

from __future__ import annotations

import math

import numpy as np
import pytest

from emsco_runtime import Cascade
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.errors import BundleError
from emsco_runtime.testing import RecordingAcquirers, logistic_model, make_bundle, sample_bundle


def test_a_logistic_model_is_the_softmax_it_says() -> None:
    """The hand-written ONNX bytes compute softmax(weights @ x + bias), gaps imputed, as numpy does."""
    rng = np.random.default_rng(0)
    weights, bias, row = rng.normal(size=(3, 5)), rng.normal(size=3), rng.normal(size=5)
    content = logistic_model(weights, bias, imputed=[7.0] * 5)
    scorer = Scorer.from_model(content, input="features", output="probabilities", width=5, labels=3)
    row[2] = math.nan
    logits = weights @ np.nan_to_num(row, nan=7.0) + bias
    assert scorer.score(0, row.tolist()) == pytest.approx(np.exp(logits) / np.exp(logits).sum(), abs=1e-15)


def test_the_same_seed_makes_the_same_bundle() -> None:
    """Fakes are reproducible: a bundle's id depends on its arguments alone."""
    assert make_bundle([["a"]], seed=4).manifest.id == make_bundle([["a"]], seed=4).manifest.id
    assert make_bundle([["a"]], seed=4).manifest.id != make_bundle([["a"]], seed=5).manifest.id


def test_a_bundle_that_cannot_have_a_golden_item_is_refused() -> None:
    """Scores that tie everywhere leave no golden item with a margin: an error, not an endless search."""
    with pytest.raises(ValueError, match="no golden item can be made"):
        make_bundle([["a"]], weights=[[[0.0], [0.0]]])


def test_a_missing_key_of_an_item_is_a_failure_as_in_production() -> None:
    """A recording acquirer of one feature raises KeyError, one of several leaves the key out."""
    cascade = Cascade(sample_bundle(), RecordingAcquirers("size", ("links", "reputation")), on_failure="reject")
    assert cascade.decide({}).errors[0].kind == "exception"
    assert cascade.decide({"size": 0.0}).errors[0].kind == "missing_key"


def test_a_scorer_refuses_a_model_of_another_shape() -> None:
    """What onnxruntime understood is compared with what is expected, even where the bytes were never checked."""
    content = logistic_model(np.ones((2, 3)), np.zeros(2))
    with pytest.raises(BundleError, match="expected the model's input"):
        Scorer.from_model(content, input="features", output="probabilities", width=4, labels=2)


def test_a_scorer_turns_onnxruntimes_refusal_into_our_error() -> None:
    """Bytes that onnxruntime cannot load give one clear error with its version, never its own exception."""
    with pytest.raises(BundleError, match=r"onnxruntime [0-9.]+ cannot load the model"):
        Scorer.from_model(b"no model", input="features", output="probabilities", width=1, labels=2)
