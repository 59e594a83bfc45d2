"""Binding: a manifest and acquirers become the plan that the walk follows; they are checked, and all faults listed at once."""

from __future__ import annotations

import difflib
import inspect
import itertools
import operator
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from emsco_runtime.acquirers import Acquirer, OnFailure, string_names
from emsco_runtime.bundle.encoding import ValueFault, make_encoder
from emsco_runtime.bundle.manifest import Feature, Manifest
from emsco_runtime.bundle.meter import StageCost
from emsco_runtime.engine.outcomes import AsyncCopyingCall, BatchCall, CopyingCall, values_by_name
from emsco_runtime.engine.plan import AcquireRequest, BoundFeature, Call, ItemKeyReader, Plan, StagePlan, is_async
from emsco_runtime.errors import BindError
from emsco_runtime.sources.breaker import CircuitBreaker
from emsco_runtime.sources.cache import AcquirerCache
from emsco_runtime.sources.guard import UNGUARDED, Guard
from emsco_runtime.support.arguments import is_seconds
from emsco_runtime.support.arrays import Floats
from emsco_runtime.support.formatting import format_value

__all__ = ["bind"]

_POLICIES: tuple[str, ...] = get_args(OnFailure)


def bind(manifest: Manifest, entries: Sequence[Acquirer] | None, on_failure: OnFailure, *, many: bool = False) -> Plan:
    """Check acquirers against an audited manifest and make the plan; raise `BindError` with every fault found.

    Without entries (None), items are mappings from feature name to value. With `many`, the plan is for many items in lockstep:
    batch acquirers are preferred, and are called with all of them.
    """
    needed = {name: None for stage in manifest.stages for name in stage.acquire}
    described = {feature.name: feature for feature in manifest.features}
    features = {name: described[name] for name in needed}
    if entries is None:
        entries = [Acquirer(ItemKeyReader(name), (name,), "feature") for name in needed]
    faults = [*_policy_faults("on_failure", on_failure), *_entry_faults(entries), *_coverage_faults(features, entries)]
    faults += [*_cache_faults(entries), *_fallback_faults(features, entries, on_failure)]
    if faults:
        raise BindError(faults)
    calls = _make_calls(features, entries, on_failure, many=many)
    costs = manifest.stage_costs()
    stages = tuple(_make_stage_plan(manifest, index, features, calls, cost) for index, cost in enumerate(costs))
    async_features = tuple(name for name, call in calls.items() if call.is_async)
    return Plan(manifest.id, manifest.labels, stages, manifest.meter(), calls, async_features)


def _make_calls(
    needed: Mapping[str, Feature], entries: Sequence[Acquirer], on_failure: OnFailure, *, many: bool
) -> dict[str, Call]:
    """Choose the acquirer of each feature: for many items a batch one where there is one, for a single item the other."""
    # Stable sort: the preferred kind comes last, and the last one wins.
    ordered = sorted(entries, key=lambda entry: (entry.shape == "batch") == many)
    chosen = {name: entry for entry in ordered for name in entry.available_names}
    features_by_acquirer: dict[int, list[Feature]] = {}
    for name, feature in needed.items():
        features_by_acquirer.setdefault(id(chosen[name]), []).append(feature)
    # In the order in which the stages first need them.
    calls = {
        key: _make_call(chosen[used_features[0].name], used_features, rank, on_failure, many=many)
        for rank, (key, used_features) in enumerate(features_by_acquirer.items())
    }
    return {name: calls[id(chosen[name])] for name in needed}


def _make_call(entry: Acquirer, used_features: Sequence[Feature], rank: int, on_failure: OnFailure, *, many: bool) -> Call:
    batch = entry.shape == "batch"
    return Call(
        function=BatchCall(entry.function, entry.names, many) if batch else _make_function(entry, used_features),
        names=entry.names,
        batch=batch and many,
        single=entry.shape == "feature" or (batch and len(entry.names) == 1),
        policy=entry.on_failure or on_failure,
        used_names=frozenset(feature.name for feature in used_features),
        rank=rank,
        guard=_make_guard(entry, used_features),
        is_async=is_async(entry.function),
    )


