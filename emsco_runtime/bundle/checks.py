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

from emsco_runtime.bundle.encoding import ValueFault, make_encoder
from emsco_runtime.bundle.rule import RESCORE_MARGIN, accept

if TYPE_CHECKING:
    from emsco_runtime.bundle.manifest import Feature, Golden, Manifest

__all__ = ["ManifestFault", "find_faults"]


@dataclass(frozen=True, slots=True)
class ManifestFault:
    """One thing that is wrong, and where."""

    json_path: str
    message: str


def find_faults(manifest: Manifest) -> Iterator[ManifestFault]:
    """Yield every contradiction inside a manifest; none when it is sound."""
    is_consistent = True
    for fault in chain(_check_labels(manifest), _check_features(manifest), _check_stages(manifest), _check_expected(manifest)):
        is_consistent = False
        yield fault
    # Golden items are read against features and stages, which must be sound first.
    if is_consistent:
        yield from _check_golden(manifest)


def _find_duplicates(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _check_labels(manifest: Manifest) -> Iterator[ManifestFault]:
    for text in _find_duplicates(str(label) for label in manifest.labels):
        yield ManifestFault(
            "$.labels", f"the label {text!r} stands there twice (labels are compared as text). Labels must be unique"
        )


def _check_features(manifest: Manifest) -> Iterator[ManifestFault]:
    for name in _find_duplicates(feature.name for feature in manifest.features):
        yield ManifestFault("$.features", f"the feature {name!r} stands there twice. Names must be unique")
    for name in _find_duplicates(group.name for group in manifest.groups):
        yield ManifestFault("$.groups", f"the group {name!r} stands there twice. Names must be unique")
    groups = {group.name for group in manifest.groups}
    for index, feature in enumerate(manifest.features):
        path = f"$.features[{index}]"
        if feature.group is not None and feature.group not in groups:
            yield ManifestFault(
                f"{path}.group", f"the group {feature.group!r} is not in $.groups. Declare it there with its cost"
            )
        yield from _check_kind(feature, path)
    prices = [feature.cost for feature in manifest.features] + [group.cost for group in manifest.groups]
    if not any(prices):
        yield ManifestFault(
            "$.features", "all costs are zero, so no design is cheaper than another. Give some feature a cost above 0"
        )
    try:
        math.fsum(prices)
    except OverflowError:
        yield ManifestFault("$.features", "the costs add up to infinity. Use a larger cost unit")


def _check_kind(feature: Feature, path: str) -> Iterator[ManifestFault]:
    if feature.kind == "categorical":
        if not feature.categories:
            yield ManifestFault(f"{path}.categories", f"the categorical feature {feature.name!r} has no categories. List them")
        for name in _find_duplicates(feature.categories):
            yield ManifestFault(f"{path}.categories", f"the category {name!r} stands there twice. Categories must be unique")
    else:
        if feature.categories:
            yield ManifestFault(
                f"{path}.categories", f"the {feature.kind} feature {feature.name!r} has categories. Leave them out"
            )
        if feature.unknown != "fail":
            yield ManifestFault(
                f"{path}.unknown", f'"ignore" is for categorical features, {feature.name!r} is {feature.kind}. Use "fail"'
            )
    if feature.fallback is not None:
        try:
            make_encoder(feature)(feature.fallback)
        except ValueFault as fault:
            yield ManifestFault(f"{path}.fallback", f"not a value of {feature.name!r}: {fault.message}")


def _check_stages(manifest: Manifest) -> Iterator[ManifestFault]:
    features = {feature.name for feature in manifest.features}
    labels = {str(label) for label in manifest.labels}
    acquired: set[str] = set()
    for index, stage in enumerate(manifest.stages):
        path = f"$.stages[{index}]"
        for name in stage.acquire:
            if name not in features:
                yield ManifestFault(f"{path}.acquire", f"the feature {name!r} is not in $.features. Declare it there")
        for name, count in Counter(stage.acquire).items():
            if count > 1 or name in acquired:
                yield ManifestFault(f"{path}.acquire", f"the feature {name!r} is acquired twice. A feature belongs to one stage")
        acquired.update(stage.acquire)
        for name in sorted(set(stage.inputs) - acquired):
            yield ManifestFault(
                f"{path}.inputs", f"the feature {name!r} is not acquired by this stage or an earlier one. Acquire it first"
            )
        for name in _find_duplicates(stage.inputs):
            yield ManifestFault(f"{path}.inputs", f"the input {name!r} stands there twice. Inputs must be unique")
        if set(stage.thresholds) != labels:
            detail = f"got {sorted(stage.thresholds)}, the labels are {sorted(labels)}"
            yield ManifestFault(f"{path}.thresholds", f"one threshold per label is due: {detail}")
        expected = f"stages/{index + 1}-{stage.model.sha256[:12]}.onnx"
        if stage.model.path != expected:
            yield ManifestFault(
                f"{path}.model.path", f"got {stage.model.path!r}, by its number and sha256 it must be {expected!r}"
            )


def _check_expected(manifest: Manifest) -> Iterator[ManifestFault]:
    expected = manifest.expected
    if len(expected.stages) != len(manifest.stages):
        yield ManifestFault(
            "$.expected.stages", f"got {len(expected.stages)} entries for {len(manifest.stages)} stages. One per stage is due"
        )
    for name, count, limit in (("accepted", expected.accepted, expected.rows), ("right", expected.right, expected.accepted)):
        total = sum(getattr(stage, name) for stage in expected.stages)
        if count != total or count > limit:
            detail = f"got {count}, the stages add up to {total}, and it cannot exceed {limit}"
            yield ManifestFault(f"$.expected.{name}", f"the counts do not fit together: {detail}")
    for index, stage in enumerate(expected.stages):
        if stage.right > stage.accepted:
            detail = f"got {stage.right}, and it cannot exceed the {stage.accepted} accepted there"
            yield ManifestFault(f"$.expected.stages[{index}].right", f"the counts do not fit together: {detail}")


def _check_golden(manifest: Manifest) -> Iterator[ManifestFault]:
    encoders = {feature.name: make_encoder(feature) for feature in manifest.features}
    for index, golden in enumerate(manifest.golden):
        path = f"$.golden[{index}]"
        for stage in manifest.stages:
            for name in stage.acquire:
                if name not in golden.values:
                    yield ManifestFault(
                        f"{path}.values", f"the value of {name!r} is missing. A golden item holds every acquired feature"
                    )
        for name, value in golden.values.items():
            if name not in encoders:
                yield ManifestFault(f"{path}.values.{name}", f"the feature {name!r} is not in $.features. Leave it out")
                continue
            try:
                encoders[name](value)
            except ValueFault as fault:
                yield ManifestFault(f"{path}.values.{name}", f"not a value of {name!r}: {fault.message}")
        shape = [len(row) for row in golden.probabilities]
        if shape != [len(manifest.labels)] * len(manifest.stages):
            detail = f"got rows of {shape}"
            yield ManifestFault(f"{path}.probabilities", f"one row per stage with one number per label is due, {detail}")
        else:
            yield from _check_margins(manifest, golden, path)


def _check_margins(manifest: Manifest, golden: Golden, path: str) -> Iterator[ManifestFault]:
    for number, (stage, row) in enumerate(zip(manifest.stages, golden.probabilities, strict=True)):
        thresholds = [stage.thresholds[str(label)] for label in manifest.labels]
        top, second = sorted(row, reverse=True)[:2]
        label, _ = accept(row, thresholds)
        if min(abs(top - thresholds[label]), top - second) < RESCORE_MARGIN:
            detail = f"{list(row)} is within {RESCORE_MARGIN:g} of a threshold or a tie"
            yield ManifestFault(
                f"{path}.probabilities[{number}]", f"{detail}, so that rounding could flip it. Choose another golden item"
            )
