"""Fakes for tests: bundles without training, and acquirers that record every call.

Everything here is public and works with nothing installed but the runtime. The bundles are real ones: audited, hashed, with ONNX
models that onnxruntime runs.

Examples
--------
>>> from emsco_runtime import Cascade
>>> from emsco_runtime.testing import RecordingAcquirers, sample_bundle
>>> acquirers = RecordingAcquirers("size", ("links", "reputation"), on_failure="reject")
>>> cascade = Cascade(sample_bundle(), acquirers)
>>> cascade.decide({"size": 0.1, "links": TimeoutError("no answer"), "reputation": 1.0}).reason
'acquisition_failed'
>>> acquirers.asked
[('size',), ('links', 'reputation')]
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from emsco_runtime.acquirers import Acquirers, OnFailure, Shape
from emsco_runtime.bundle.manifest import Feature, Golden, GoldenDecision, Label, Manifest, Model, RawValue, needed_version
from emsco_runtime.bundle.publish import build_bundle
from emsco_runtime.bundle.reading import Bundle
from emsco_runtime.bundle.rule import RESCORE_MARGIN, margin
from emsco_runtime.driving.golden_replay import score_stages
from emsco_runtime.driving.one import drive_one
from emsco_runtime.engine.binding import bind
from emsco_runtime.engine.scorer import Scorer

__all__ = ["RecordingAcquirers", "logistic_model", "make_bundle", "sample_bundle"]

_INPUT, _OUTPUT = "features", "probabilities"
_MAX_DRAWS = 1000
# Of a golden item until one is drawn.
_NO_DECISION = {"status": "rejected", "reason": "inconclusive", "label": None, "stages": 1, "cost": 0.0}


class RecordingAcquirers(Acquirers):
    """Acquirers that read their values from the item, a mapping, and record every call.

    A value that is an exception is raised, so that an item can make its acquirers fail.

    Parameters
    ----------
    *features
        A name for an acquirer of one feature, a tuple of names for one of several.
    batch
        Names of features with a batch acquirer each.
    on_failure
        Policy of all of them; None leaves it to the cascade.
    """

    def __init__(self, *features: str | tuple[str, ...], batch: Sequence[str] = (), on_failure: OnFailure | None = None) -> None:
        super().__init__()
        self.calls: list[tuple[tuple[str, ...], Any]] = []
        for names in features:
            if isinstance(names, str):
                self.feature(names, on_failure=on_failure)(_Recorder(self.calls, (names,), "feature"))
            else:
                self.features(*names, on_failure=on_failure)(_Recorder(self.calls, names, "features"))
        for name in batch:
            self.batch(name, on_failure=on_failure)(_Recorder(self.calls, (name,), "batch"))

    @property
    def asked(self) -> list[tuple[str, ...]]:
        """Return the features of every call, in the order of the calls."""
        return [names for names, _ in self.calls]


class _Recorder:
    """The callable of an acquirer; a class, so that it can be pickled."""

    def __init__(self, calls: list[tuple[tuple[str, ...], Any]], names: tuple[str, ...], shape: Shape) -> None:
        self._calls = calls
        self._names = names
        self._shape = shape

    def __call__(self, item: Any) -> Any:
        if self._shape == "batch":
            self._calls.append((self._names, tuple(item)))
            return [_value(one, self._names[0]) for one in item]
        self._calls.append((self._names, item))
        values = {name: _value(item, name) for name in self._names if name in item}
        return values[self._names[0]] if self._shape == "feature" else values


def _value(item: Mapping[str, Any], name: str) -> Any:
    if isinstance(item[name], Exception):
        raise item[name]
    return item[name]


def sample_bundle() -> Bundle:
    """Return a small spam bundle: `size` (1), then `links` (2), then `reputation` (20) with a shared lookup (5).

    Large values mean spam, values below zero mean ham, and values near zero are rejected.
    """
    return make_bundle(
        [["size"], ["links"], ["reputation"]],
        costs={"size": 1.0, "links": 2.0, "reputation": 20.0},
        groups={"lookup": (5.0, ["reputation"])},
        weights=[[[-2.0], [2.0]], [[-2.0, -1.0], [2.0, 1.0]], [[-2.0, -1.0, -3.0], [2.0, 1.0, 3.0]]],
        threshold=0.9,
    )


def make_bundle(
    stages: Sequence[Sequence[str]],
    *,
    costs: Mapping[str, float] | None = None,
    groups: Mapping[str, tuple[float, Sequence[str]]] | None = None,
    features: Sequence[Feature] | None = None,
    labels: Sequence[Label] = ("ham", "spam"),
    threshold: float | Mapping[str, float] = 0.8,
    weights: Sequence[Any] | None = None,
    seed: int = 0,
    name: str = "sample",
) -> Bundle:
    """Make a bundle in memory, with logistic models of given or random weights.

    Parameters
    ----------
    stages
        Features of each stage, in order.
    costs
        Own cost of each feature; 1 each by default.
    groups
        Group -> its cost and its members; a feature may be in several.
    features
        Full descriptions, for features that are not plain numbers; then `costs` and the members of `groups` are taken from there.
    labels
        The labels.
    threshold
        One number, or one per label (as text).
    weights
        A matrix [labels, inputs] per stage, with an input for each number of a vector; random by default.
    seed
        Seed of the random weights and of the golden items.
    name
        The bundle's name.
    """
    rng = np.random.default_rng(seed)
    inputs = [[name for names in stages[: index + 1] for name in names] for index in range(len(stages))]
    prices, shared = costs or {}, groups or {}
    described = features or [_numeric_feature(one, prices.get(one, 1.0), shared) for one in inputs[-1]]
    widths = {feature.name: feature.width for feature in described}
    models = []
    for index, names in enumerate(inputs):
        width = sum(widths[name] for name in names)
        matrix = rng.normal(size=(len(labels), width)) if weights is None else weights[index]
        imputed = [0.0] * width if any(feature.missing == "impute" for feature in described) else None
        models.append(logistic_model(matrix, np.zeros(len(labels)), imputed=imputed))
    thresholds = dict(threshold) if isinstance(threshold, Mapping) else {str(label): float(threshold) for label in labels}
    document: dict[str, Any] = {
        "schema_version": needed_version(described),
        "id": "0" * 64,
        "name": name,
        "version": "1",
        "created": "2026-01-01T00:00:00Z",
        "labels": list(labels),
        "cost_unit": "unit",
        "features": [feature.model_dump() for feature in described],
        "groups": [{"name": group, "cost": cost} for group, (cost, _) in shared.items()],
        "stages": [
            {
                "acquire": list(stage),
                "inputs": inputs[index],
                "model": Model.of(index + 1, models[index], input=_INPUT, output=_OUTPUT).model_dump(),
                "thresholds": thresholds,
            }
            for index, stage in enumerate(stages)
        ],
        # Never measured: one row, rejected.
        "expected": {
            "split": "none",
            "rows": 1,
            "accepted": 0,
            "right": 0,
            "stages": [{"accepted": 0, "right": 0}] * len(stages),
            "cost": dict.fromkeys(("mean", "p50", "p95", "max"), 0.0),
        },
        "golden": [{"values": {}, "probabilities": [], "decision": _NO_DECISION}],
        "provenance": {"settings": {}, "seed": seed, "versions": {}, "data": None},
    }
    draft = Manifest.model_validate_json(json.dumps(document))
    return build_bundle(draft.model_copy(update={"golden": (_draw_golden(draft, models, rng),)}), models)


def _numeric_feature(name: str, cost: float, groups: Mapping[str, tuple[float, Sequence[str]]]) -> Feature:
    own = [group for group, (_, members) in groups.items() if name in members]
    return Feature(name=name, kind="numeric", cost=cost, fallback=0.0).with_groups(own)


def _draw_golden(draft: Manifest, models: Sequence[bytes], rng: np.random.Generator) -> Golden:
    """Draw an item until no stage's score is near a threshold or a tie."""
    scorer = Scorer.from_bundle(Bundle(draft, tuple(models), "(in memory)"))
    plan = bind(draft, None, "raise")
    features = {feature.name: feature for feature in draft.features}
    for _ in range(_MAX_DRAWS):
        values = {name: _draw_value(features[name], rng) for stage in draft.stages for name in stage.acquire}
        rows = [tuple(scores) for scores in score_stages(plan, scorer, values)]
        if all(margin(row, stage.thresholds) > 2 * RESCORE_MARGIN for row, stage in zip(rows, plan.stages, strict=True)):
            break
    else:
        message = f"none of {_MAX_DRAWS} items drawn is clear of thresholds and ties at every stage"
        raise ValueError(f"no golden item can be made: {message}. Choose other weights or thresholds")
    decision = GoldenDecision.model_validate(drive_one(plan, scorer, values, {}, float("inf")), from_attributes=True)
    return Golden(values=values, probabilities=tuple(rows), decision=decision)


