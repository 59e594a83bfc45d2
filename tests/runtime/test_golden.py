"""Golden items: they are replayed when a bundle is loaded, and bundles of every format version are kept for good."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emsco_runtime import BundleError, Cascade, read_bundle
from emsco_runtime.bundle.manifest import Feature, Golden, GoldenDecision, Manifest, Model, RawValue
from emsco_runtime.bundle.publish import build_bundle
from emsco_runtime.driving import golden_replay as _golden
from emsco_runtime.testing import (
    _bytes_field,
    _int_field,
    _node_proto,
    _tensor_proto,
    _value_info,
    logistic_model,
    make_bundle,
    sample_bundle,
)

KEPT = Path(__file__).parent / "golden"
# Weights of `sample_bundle`.
WEIGHTS: list[list[list[float]]] = [[[-2.0], [2.0]], [[-2.0, -1.0], [2.0, 1.0]], [[-2.0, -1.0, -3.0], [2.0, 1.0, 3.0]]]
SAMPLE = sample_bundle()


def with_golden(manifest: Manifest, *, values: dict[str, RawValue] | None = None, **decision: Any) -> Manifest:
    """Return a manifest whose golden item has other values or another decision."""
    golden = manifest.golden[0]
    expected = golden.decision.model_copy(update=decision)
    changed = golden.model_copy(update={"values": values or golden.values, "decision": expected})
    return manifest.model_copy(update={"golden": (changed,)})


def with_models(manifest: Manifest, models: Sequence[bytes]) -> Manifest:
    """Return a manifest that names other models, with their hashes."""
    stages = [
        stage.model_copy(update={"model": Model.of(index + 1, content, input="features", output="probabilities")})
        for index, (stage, content) in enumerate(zip(manifest.stages, models, strict=True))
    ]
    return manifest.model_copy(update={"stages": tuple(stages)})


def load_error(manifest: Manifest, models: Sequence[bytes]) -> BundleError:
    """Seal what is sound to the audit, bind what must be refused, and return the error."""
    bundle = build_bundle(manifest, models)
    with pytest.raises(BundleError) as caught:
        Cascade(bundle)
    assert caught.value.path == bundle.path
    assert "computes something else than the one the bundle was made on: do not use it" in caught.value.message
    return caught.value


@pytest.mark.parametrize("stage", [0, 1, 2])
@pytest.mark.parametrize(("difference", "accepted"), [(1e-6, False), (1e-12, True), (0.0, True)])
def test_a_model_that_computes_something_else(stage: int, difference: float, accepted: bool) -> None:
    """A model that is off by 1e-6 is found although hashes and id are right; one in the last bits does not."""
    models = [logistic_model(matrix, [difference * (index == stage), 0.0]) for index, matrix in enumerate(WEIGHTS)]
    manifest = with_models(SAMPLE.manifest, models)
    if accepted:
        assert Cascade(build_bundle(manifest, models)).decide({"size": 2.0}).label == "spam"
    else:
        error = load_error(manifest, models)
        assert error.json_path == "$.golden[0]"
        assert f"stage {stage + 1} gives [" in error.message
        assert f"the bundle expects {list(manifest.golden[0].probabilities[stage])}" in error.message


def test_models_in_another_order_of_labels() -> None:
    """Labels that were mixed up on the way are noticed."""
    models = [logistic_model(np.array(matrix)[::-1], np.zeros(2)) for matrix in WEIGHTS]
    assert load_error(with_models(SAMPLE.manifest, models), models).json_path == "$.golden[0]"


EXPECTED = SAMPLE.manifest.golden[0].decision
WRONG: dict[str, dict[str, Any]] = {
    "status": {"status": "accepted" if EXPECTED.status == "rejected" else "rejected"},
    "reason": {"reason": "confident" if EXPECTED.reason == "inconclusive" else "inconclusive"},
    "label": {"label": "ham" if EXPECTED.label != "ham" else "spam"},
    "stages": {"stages": EXPECTED.stages % 3 + 1},
    "cost in the last bit": {"cost": float(np.nextafter(EXPECTED.cost, 1e9))},
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_a_decision_that_is_not_kept(change: dict[str, Any]) -> None:
    """Each part of the expected decision counts, the cost to its last bit; both decisions are shown."""
    error = load_error(with_golden(SAMPLE.manifest, **change), SAMPLE.models)
    assert error.json_path == "$.golden[0]"
    assert error.message.startswith(
        f"the decision is ({EXPECTED.status!r}, {EXPECTED.reason!r}, {EXPECTED.label!r}, {EXPECTED.stages}, {EXPECTED.cost})"
    )
    assert repr(next(iter(change.values()))) in error.message.split("the bundle expects")[1]


def test_the_label_keeps_its_type() -> None:
    """The label 1 is not the label "1"."""
    bundle = make_bundle([["x"]], labels=(0, 1), weights=[[[-3.0], [3.0]]], threshold=0.5)
    label = bundle.manifest.golden[0].decision.label
    assert isinstance(label, int)
    assert "the decision is" in load_error(with_golden(bundle.manifest, label=str(label)), bundle.models).message


def test_other_values_than_promised() -> None:
    """An item whose values were changed no longer gives its probabilities."""
    values = dict(SAMPLE.manifest.golden[0].values) | {"reputation": -5.0}
    assert "stage 3 gives" in load_error(with_golden(SAMPLE.manifest, values=values), SAMPLE.models).message


def test_the_second_item_counts_too() -> None:
    """Every item is replayed, and the error says which one failed."""
    first = SAMPLE.manifest.golden[0]
    second = with_golden(SAMPLE.manifest, cost=1e6).golden[0]
    manifest = SAMPLE.manifest.model_copy(update={"golden": (first, second)})
    assert load_error(manifest, SAMPLE.models).json_path == "$.golden[1]"


def linear_model(weights: Any) -> bytes:
    """Return a model that gives x @ weights as it is: no probabilities, unless the numbers happen to be some."""
    matrix = np.asarray(weights, dtype=np.float64)
    graph = _bytes_field(1, _node_proto("MatMul", ["features", "weights"], "probabilities")) + _bytes_field(2, b"linear")
    graph += _bytes_field(5, _tensor_proto("weights", matrix)) + _bytes_field(11, _value_info("features", matrix.shape[0]))
    graph += _bytes_field(12, _value_info("probabilities", matrix.shape[1]))
    return _int_field(1, 8) + _bytes_field(7, graph) + _bytes_field(8, _bytes_field(1, b"") + _int_field(2, 17))


@pytest.mark.parametrize("value", [1.0, 1e308], ids=["numbers that are no probabilities", "overflow"])
def test_a_model_without_probabilities(value: float) -> None:
    """Scores that do not add up to one, or are not even numbers, cannot be expected."""
    bundle = make_bundle([["x"]], weights=[[[1.0], [-1.0]]])
    models = [linear_model([[0.6, 0.9]] if value == 1.0 else [[1e308, -1e308]])]
    decision = GoldenDecision(status="accepted", reason="confident", label="spam", stages=1, cost=1.0)
    golden = Golden(values={"x": value}, probabilities=((0.6, 0.9),), decision=decision)
    error = load_error(with_models(bundle.manifest, models).model_copy(update={"golden": (golden,)}), models)
    start = (
        "its values are refused: feature 'x' (stage 1): the stage's model gives no probabilities"
        if value == 1.0
        else "stage 1 gives"
    )
    assert error.message.startswith(start)


FIRST, SECOND, BIAS = np.array([[2.0], [-2.0]]), np.array([[1.0, 4.0], [-1.0, -4.0]]), np.array([0.5, 0.0])


def softmax(matrix: Any, inputs: Sequence[float]) -> tuple[float, ...]:
    """Score without onnxruntime."""
    powers = np.exp(matrix @ np.array(inputs) + BIAS)
    return tuple((powers / powers.sum()).tolist())


@pytest.mark.parametrize("turned", [False, True], ids=["inputs in order", "inputs turned round"])
@pytest.mark.parametrize(
    ("values", "encoded", "label"),
    [
        ({"size": 0.5, "country": "fr"}, [0.5, 1.0], "ham"),
        ({"size": None, "country": "fr"}, [0.0, 1.0], "ham"),
        ({"size": 0.5, "country": "atlantis"}, [0.5, -1.0], "spam"),
        ({"size": 0.5, "country": None}, [0.5, 0.0], None),
        ({"size": None, "country": None}, [0.0, 0.0], None),
    ],
    ids=["plain", "gap", "unknown category", "category missing", "nothing known"],
)
def test_gaps_and_unknown_categories(values: dict[str, RawValue], encoded: list[float], label: str | None, turned: bool) -> None:
    """Golden items hold raw values: gaps and unknown categories go through the normal encoder, in the model's own order."""
    features = [
        Feature(name="size", kind="numeric", cost=1.0, missing="impute"),
        Feature(name="country", kind="categorical", categories=("de", "fr"), cost=2.0, unknown="ignore", missing="impute"),
    ]
    draft = make_bundle([["size"], ["country"]], features=features, threshold=0.99).manifest
    second = SECOND[:, ::-1] if turned else SECOND
    models = [logistic_model(FIRST, BIAS, imputed=[0.0]), logistic_model(second, BIAS, imputed=[0.0, 0.0])]
    manifest = with_models(draft, models)
    if turned:
        last = manifest.stages[1].model_copy(update={"inputs": ("country", "size")})
        manifest = manifest.model_copy(update={"stages": (manifest.stages[0], last)})
    decision = GoldenDecision(
        status="accepted" if label else "rejected",
        reason="confident" if label else "inconclusive",
        label=label,
        stages=2,
        cost=3.0,
    )
    rows = (softmax(FIRST, encoded[:1]), softmax(SECOND, encoded))
    golden = Golden(values=values, probabilities=rows, decision=decision)
    found = Cascade(build_bundle(manifest.model_copy(update={"golden": (golden,)}), models)).decide(values)
    assert (found.status, found.label, found.stages, found.cost) == (decision.status, label, 2, 3.0)