def _make_function(entry: Acquirer, used_features: Sequence[Feature]) -> Callable[[Any], Any]:
    """Return the function of an acquirer of single items, which copies what may change later."""
    is_single = entry.shape == "feature"
    # The values of items are not made anew: they are the caller's.
    if isinstance(entry.function, ItemKeyReader) or (is_single and used_features[0].kind != "vector"):
        return entry.function
    vectors = None if is_single else tuple(feature.name for feature in used_features if feature.kind == "vector")
    return (AsyncCopyingCall if is_async(entry.function) else CopyingCall)(entry.function, vectors)


def _make_guard(entry: Acquirer, used_features: Sequence[Feature]) -> Guard:
    if entry.timeout_s is None and entry.breaker is None and entry.cache is None:
        return UNGUARDED
    encoders = {feature.name: make_encoder(feature) for feature in used_features}

    def is_valid(outcome: Any) -> bool:
        """Return whether the outcome holds an allowed value for every feature that is taken from it."""
        values = {entry.names[0]: outcome} if entry.shape == "feature" else values_by_name(entry.names, outcome)
        try:
            for name, encode in encoders.items():
                if isinstance(values[name], ValueFault):
                    return False
                encode(values[name])
        except Exception:  # noqa: BLE001 - a bad value, or one of the user's own class that raises when it is read
            return False
        return True

    return Guard(entry.cache, entry.breaker, entry.timeout_s, is_valid)


def _make_stage_plan(
    manifest: Manifest, index: int, features: Mapping[str, Feature], calls: Mapping[str, Call], cost: StageCost
) -> StagePlan:
    stage = manifest.stages[index]
    earlier_names = [name for earlier in manifest.stages[:index] for name in earlier.acquire]
    acquired = [*earlier_names, *stage.acquire]
    # An acquirer that served an earlier stage is not called again.
    called = {calls[name].rank for name in earlier_names}
    acquire = AcquireRequest.from_calls(calls[name] for name in stage.acquire if calls[name].rank not in called)
    numeric = all(features[name].kind == "numeric" for name in stage.acquire)
    aligned = [call.names for call in acquire.calls if call.single] == [(name,) for name in stage.acquire]
    is_as_acquired = list(stage.inputs) == acquired
    return StagePlan(
        number=index + 1,
        earlier_names=tuple(earlier_names),
        names=stage.acquire,
        features=tuple(_bind_feature(features[name]) for name in stage.acquire),
        acquire=acquire,
        numeric=numeric,
        outcomes_are_values=aligned,
        input_positions=None if is_as_acquired else _number_positions(acquired, stage.inputs, features),
        select_inputs=_input_selector(acquired, stage.inputs, features),
        thresholds=tuple(stage.thresholds[str(label)] for label in manifest.labels),
        cost=cost.total,
        added_cost=cost.added,
    )


def _number_positions(acquired: Sequence[str], inputs: Sequence[str], features: Mapping[str, Feature]) -> tuple[int, ...]:
    """Return where the numbers of the inputs are among those of all features acquired; a vector has several."""
    ends = itertools.accumulate(features[name].width for name in acquired)
    stop = dict(zip(acquired, ends, strict=True))
    return tuple(position for name in inputs for position in range(stop[name] - features[name].width, stop[name]))


def _input_selector(
    acquired: Sequence[str], inputs: Sequence[str], features: Mapping[str, Feature]
) -> Callable[[Sequence[Any]], Sequence[float] | Floats] | None:
    place = {name: position for position, name in enumerate(acquired)}
    positions = [place[name] for name in inputs]
    if any(features[name].kind == "vector" for name in inputs):
        return _make_row_filler(positions, [features[name].width for name in inputs])
    if list(inputs) == list(acquired):
        return None
    # With one position alone, `itemgetter` would return a number.
    return operator.itemgetter(*positions) if len(positions) > 1 else operator.itemgetter(slice(positions[0], positions[0] + 1))


def _make_row_filler(positions: Sequence[int], widths: Sequence[int]) -> Callable[[Sequence[Any]], Floats]:
    """Return the function that puts values, vectors among them, one after the other into one row."""
    stops = list(itertools.accumulate(widths))
    parts = [(position, slice(stop - width, stop)) for position, width, stop in zip(positions, widths, stops, strict=True)]

    def fill(values: Sequence[Any]) -> Floats:
        row = np.empty(stops[-1])
        for position, part in parts:
            row[part] = values[position]
        return row

    return fill


