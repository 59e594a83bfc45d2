"""The JSON Schemas: equal to what the code says, and true of real manifests and decisions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pydantic
import pytest
from jsonschema import Draft202012Validator, ValidationError

from emsco_runtime import Cascade, Decision, read_bundle
from emsco_runtime.decision import FailureKind, Reason
from emsco_runtime.sources.cache import AcquirerCache
from emsco_runtime.testing import RecordingAcquirers, make_bundle, sample_bundle
from tests.runtime.damage import edit_document
from tools.schemas import FOLDER, decision_schema, files, manifest_schema

GOLDEN = Path(__file__).parents[1] / "runtime" / "golden"
MANIFEST: dict[str, Any] = sample_bundle().manifest.model_dump(mode="json")


def validate_manifest(document: Any) -> None:
    """Hold a document to the manifest's schema of its version; of another one, to that of version 1."""
    version = document.get("schema_version") if isinstance(document, dict) else None
    Draft202012Validator(manifest_schema(2 if version == 2 else 1)).validate(document)


def validate_decision(document: Any) -> None:
    """Hold a document to the decision's schema."""
    Draft202012Validator(decision_schema()).validate(document)


@pytest.mark.skipif(pydantic.VERSION.startswith(("2.9.", "2.10.")), reason="schemas/ is as pydantic 2.11 and newer write it")
def test_files_are_up_to_date() -> None:
    """The files are what the models say now; `make schemas` writes them. Those of older versions may lie next to them."""
    for name, text in files().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, f"{name} is out of date: run make schemas"


def test_files_are_schemas() -> None:
    """Every file is a valid schema of its dialect, with an identity and a title."""
    paths = sorted(FOLDER.iterdir())
    assert {path.name for path in paths} >= {"manifest.v1.schema.json", "manifest.v2.schema.json", "decision.v1.schema.json"}
    for path in paths:
        schema = json.loads(path.read_text(encoding="utf-8"))
        Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert schema["$id"] == f"emsco:{path.name.removesuffix('.schema.json')}"
        assert schema["title"].startswith("emsco ")


def test_golden_manifests() -> None:
    """Bundles kept for good follow the schema of their version, as files on disk."""
    for folder in GOLDEN.iterdir():
        document = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        schema = json.loads((FOLDER / f"manifest.v{document['schema_version']}.schema.json").read_text(encoding="utf-8"))
        Draft202012Validator(schema).validate(document)
        assert read_bundle(folder).manifest.id == document["id"]


def test_a_fresh_manifest() -> None:
    """A manifest written now follows the schema."""
    validate_manifest(MANIFEST)
    validate_manifest(make_bundle([["a"], ["b"]], labels=(0, 1, "x")).manifest.model_dump(mode="json"))


def test_several_groups_are_of_version_2_alone() -> None:
    """A manifest of several groups follows the schema of version 2; the one of version 1 does not know them."""
    several = {"g": (1.0, ["a", "b"]), "h": (2.0, ["b"])}
    document = make_bundle([["a"], ["b"]], groups=several).manifest.model_dump(mode="json")
    assert document["schema_version"] == 2
    validate_manifest(document)
    Draft202012Validator(manifest_schema(2)).validate(MANIFEST | {"schema_version": 2})
    with pytest.raises(ValidationError, match="'groups' was unexpected"):
        validate_manifest(document | {"schema_version": 1})


BROKEN_MANIFESTS: dict[str, tuple[Any, ...]] = {
    "format left out": ("format", ...),
    "schema_version left out": ("schema_version", ...),
    "another version": ("schema_version", 3),
    "another format": ("format", "zip"),
    "extra field": ("owner", "me"),
    "extra field inside": ("stages", 0, "model", "url", "http://example.org"),
    "path that leaves the bundle": ("stages", 0, "model", "path", "../1-000000000000.onnx"),
    "threshold 0": ("stages", 0, "thresholds", "ham", 0),
    "threshold above 1": ("stages", 0, "thresholds", "ham", 1.5),
    "negative cost": ("features", 0, "cost", -1),
    "unknown kind": ("features", 0, "kind", "image"),
    "one label": ("labels", ["ham"]),
    "fractional label": ("labels", 0, 0.5),
    "no stages": ("stages", []),
    "a date of another form": ("created", "yesterday"),
    "short id": ("id", "abc"),
    "golden value of no kind": ("golden", 0, "values", "size", [1]),
}


@pytest.mark.parametrize("edit", BROKEN_MANIFESTS.values(), ids=BROKEN_MANIFESTS)
def test_broken_manifests(edit: tuple[Any, ...]) -> None:
    """What the reader refuses by shape, the schema refuses too."""
    with pytest.raises(ValidationError):
        validate_manifest(edit_document(MANIFEST, *edit))