def test_tolerance() -> None:
    """Probabilities are held to 1e-9, which no change of the rule or of a threshold can hide behind (margins are 1e-6)."""
    assert _golden.TOLERANCE == 1e-9


# Every bundle under golden/ with its id and some decisions (item; status, label, stages, cost). Entries are added, never changed.
KEPT_BUNDLES: dict[str, tuple[str, list[tuple[dict[str, Any], tuple[str, str | int | None, int, float]]]]] = {
    "v1": (
        "3fdc6dd044256a1e6f127d47ba15725b4b7cc09c79068430a306f510461ef484",
        [
            ({"size": 1.75}, ("accepted", "spam", 1, 1.0)),
            ({"size": -0.1, "signed": True, "subject length": 1.0}, ("accepted", "ham", 2, 1.6)),
            ({"size": None, "signed": False, "subject length": -2.5}, ("accepted", 7, 2, 1.6)),
            (
                {"size": 0.05, "signed": True, "subject length": 0.0, "country": "atlantis", "reputation": 0.15},
                ("accepted", "ham", 3, 29.1),
            ),
            (
                {"size": 0.3, "signed": 1, "subject length": 0, "country": "fr", "reputation": 0.0},
                ("rejected", None, 3, 29.1),
            ),
        ],
    ),
    # Exported by training: logistic stages, and forests converted by skl2onnx.
    "v1-logistic": (
        "4cb56ece490a8e0d26cbc8d84eb48f89db1b0cc6f5188a8e60ae1de4e151f50c",
        [
            ({"flag": True, "colour": "red", "weight": 62.0}, ("accepted", "keep", 2, 10.245)),
            ({"flag": False, "colour": "violet", "weight": 44.0, "size": None}, ("rejected", None, 3, 11.344999999999999)),
        ],
    ),
    "v1-forest": (
        "7a18a4cef1468cbbada91e40577c11f98fd6c08d1306d9794b02a368e80cff6c",
        [({"flag": 0, "colour": "green", "weight": 50.5, "size": 0.9}, ("rejected", None, 3, 11.344999999999999))],
    ),
    # Features that need several groups: written by hand.
    "v2-groups": (
        "1f97b05ef031cb1d4d80416b46d35e104c883de4fa715e53e68d5d8ac19d8f9b",
        [
            ({"size": 3.0}, ("accepted", "spam", 1, 1.0)),
            ({"size": 0.1, "links": 2.0, "signed": True}, ("accepted", "spam", 2, 13.1)),
            ({"size": 0.0, "links": 0.0, "signed": 0, "reputation": 0.0, "country": "es"}, ("rejected", None, 3, 16.3)),
        ],
    ),
    # Vectors, one of which may be missing: written by hand.
    "v2-vectors": (
        "1132a6b9a7845ae2199e9dd082ac28133593c6ff19c7e98095ae21ac69ad4528",
        [
            ({"size": 3.0}, ("accepted", "spam", 1, 1.0)),
            ({"size": 0.1, "words": [1.0, 0.5, 0]}, ("accepted", "spam", 2, 5.0)),
            ({"size": 0.1, "words": None, "colours": [-1, 0.25]}, ("accepted", "ham", 3, 13.0)),
            ({"size": 0.0, "words": (0.1, 0, 0), "colours": np.array([0.0, 0.1])}, ("rejected", None, 3, 13.0)),
        ],
    ),
}