def _bind_feature(feature: Feature) -> BoundFeature:
    encode = make_encoder(feature)
    return BoundFeature(feature.name, feature, encode, None if feature.fallback is None else encode(feature.fallback))


def _entry_faults(entries: Sequence[Acquirer]) -> list[str]:
    faults: list[str] = []
    for entry in entries:
        place = f"@acquirers.{entry.shape}({', '.join(map(repr, entry.names))}) on {entry}"
        if not entry.names or not all(isinstance(name, str) for name in entry.names):
            faults.append(f"{place}: expected feature names, as text, one argument each")
        elif len(set(entry.names)) < len(entry.names):
            faults.append(f"{place}: a feature is named twice")
        if entry.on_failure is not None:
            faults += _policy_faults(f"{place}: on_failure", entry.on_failure)
        timeout: object = entry.timeout_s
        if timeout is not None and not is_seconds(timeout):
            faults.append(f"{place}: timeout_s: expected a number of seconds above 0, got {format_value(timeout)}")
        if not isinstance(entry.breaker, CircuitBreaker | None):
            faults.append(f"{place}: breaker: expected a CircuitBreaker, got {type(entry.breaker).__name__}")
        if not isinstance(entry.cache, AcquirerCache | None):
            faults.append(f"{place}: cache: expected an AcquirerCache, got {type(entry.cache).__name__}")
        fault = _signature_fault(entry)
        if fault:
            faults.append(f"{place}: {fault}")
    return faults


def _cache_faults(entries: Sequence[Acquirer]) -> list[str]:
    """Return which acquirers share a cache: its keys do not say whose value it holds."""
    users: defaultdict[int, list[str]] = defaultdict(list)
    for entry in entries:
        if entry.cache is not None:
            users[id(entry.cache)].append(str(entry))
    return [
        f"{', '.join(found)}: they share a cache, which mixes their values; a cache belongs to one acquirer: make one for each"
        for found in users.values()
        if len(found) > 1
    ]


def _policy_faults(place: str, policy: object) -> list[str]:
    return [] if policy in _POLICIES else [f"{place}: expected one of {', '.join(_POLICIES)}, got {policy!r}"]


def _signature_fault(entry: Acquirer) -> str | None:
    function = entry.function
    if not callable(function):
        return f"not callable: {function!r}. Decorate a function"
    if entry.shape == "batch" and is_async(function):
        return (
            "a batch acquirer must be a plain function; decide_many_async runs async acquirers of single items at the same time"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "it is a generator function (it uses yield), so it would return no value. Use return"
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None  # some built-in callables have no signature
    try:
        signature.bind(object())
    except TypeError as error:
        return f"it must take one argument, the {'list of items' if entry.shape == 'batch' else 'item'}: {error}"
    return None


def _coverage_faults(features: Mapping[str, Feature], entries: Sequence[Acquirer]) -> list[str]:
    faults: list[str] = []
    acquirers_by_feature: defaultdict[tuple[str, bool], list[str]] = defaultdict(list)
    for entry in entries:
        # Other names than strings have a fault of their own above; some of them are not even hashable.
        for name in string_names(entry.available_names):
            acquirers_by_feature[name, entry.shape == "batch"].append(str(entry))
    for (name, _), found in acquirers_by_feature.items():
        if len(found) > 1 and name in features:
            faults.append(f"feature {name!r}: {len(found)} acquirers are registered for it ({', '.join(found)}). Keep one")
    available_names = {name for name, _ in acquirers_by_feature}
    for name in features:
        if name not in available_names:
            close = difflib.get_close_matches(name, [other for other in available_names if other not in features], n=1)
            hint = f"; did you mean it by {close[0]!r}?" if close else f'. Register one with @acquirers.feature("{name}")'
            faults.append(f"feature {name!r}: no acquirer is registered for it{hint}")
    return faults


def _fallback_faults(features: Mapping[str, Feature], entries: Sequence[Acquirer], on_failure: OnFailure) -> list[str]:
    return [
        f'feature {name!r}: on_failure is "default", but the bundle gives it no fallback value. Use "reject" or "raise"'
        for entry in entries
        for name in string_names(entry.available_names)
        if name in features
        if features[name].fallback is None and (entry.on_failure or on_failure) == "default"
    ]