def decisions() -> dict[str, Decision]:
    """Return a real decision of every sort."""
    plain = Cascade(sample_bundle())
    numbered = Cascade(make_bundle([["x"]], labels=(0, 1), weights=[[[-3.0], [3.0]]]))
    rejecting = Cascade(sample_bundle(), RecordingAcquirers("size", "links", "reputation"), on_failure="reject")
    falling_back = Cascade(sample_bundle(), RecordingAcquirers("size", "links", "reputation"), on_failure="default")
    unsure = {"size": 0.0, "links": 0.0, "reputation": 0.0}
    acquirers = RecordingAcquirers("size", "links")
    acquirers.feature("reputation", cache=AcquirerCache(key=str, ttl_s=60.0))(lambda item: 0.0)
    caching = Cascade(sample_bundle(), acquirers)
    return {
        "accepted": plain.decide({"size": 5.0}),
        "accepted, label as number": numbered.decide({"x": 2.0}),
        "rejected": plain.decide(unsure),
        "budget": plain.decide(unsure, budget=10),
        "budget, nothing started": plain.decide(unsure, budget=0),
        "failed": rejecting.decide({"size": 0.0, "links": TimeoutError("no answer")}),
        "failed at once": rejecting.decide({"size": "large"}),
        "degraded": falling_back.decide({**unsure, "links": TimeoutError("no answer")}),
        "deadline": plain.decide(unsure, deadline_s=0),
        "cached": [caching.decide(unsure) for _ in range(2)][1],
        "known": plain.decide({"links": 0.0, "reputation": 9.0}, known={"size": 0.0}),
        "with a key": plain.decide({"size": 5.0}, key="message-17"),
    }


DECISIONS = decisions()


@pytest.mark.parametrize("name", DECISIONS)
def test_real_decisions(name: str) -> None:
    """Decisions of every sort follow the schema, as dict and as JSON."""
    decision = DECISIONS[name]
    validate_decision(decision.to_dict())
    validate_decision(json.loads(decision.to_json()))


@pytest.mark.parametrize("name", DECISIONS)
def test_decisions_from_before_keys_stay_valid(name: str) -> None:
    """A document of version 1 that was written before decisions had keys still follows the schema."""
    document = DECISIONS[name].to_dict()
    del document["key"]
    validate_decision(document)


def test_the_sorts_of_decisions_are_what_they_say() -> None:
    """The examples above do cover the sorts, so that the schema is held to all of them."""
    assert {decision.reason for decision in DECISIONS.values()} == set(get_args(Reason))
    assert DECISIONS["degraded"].degraded
    assert DECISIONS["degraded"].trace[1].defaulted == ("links",)
    assert DECISIONS["known"].trace[0].known == ("size",)
    assert DECISIONS["cached"].trace[2].cached == ("reputation",)
    assert DECISIONS["failed"].errors[0].kind == "exception"
    assert DECISIONS["budget, nothing started"].confidence is None
    assert DECISIONS["accepted, label as number"].to_dict()["label"] == 1


def test_words_come_from_the_code() -> None:
    """Reasons and kinds of failure are those of the types; every field of a decision is described, and required but the key."""
    schema = decision_schema()
    assert schema["properties"]["reason"]["enum"] == list(get_args(Reason))
    assert schema["$defs"]["Failure"]["properties"]["kind"]["enum"] == list(get_args(FailureKind))
    assert list(schema["properties"]) == list(Decision._fields) == [*schema["required"], "key"]
    assert all(field["description"] for field in schema["properties"].values())


BROKEN_DECISIONS: dict[str, tuple[Any, ...]] = {
    "unknown reason": ("reason", "deadline passed"),
    "unknown status": ("status", "maybe"),
    "extra field": ("colour", "red"),
    "field left out": ("cost", ...),
    "text for a number": ("cost", "1"),
    "negative cost": ("cost", -1.0),
    "negative time": ("elapsed_s", -1e-9),
    "accepted without a label": ("label", None),
    "accepted though inconclusive": ("reason", "inconclusive"),
    "rejected with a label": ("status", "rejected"),
    "stage 0 in the trace": ("trace", 0, "stage", 0),
    "extra field in the trace": ("trace", 0, "seconds", 1),
    "probability as text": ("probabilities", "spam", "0.9"),
    "bundle without an id": ("bundle", ""),
    "key as a number": ("key", 17),
    "failure of no kind": ("errors", [{"feature": "size", "stage": 1, "kind": "bad luck", "message": ""}]),
}


@pytest.mark.parametrize("edit", BROKEN_DECISIONS.values(), ids=BROKEN_DECISIONS)
def test_broken_decisions(edit: tuple[Any, ...]) -> None:
    """What no decision can be is refused."""
    with pytest.raises(ValidationError):
        validate_decision(edit_document(DECISIONS["accepted"].to_dict(), *edit))