def test_all_kept_bundles_are_listed() -> None:
    """Every folder under golden/ is tested below, and none was taken away."""
    assert {path.name for path in KEPT.iterdir()} == set(KEPT_BUNDLES)


@pytest.mark.parametrize("name", KEPT_BUNDLES)
def test_kept_bundles_stay_readable(name: str) -> None:
    """A bundle that was once written loads for good: the same id, its golden items pass, the same decisions."""
    digest, decisions = KEPT_BUNDLES[name]
    cascade = Cascade.load(KEPT / name)
    assert cascade.manifest.id == read_bundle(KEPT / name).manifest.id == digest
    for item, expected in decisions:
        found = cascade.decide(item)
        assert (found.status, found.label, found.stages, found.cost) == expected
        assert found.bundle == digest


def test_the_first_kept_bundle_has_everything() -> None:
    """It uses what the format offers: all kinds, gaps, ignored categories, groups, both types of label, several golden items."""
    manifest = read_bundle(KEPT / "v1").manifest
    assert {feature.kind for feature in manifest.features} == {"numeric", "boolean", "categorical"}
    assert {feature.missing for feature in manifest.features} == {"forbid", "impute"}
    assert {feature.unknown for feature in manifest.features} == {"fail", "ignore"}
    assert {type(label) for label in manifest.labels} == {str, int}
    assert len(manifest.stages) == 3
    assert manifest.groups
    assert len(manifest.golden) > 2
    assert any(None in golden.values.values() for golden in manifest.golden)
