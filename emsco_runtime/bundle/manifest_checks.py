"""Consistency checks between the parts of a manifest; shapes, ranges and types were checked by the models in `manifest`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from emsco_runtime.bundle.encoding import Encoder, ValueFault, make_encoder
from emsco_runtime.bundle.manifest import MAX_INPUTS, Feature, Golden, Manifest, RawValue
from emsco_runtime.bundle.rule import RESCORE_MARGIN, margin

__all__ = ["ManifestFault", "find_faults"]


@dataclass(frozen=True, slots=True)
class ManifestFault:
    """One thing that is wrong, and where."""

    json_path: str
    message: str


def find_faults(manifest: Manifest) -> Iterator[ManifestFault]:
    """Yield every contradiction inside a manifest; nothing when it is consistent."""
    is_consistent = True
    labels = _check_unique("$.labels", "label", map(str, manifest.labels), " (labels are compared as text)")
    for fault in chain(labels, _check_features(manifest), _check_stages(manifest), _check_expected(manifest)):
        is_consistent = False
        yield fault
    # Golden items are checked against features and stages, which must be consistent first.
    if is_consistent:
        encoders = {feature.name: make_encoder(feature) for feature in manifest.features}
        for index, golden in enumerate(manifest.golden):
            yield from _check_golden(manifest, encoders, golden, f"$.golden[{index}]")


def _check_unique(path: str, noun: str, names: Iterable[str], note: str = "") -> Iterator[ManifestFault]:
    for name, count in Counter(names).items():
        if count > 1:
            yield ManifestFault(path, f"the {noun} {name!r} occurs twice{note}. Names must be unique")


def _check_value(path: str, name: str, encode: Encoder, value: RawValue) -> Iterator[ManifestFault]:
    try:
        encode(value)
    except ValueFault as fault:
        yield ManifestFault(path, f"not a value of {name!r}: {fault.message}")


def _check_features(manifest: Manifest) -> Iterator[ManifestFault]:
    yield from _check_unique("$.features", "feature", (feature.name for feature in manifest.features))
    yield from _check_unique("$.groups", "group", (group.name for group in manifest.groups))
    groups = {group.name for group in manifest.groups}
    for index, feature in enumerate(manifest.features):
        path = f"$.features[{index}]"
        yield from _check_groups(feature, groups, manifest.schema_version, path)
        yield from _check_width(feature, manifest.schema_version, path)
        yield from _check_kind(feature, path)
    prices = [feature.cost for feature in manifest.features] + [group.cost for group in manifest.groups]
    try:
        math.fsum(prices)
    except OverflowError:
        yield ManifestFault("$.features", "the costs add up to infinity. Use a larger cost unit")


def _check_groups(feature: Feature, known: set[str], version: int, path: str) -> Iterator[ManifestFault]:
    field = f"{path}.{'groups' if feature.groups else 'group'}"
    if feature.groups and version == 1:
        yield ManifestFault(field, "several groups of a feature need schema version 2. Write the bundle as version 2")
    if feature.groups and feature.group is not None:
        yield ManifestFault(f"{path}.group", f"got {feature.group!r} in addition to several in `groups`. Name them all there")
    yield from _check_unique(field, "group", feature.all_groups)
    for group in feature.all_groups:
        if group not in known:
            yield ManifestFault(field, f"the group {group!r} is not in $.groups. Declare it there with its cost")


def _check_width(feature: Feature, version: int, path: str) -> Iterator[ManifestFault]:
    if feature.kind == "vector" and version == 1:
        yield ManifestFault(f"{path}.kind", "a vector needs schema version 2. Write the bundle as version 2")
    if feature.kind != "vector" and feature.width != 1:
        message = f"the {feature.kind} feature {feature.name!r} has a width of {feature.width}. Leave it out"
        yield ManifestFault(f"{path}.width", message)


def _check_kind(feature: Feature, path: str) -> Iterator[ManifestFault]:
    name, kind = feature.name, feature.kind
    if kind == "categorical" and not feature.categories:
        yield ManifestFault(f"{path}.categories", f"the categorical feature {name!r} has no categories. List them")
    if kind != "categorical" and feature.categories:
        yield ManifestFault(f"{path}.categories", f"the {kind} feature {name!r} has categories. Leave them out")
    if kind != "categorical" and feature.unknown != "fail":
        yield ManifestFault(f"{path}.unknown", f'"ignore" is for categorical features, {name!r} is {kind}. Use "fail"')
    yield from _check_unique(f"{path}.categories", "category", feature.categories if kind == "categorical" else ())
    if feature.fallback is not None:
        yield from _check_value(f"{path}.fallback", name, make_encoder(feature), feature.fallback)


def _check_stages(manifest: Manifest) -> Iterator[ManifestFault]:
    features = {feature.name: feature.width for feature in manifest.features}
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
            message = f"the feature {name!r} is not acquired by this stage or an earlier one. Acquire it first"
            yield ManifestFault(f"{path}.inputs", message)
        yield from _check_unique(f"{path}.inputs", "input", stage.inputs)
        width = sum(features.get(name, 1) for name in stage.inputs)
        if width > MAX_INPUTS:
            yield ManifestFault(f"{path}.inputs", f"{width:,} numbers, at most {MAX_INPUTS:,} are read. Use narrower vectors")
        if set(stage.thresholds) != labels:
            message = f"expected one threshold per label: got {sorted(stage.thresholds)}, the labels are {sorted(labels)}"
            yield ManifestFault(f"{path}.thresholds", message)
        expected = f"stages/{index + 1}-{stage.model.sha256[:12]}.onnx"
        if stage.model.path != expected:
            message = f"got {stage.model.path!r}, by its number and sha256 it must be {expected!r}"
            yield ManifestFault(f"{path}.model.path", message)


def _check_expected(manifest: Manifest) -> Iterator[ManifestFault]:
    expected, counts = manifest.expected, "the counts do not fit together"
    if len(expected.stages) != len(manifest.stages):
        message = f"expected one entry per stage, got {len(expected.stages)} entries for {len(manifest.stages)} stages"
        yield ManifestFault("$.expected.stages", message)
    for name, count, limit in (("accepted", expected.accepted, expected.rows), ("right", expected.right, expected.accepted)):
        total = sum(getattr(stage, name) for stage in expected.stages)
        if count != total or count > limit:
            message = f"{counts}: got {count}, the stages add up to {total}, and it cannot exceed {limit}"
            yield ManifestFault(f"$.expected.{name}", message)
    for index, stage in enumerate(expected.stages):
        if stage.right > stage.accepted:
            message = f"{counts}: got {stage.right}, and it cannot exceed the {stage.accepted} accepted there"
            yield ManifestFault(f"$.expected.stages[{index}].right", message)
    weighted = expected.weighted
    if weighted is not None and not weighted.right <= weighted.accepted <= weighted.units:
        message = f"{counts}: got {weighted.right} units right of {weighted.accepted} accepted of {weighted.units}"
        yield ManifestFault("$.expected.weighted", message)


def _check_golden(manifest: Manifest, encoders: Mapping[str, Encoder], golden: Golden, path: str) -> Iterator[ManifestFault]:
    for name in (name for stage in manifest.stages for name in stage.acquire if name not in golden.values):
        message = f"the value of {name!r} is missing. A golden item holds every acquired feature"
        yield ManifestFault(f"{path}.values", message)
    for name, value in golden.values.items():
        if name in encoders:
            yield from _check_value(f"{path}.values.{name}", name, encoders[name], value)
        else:
            yield ManifestFault(f"{path}.values.{name}", f"the feature {name!r} is not in $.features. Leave it out")
    shape = [len(row) for row in golden.probabilities]
    if shape != [len(manifest.labels)] * len(manifest.stages):
        message = f"expected one row per stage with one number per label, got rows of {shape}"
        yield ManifestFault(f"{path}.probabilities", message)
        return
    for number, (stage, row) in enumerate(zip(manifest.stages, golden.probabilities, strict=True)):
        if margin(row, [stage.thresholds[str(label)] for label in manifest.labels]) < RESCORE_MARGIN:
            message = f"{list(row)} is within {RESCORE_MARGIN:g} of a threshold or a tie, so that rounding could flip it"
            yield ManifestFault(f"{path}.probabilities[{number}]", f"{message}. Choose another golden item")
