"""Decisions as records: frozen, picklable, JSON, and what pydantic makes of them."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from emsco_runtime import Cascade, Decision, Failure, StageRecord
from emsco_runtime.observing.recording import RecordedItem
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

    def tamper(decision: Decision) -> None:
        for scores in (decision.probabilities, *(record.probabilities for record in decision.trace)):
            with pytest.raises(TypeError, match="this mapping is read-only"):
                change(scores)

    item = {"size": 0.0, "links": 0.0, "reputation": 3.0}
    watched = Cascade(sample_bundle(), observers=[tamper])
    decisions = [watched.decide(item), *watched.decide_many([item]), watched.decide(item, budget=0.0)]
    plain = Cascade(sample_bundle())
    expected = [plain.decide(item), plain.decide(item), plain.decide(item, budget=0.0)]
    assert watched.observer_failures == 0
    assert [one._replace(elapsed_s=0.0) for one in decisions] == [one._replace(elapsed_s=0.0) for one in expected]
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

    def tamper(recorded: RecordedItem) -> None:
        with pytest.raises(TypeError):
            recorded.known["reputation"] = 9.0  # type: ignore[index]

    cascade = Cascade(sample_bundle(), listener=tamper)
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


def test_accepted_says_it_in_one_word() -> None:
    """`accepted` is True with a label and False without; it is not a field."""
    cascade = Cascade(sample_bundle())
    accepted, rejected = cascade.decide({"size": 3.0}), cascade.decide({"size": 3.0}, budget=0)
    assert (accepted.accepted, accepted.label) == (True, "spam")
    assert (rejected.accepted, rejected.label) == (False, None)
    assert "accepted" not in accepted.to_dict()


# What pydantic makes of a decision


def decisions() -> list[Decision]:
    """Return a short decision and one with everything: failures, known values, fallbacks, a key."""
    cascade = Cascade(sample_bundle(), on_failure="default")
    item = {"size": 0.0, "links": "many", "reputation": 0.0}
    return [cascade.decide({"size": 3.0}), cascade.decide(item, known={"size": 0.0}, key="message-17")]


class Answer(BaseModel):
    """A model of a user's, with decisions inside."""

    decision: Decision
    others: list[Decision] = []
    stage: StageRecord | None = None
    failure: Failure | None = None


@pytest.mark.parametrize("decision", decisions(), ids=["short", "with everything"])
def test_pydantic_writes_the_object_of_the_schema(decision: Decision) -> None:
    """A decision is the object that `to_dict` gives, alone and inside a model, as Python and as JSON."""
    adapter = TypeAdapter(Decision)
    assert adapter.dump_python(decision) == decision.to_dict()
    assert adapter.dump_python(decision, mode="json") == decision.to_dict()
    assert json.loads(adapter.dump_json(decision)) == decision.to_dict()
    answer = Answer(decision=decision, others=[decision], stage=decision.trace[0])
    assert answer.model_dump()["decision"] == decision.to_dict()
    document = json.loads(answer.model_dump_json())
    assert document["others"] == [decision.to_dict()]
    assert document["stage"] == decision.to_dict()["trace"][0]
    assert answer.model_dump(include={"decision": {"label", "key"}})["decision"] == {"label": decision.label, "key": decision.key}


@pytest.mark.parametrize("decision", decisions(), ids=["short", "with everything"])
def test_pydantic_reads_it_back(decision: Decision) -> None:
    """The object, as Python or as JSON, becomes the same decision again; a decision is taken as it is."""
    adapter = TypeAdapter(Decision)
    assert adapter.validate_python(decision) is decision
    assert adapter.validate_python(decision.to_dict()) == decision
    assert adapter.validate_json(decision.to_json()) == decision
    assert pickle.loads(pickle.dumps(adapter.validate_json(decision.to_json()))) == decision
    answer = Answer(decision=decision, stage=decision.trace[-1], failure=Failure("size", 1, "timeout", "late"))
    assert Answer.model_validate_json(answer.model_dump_json()) == answer


def test_labels_that_are_numbers_come_back_as_text() -> None:
    """Keys in JSON are text, and nothing shows that they were numbers; the label itself keeps its type."""
    decision = Cascade(make_bundle([["a"]], labels=(0, 1), threshold=0.5, weights=[[[-1.0], [1.0]]])).decide({"a": 2.0})
    back = TypeAdapter(Decision).validate_json(decision.to_json())
    assert back.label == 1
    assert set(back.probabilities) == {"0", "1"}
    assert back.to_dict() == decision.to_dict()


def test_pydantic_tells_the_schema() -> None:
    """For writing and for reading the JSON Schema is that of the file, and it is true of what is written."""
    adapter = TypeAdapter(Decision)
    schema = adapter.json_schema(mode="serialization")
    assert schema == adapter.json_schema(mode="validation")
    path = Path(__file__).parents[2] / "schemas" / "decision.v1.schema.json"
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert {key: kept[key] for key in schema if key != "title"} == {key: schema[key] for key in schema if key != "title"}
    assert list(Answer.model_json_schema(mode="serialization")["$defs"]) == ["Decision", "Failure", "StageRecord"]


BROKEN = {
    "a field left out": ("cost", None, "cost\n  Field required"),
    "text for a number": ("cost", "1", "cost\n  Input should be a valid number"),
    "infinity": ("cost", float("inf"), "cost\n  Input should be a finite number"),
    "an unknown reason": ("reason", "bored", "reason\n  Input should be 'confident', 'inconclusive'"),
    "an unknown field": ("colour", "red", "colour\n  Extra inputs are not permitted"),
    "accepted without a label": ("label", None, "expected the reason 'confident' and a label if accepted"),
    "rejected with a label": ("status", "rejected", "got status 'rejected', reason 'confident' and label 'spam'"),
}


@pytest.mark.parametrize("edit", BROKEN.values(), ids=BROKEN)
def test_pydantic_refuses_what_is_no_decision(edit: tuple[str, object, str]) -> None:
    """One error names the field and what is wrong with it; a tuple, the earlier form, is refused."""
    field, value, message = edit
    document = {**decisions()[0].to_dict(), field: value}
    if message.endswith("Field required"):
        del document[field]
    with pytest.raises(ValidationError, match=re.escape(message)):
        TypeAdapter(Decision).validate_python(document)
    with pytest.raises(ValidationError, match="valid dictionary or instance of Decision"):
        TypeAdapter(Decision).validate_python(list(document.values()))
