"""Checks between the parts of a manifest that no single field can tell.

`faults` goes through everything, each with its JSON path. Shapes, ranges and types were checked by the models in `manifest`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from emsco_runtime._encoding import ValueFault, encoder
from emsco_runtime._rule import NEAR, accept

if TYPE_CHECKING:
    from emsco_runtime.manifest import Feature, Golden, Manifest

__all__ = ["Fault", "faults"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, and where."""

    json_path: str
    message: str


def faults(manifest: Manifest) -> Iterator[Fault]:
    """Yield every contradiction inside a manifest; none when it is sound."""
    sound = True
    for fault in chain(_labels(manifest), _features(manifest), _stages(manifest), _expected(manifest)):
        sound = False
        yield fault
    # Golden items are read against features and stages, which must be sound first.
    if sound:
        yield from _golden(manifest)


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _labels(manifest: Manifest) -> Iterator[Fault]:
    for text in _repeated(str(label) for label in manifest.labels):
        yield Fault("$.labels", f"the label {text!r} stands there twice (labels are compared as text). Labels must be unique")


def _features(manifest: Manifest) -> Iterator[Fault]:
    for name in _repeated(feature.name for feature in manifest.features):
        yield Fault("$.features", f"the feature {name!r} stands there twice. Names must be unique")
    for name in _repeated(group.name for group in manifest.groups):
        yield Fault("$.groups", f"the group {name!r} stands there twice. Names must be unique")
    groups = {group.name for group in manifest.groups}
    for index, feature in enumerate(manifest.features):
        place = f"$.features[{index}]"
        if feature.group is not None and feature.group not in groups:
            yield Fault(f"{place}.group", f"the group {feature.group!r} is not in $.groups. Declare it there with its cost")
        yield from _kind(feature, place)
    prices = [feature.cost for feature in manifest.features] + [group.cost for group in manifest.groups]
    if not any(prices):
        yield Fault("$.features", "all costs are zero, so no design is cheaper than another. Give some feature a cost above 0")
    try:
        math.fsum(prices)
    except OverflowError:
        yield Fault("$.features", "the costs add up to infinity. Use a larger cost unit")


def _kind(feature: Feature, place: str) -> Iterator[Fault]:
    if feature.kind == "categorical":
        if not feature.categories:
            yield Fault(f"{place}.categories", f"the categorical feature {feature.name!r} has no categories. List them")
        for name in _repeated(feature.categories):
            yield Fault(f"{place}.categories", f"the category {name!r} stands there twice. Categories must be unique")
    else:
        if feature.categories:
            yield Fault(f"{place}.categories", f"the {feature.kind} feature {feature.name!r} has categories. Leave them out")
        if feature.unknown != "fail":
            yield Fault(
                f"{place}.unknown", f'"ignore" is for categorical features, {feature.name!r} is {feature.kind}. Use "fail"'
            )
    if feature.fallback is not None:
        try:
            encoder(feature)(feature.fallback)
        except ValueFault as fault:
            yield Fault(f"{place}.fallback", f"not a value of {feature.name!r}: {fault.message}")


def _stages(manifest: Manifest) -> Iterator[Fault]:
    features = {feature.name for feature in manifest.features}
    labels = {str(label) for label in manifest.labels}
    acquired: set[str] = set()
    for index, stage in enumerate(manifest.stages):
        place = f"$.stages[{index}]"
        for name in stage.acquire:
            if name not in features:
                yield Fault(f"{place}.acquire", f"the feature {name!r} is not in $.features. Declare it there")
        for name, count in Counter(stage.acquire).items():
            if count > 1 or name in acquired:
                yield Fault(f"{place}.acquire", f"the feature {name!r} is acquired twice. A feature belongs to one stage")
        acquired.update(stage.acquire)
        for name in sorted(set(stage.inputs) - acquired):
            yield Fault(
                f"{place}.inputs", f"the feature {name!r} is not acquired by this stage or an earlier one. Acquire it first"
            )
        for name in _repeated(stage.inputs):
            yield Fault(f"{place}.inputs", f"the input {name!r} stands there twice. Inputs must be unique")
        if set(stage.thresholds) != labels:
            told = f"got {sorted(stage.thresholds)}, the labels are {sorted(labels)}"
            yield Fault(f"{place}.thresholds", f"one threshold per label is due: {told}")
        expected = f"stages/{index + 1}-{stage.model.sha256[:12]}.onnx"
        if stage.model.path != expected:
            yield Fault(f"{place}.model.path", f"got {stage.model.path!r}, by its number and sha256 it must be {expected!r}")


def _expected(manifest: Manifest) -> Iterator[Fault]:
    expected = manifest.expected
    if len(expected.stages) != len(manifest.stages):
        yield Fault(
            "$.expected.stages", f"got {len(expected.stages)} entries for {len(manifest.stages)} stages. One per stage is due"
        )
    for name, count, limit in (("accepted", expected.accepted, expected.rows), ("right", expected.right, expected.accepted)):
        total = sum(getattr(stage, name) for stage in expected.stages)
        if count != total or count > limit:
            told = f"got {count}, the stages add up to {total}, and it cannot exceed {limit}"
            yield Fault(f"$.expected.{name}", f"the counts do not fit together: {told}")
    for index, stage in enumerate(expected.stages):
        if stage.right > stage.accepted:
            told = f"got {stage.right}, and it cannot exceed the {stage.accepted} accepted there"
            yield Fault(f"$.expected.stages[{index}].right", f"the counts do not fit together: {told}")


def _golden(manifest: Manifest) -> Iterator[Fault]:
    encoders = {feature.name: encoder(feature) for feature in manifest.features}
    for index, golden in enumerate(manifest.golden):
        place = f"$.golden[{index}]"
        for stage in manifest.stages:
            for name in stage.acquire:
                if name not in golden.values:
                    yield Fault(
                        f"{place}.values", f"the value of {name!r} is missing. A golden item holds every acquired feature"
                    )
        for name, value in golden.values.items():
            if name not in encoders:
                yield Fault(f"{place}.values.{name}", f"the feature {name!r} is not in $.features. Leave it out")
                continue
            try:
                encoders[name](value)
            except ValueFault as fault:
                yield Fault(f"{place}.values.{name}", f"not a value of {name!r}: {fault.message}")
        shape = [len(row) for row in golden.probabilities]
        if shape != [len(manifest.labels)] * len(manifest.stages):
            told = f"got rows of {shape}"
            yield Fault(f"{place}.probabilities", f"one row per stage with one number per label is due, {told}")
        else:
            yield from _margins(manifest, golden, place)


def _margins(manifest: Manifest, golden: Golden, place: str) -> Iterator[Fault]:
    for number, (stage, row) in enumerate(zip(manifest.stages, golden.probabilities, strict=True)):
        thresholds = [stage.thresholds[str(label)] for label in manifest.labels]
        top, second = sorted(row, reverse=True)[:2]
        label, _ = accept(row, thresholds)
        if min(abs(top - thresholds[label]), top - second) < NEAR:
            told = f"{list(row)} is within {NEAR:g} of a threshold or a tie"
            yield Fault(f"{place}.probabilities[{number}]", f"{told}, so that rounding could flip it. Choose another golden item")
