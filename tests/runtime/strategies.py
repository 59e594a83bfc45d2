"""Hypothesis strategies that several tests share: bundles, items, awkward numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.bundle.reading import Bundle
from emsco_runtime.testing import make_bundle

NAMES = ("a", "b", "c", "d", "e", "f", "g")

# Sums of these depend on the order of adding.
prices = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.7, 1.1, 2.675, 7.27, 22.78, 41.59, 1e-3, 1e6])


@st.composite
def bundles(draw: st.DrawFn, *, mixed: bool = False) -> Bundle:
    """Draw a bundle: up to seven features, some in one or several groups, up to four stages; mixed kinds on request."""
    names = list(draw(st.permutations(NAMES[: draw(st.integers(1, len(NAMES)))])))
    cuts = sorted(draw(st.sets(st.integers(1, len(names) - 1), max_size=3))) if len(names) > 1 else []
    stages = [names[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(names)], strict=True)]
    group_costs = draw(st.lists(prices, max_size=3))
    groups = {f"g{index}": (cost, []) for index, cost in enumerate(group_costs)}
    features = [draw(_features(name, list(groups), mixed=mixed)) for name in names]
    if not any(feature.cost for feature in features) and not any(group_costs):
        features[0] = features[0].model_copy(update={"cost": 0.1})
    labels = draw(st.sampled_from([("ham", "spam"), (0, 1), ("x", "y", "z"), (3, 1, 2, 0)]))
    return make_bundle(
        stages,
        features=features,
        groups=groups,
        labels=labels,
        threshold=draw(st.sampled_from([0.4, 0.6, 0.8, 0.95])),
        seed=draw(st.integers(0, 1000)),
    )


@st.composite
def _features(draw: st.DrawFn, name: str, groups: list[str], *, mixed: bool) -> Feature:
    kind = draw(st.sampled_from(["numeric", "boolean", "categorical", "vector"])) if mixed else "numeric"
    fallback: Any = {"numeric": 0.5, "boolean": True, "categorical": "red", "vector": (0.5, -1.0, 2.0)}[kind]
    return Feature(
        name=name,
        kind=kind,
        width=3 if kind == "vector" else 1,
        categories=("red", "green", "3") if kind == "categorical" else (),
        cost=draw(prices),
        missing=draw(st.sampled_from(["forbid", "impute"])) if mixed else "forbid",
        unknown=draw(st.sampled_from(["fail", "ignore"])) if kind == "categorical" else "fail",
        fallback=fallback,
    ).with_groups(draw(st.lists(st.sampled_from(groups), unique=True)) if groups else [])


good_numbers = st.floats(-5, 5, allow_nan=False) | st.integers(-5, 5)
good_values = {
    "numeric": good_numbers,
    "boolean": st.sampled_from([True, False, 0, 1, 1.0]),
    "categorical": st.sampled_from(["red", "green", "3", 3, 3.0]),
    "vector": st.lists(good_numbers, min_size=3, max_size=3) | st.tuples(*[good_numbers] * 3).map(np.array),
}
awkward_vectors = [[float("nan")] * 3, [1.0, None, 2.0], [1.0, "x", 2.0], [1.0, 2.0], np.array([1.0, float("inf"), 0.0])]
bad_values = st.sampled_from([None, float("nan"), float("inf"), "text", "blue", 0.5, 7, [1.0], 10**400, *awkward_vectors])


@st.composite
def items(draw: st.DrawFn, bundle: Bundle, *, faults: bool = False) -> dict[str, Any]:
    """Draw an item: a value for every feature; now and then a faulty one, on request."""
    return {
        feature.name: draw(st.one_of(*[good_values[feature.kind]] * 4, bad_values) if faults else good_values[feature.kind])
        for feature in bundle.manifest.features
    }
