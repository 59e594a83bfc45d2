"""Decisions as records: frozen, picklable, JSON."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from emsco_runtime import Cascade, Decision
from emsco_runtime._hearing import Heard
from emsco_runtime.testing import make_bundle, sample_bundle


def test_a_decision_is_frozen() -> None:
    """Nobody downstream can change what was decided."""
    decision = Cascade(sample_bundle()).decide({"size": 3.0})
    with pytest.raises(AttributeError):
        decision.label = "ham"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        decision.trace[0].cost = 0.0  # type: ignore[misc]


CHANGES: list[Callable[[Any], object]] = [
    lambda scores: scores.clear(),
    lambda scores: scores.update(ham=1.0),
    lambda scores: scores.pop("ham", None),
    lambda scores: scores.popitem(),
    lambda scores: scores.setdefault("new", 1.0),
    lambda scores: scores.__setitem__("ham", 1.0),
    lambda scores: scores.__delitem__("ham"),
    lambda scores: scores.__ior__({"ham": 1.0}),
]


@pytest.mark.parametrize("change", CHANGES)
def test_an_observer_cannot_change_probabilities(change: Callable[[Any], object]) -> None:
    """What an observer does to the probabilities of a decision, or of its stages, raises there and changes nothing."""

    def meddle(decision: Decision) -> None:
        for scores in (decision.probabilities, *(record.probabilities for record in decision.trace)):
            with pytest.raises(TypeError, match="this mapping is read-only"):
                change(scores)

    item = {"size": 0.0, "links": 0.0, "reputation": 3.0}
    watched = Cascade(sample_bundle(), observers=[meddle])
    decisions = [watched.decide(item), *watched.decide_many([item]), watched.decide(item, budget=0.0)]
    plain = Cascade(sample_bundle())
    due = [plain.decide(item), plain.decide(item), plain.decide(item, budget=0.0)]
    assert watched.observer_failures == 0
    assert [one._replace(elapsed_s=0.0) for one in decisions] == [one._replace(elapsed_s=0.0) for one in due]
    assert decisions[2].probabilities == {}


def test_probabilities_are_a_dictionary_in_all_else() -> None:
    """They equal plain dictionaries, are written as JSON, and survive copies and pickling, read-only as before."""
    scores = Cascade(sample_bundle()).decide({"size": 3.0}).probabilities
    plain = dict(scores)
    assert scores == plain
    assert json.loads(json.dumps(scores)) == plain
    for same in (copy.copy(scores), copy.deepcopy(scores), pickle.loads(pickle.dumps(scores))):
        assert same == plain
        with pytest.raises(TypeError):
            same["ham"] = 1.0  # type: ignore[index]
    merged = scores | {"new": 0.0}  # type: ignore[operator]
    assert merged == plain | {"new": 0.0}


def test_a_listener_cannot_leave_known_values_behind() -> None:
    """The mapping of known values that a listener gets for an item without any is not the one of the next item."""

    def meddle(heard: Heard) -> None:
        with pytest.raises(TypeError):
            heard.known["reputation"] = 9.0  # type: ignore[index]

    cascade = Cascade(sample_bundle(), listener=meddle)
    item = {"size": 0.0, "links": 0.0, "reputation": 0.0}
    assert [cascade.decide(item).cost for _ in range(2)] == [28.0, 28.0]


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