def _draw_value(feature: Feature, rng: np.random.Generator) -> RawValue:
    if feature.kind == "categorical":
        return str(rng.choice(feature.categories))
    if feature.kind == "boolean":
        return bool(rng.integers(2))
    if feature.kind == "vector":
        return tuple(round(float(number), 3) for number in rng.normal(size=feature.width))
    return round(float(rng.normal()), 3)


def logistic_model(weights: Any, bias: Any, *, imputed: Sequence[float] | None = None) -> bytes:
    """Return the bytes of an ONNX model: softmax(x @ weights.T + bias), float64, written without the onnx package.

    Parameters
    ----------
    weights
        A matrix [labels, inputs].
    bias
        One number per label.
    imputed
        What a missing value (NaN) in each input counts as; None when no value is missing.
    """
    matrix = np.ascontiguousarray(np.asarray(weights, dtype=np.float64).T)
    inputs, labels = matrix.shape
    filled_name, imputation = _INPUT, b""
    if imputed is not None:
        filled_name = "filled_name"
        imputation = (
            _bytes_field(1, _node_proto("IsNaN", [_INPUT], "gap"))
            + _bytes_field(1, _node_proto("Where", ["gap", "imputed", _INPUT], filled_name))
            + _bytes_field(5, _tensor_proto("imputed", np.asarray(imputed, dtype=np.float64).reshape(1, inputs)))
        )
    graph = b"".join(
        [
            imputation,
            _bytes_field(1, _node_proto("Gemm", [filled_name, "weights", "bias"], "logits")),
            _bytes_field(1, _node_proto("Softmax", ["logits"], _OUTPUT)),
            _bytes_field(2, b"logistic"),
            _bytes_field(5, _tensor_proto("weights", matrix)),
            _bytes_field(5, _tensor_proto("bias", np.asarray(bias, dtype=np.float64))),
            _bytes_field(11, _value_info(_INPUT, inputs)),
            _bytes_field(12, _value_info(_OUTPUT, labels)),
        ]
    )
    opset = _bytes_field(1, b"") + _int_field(2, 17)
    return _int_field(1, 8) + _bytes_field(7, graph) + _bytes_field(8, opset)


