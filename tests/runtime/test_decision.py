"""Decisions as records: frozen, picklable, JSON."""

from __future__ import annotations

import json
import pickle

import pytest

from emsco_runtime import Cascade
from emsco_runtime.testing import make_bundle, sample_bundle


def test_a_decision_is_frozen() -> None:
    """Nobody downstream can change what was decided."""
    decision = Cascade(sample_bundle()).decide({"size": 3.0})
    with pytest.raises(AttributeError):
        decision.label = "ham"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        decision.trace[0].cost = 0.0  # type: ignore[misc]


def test_a_decision_survives_pickling() -> None:
    """Decisions travel between processes whole."""
    decision = Cascade(sample_bundle(), on_failure="default").decide({"size": 0.0, "links": None, "reputation": 0.0})
    assert pickle.loads(pickle.dumps(decision)) == decision


def test_the_json_form_says_everything() -> None:
    """`to_json` is `to_dict` as text, with every field of the decision, its trace and its errors."""
    decision = Cascade(sample_bundle(), on_failure="default").decide(
        {"size": 0.0, "links": "many", "reputation": 0.0}, known={"size": 0.0}
    )
    document = json.loads(decision.to_json())
    assert document == decision.to_dict()
    assert set(document) == set(decision._fields)
    assert document["trace"][1]["defaulted"] == ["links"]
    assert document["errors"][0]["kind"] == "wrong_type"
    assert document["trace"][0]["known"] == ["size"]


def test_labels_keep_their_type() -> None:
    """Integer labels stay integers in the decision; as JSON keys they are text."""
    decision = Cascade(make_bundle([["a"]], labels=(0, 1), threshold=0.5, weights=[[[-1.0], [1.0]]])).decide({"a": 2.0})
    assert decision.label == 1
    assert isinstance(decision.label, int)
    assert set(decision.probabilities) == {0, 1}
    assert set(decision.to_dict()["probabilities"]) == {"0", "1"}