# A protobuf message is a sequence of fields; a field is its number and kind, then a number or a length and bytes.


def _write_varint(value: int) -> bytes:
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F)
    return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])


def _int_field(field: int, value: int) -> bytes:
    return _write_varint(field << 3) + _write_varint(value)


def _bytes_field(field: int, content: bytes) -> bytes:
    return _write_varint(field << 3 | 2) + _write_varint(len(content)) + content


def _node_proto(operator: str, inputs: Sequence[str], output: str) -> bytes:
    return (
        b"".join(_bytes_field(1, name.encode()) for name in inputs)
        + _bytes_field(2, output.encode())
        + _bytes_field(4, operator.encode())
    )


def _tensor_proto(name: str, array: Any) -> bytes:
    sizes = b"".join(_int_field(1, size) for size in array.shape)
    return (
        sizes
        + _int_field(2, 11)
        + _bytes_field(8, name.encode())
        + _bytes_field(9, struct.pack(f"<{array.size}d", *array.ravel()))
    )


def _value_info(name: str, width: int) -> bytes:
    shape = _bytes_field(1, _bytes_field(2, b"rows")) + _bytes_field(1, _int_field(1, width))
    return _bytes_field(1, name.encode()) + _bytes_field(2, _bytes_field(1, _int_field(1, 11) + _bytes_field(2, shape)))
