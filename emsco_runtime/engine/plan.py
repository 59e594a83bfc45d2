"""Binding: a manifest and acquirers become a plan that the walk follows.

All that does not depend on the item is worked out here, once: which callable serves which feature at which stage, the encoders,
the thresholds in label order, the cost of every prefix of stages. All checks are made here and every fault is listed at once.
"""

from __future__ import annotations

import difflib
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from emsco_runtime.acquirers import Acquirer, OnFailure, string_names
from emsco_runtime.bundle.encoding import Encoder, ValueFault, make_encoder
from emsco_runtime.engine.outcomes import BatchOfMany, BatchOfOne, values_by_name
from emsco_runtime.errors import BindError
from emsco_runtime.sources.breaker import CircuitBreaker
from emsco_runtime.sources.cache import AcquirerCache
from emsco_runtime.sources.guard import Guard
from emsco_runtime.support.arguments import is_seconds
from emsco_runtime.support.formatting import format_value

if TYPE_CHECKING:
    from emsco_runtime.bundle.manifest import Feature, Manifest, Stage
    from emsco_runtime.bundle.meter import Meter, StageCost
    from emsco_runtime.decision import Label

__all__ = ["AcquireRequest", "BoundFeature", "Call", "ItemKeyReader", "Plan", "StagePlan", "bind", "is_async"]

_POLICIES: tuple[str, ...] = get_args(OnFailure)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One acquirer as the walk sees it.

    Parameters
    ----------
    function
        Takes an item (a list of items when `batch`).
    names
        The features it obtains.
    batch
        Takes many items at once.
    single
        Its outcome is the value of its one feature, not a mapping or sequence of several.
    policy
        What a failure of it does.
    used_names
        Those of its features that are taken from it; another acquirer may have been preferred for the rest.
    rank
        Its place in the one order in which calls are made, for every item and in every stage.
    guard
        Its time-out, breaker and cache; None where it has none of them.
    is_async
        Calling it gives something to await.
    """

    function: Callable[[Any], Any]
    names: tuple[str, ...]
    batch: bool
    single: bool
    policy: OnFailure
    used_names: frozenset[str]
    rank: int
    guard: Guard | None = None
    is_async: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class AcquireRequest:
    """The walk's request for values: make these calls for the item.

    Parameters
    ----------
    calls
        What to call, in order.
    functions
        Their functions alone, for the loop that makes them.
    simple
        None of them is async or guarded: calling the functions is all there is to do.
    """

    calls: tuple[Call, ...]
    functions: tuple[Callable[[Any], Any], ...]
    simple: bool

    @classmethod
    def from_calls(cls, calls: Iterable[Call]) -> AcquireRequest:
        """Make the request for these calls; an acquirer of several features is called once."""
        ranked = {call.rank: call for call in calls}
        ordered = tuple(ranked[rank] for rank in sorted(ranked))
        simple = not any(call.is_async or call.guard is not None for call in ordered)
        return cls(ordered, tuple(call.function for call in ordered), simple)


@dataclass(frozen=True, slots=True, eq=False)
class BoundFeature:
    """A feature with its encoder and its encoded fallback."""

    name: str
    encode: Encoder
    fallback: float | None


@dataclass(frozen=True, slots=True, eq=False)
class StagePlan:
    """Everything about a stage that no item changes.

    Parameters
    ----------
    number
        Counted from 1.
    earlier_names
        Features of the stages before it.
    names, features
        What it acquires, in the order of the manifest.
    acquire
        The calls due when nothing is known beforehand.
    numeric
        All features are numbers.
    outcomes_are_values
        That, and each call gives just one of them, in their order: the outcomes are the values.
    input_positions
        Positions of the model's inputs among all features acquired so far; None when they are just those, in order.
    thresholds
        One per label, in label order.
    cost
        Cost of all the features listed up to and including this stage.
    added_cost
        What this stage adds to that.
    """

    number: int
    earlier_names: tuple[str, ...]
    names: tuple[str, ...]
    features: tuple[BoundFeature, ...]
    acquire: AcquireRequest
    numeric: bool
    outcomes_are_values: bool
    input_positions: tuple[int, ...] | None
    thresholds: tuple[float, ...]
    cost: float
    added_cost: float


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A bound bundle: what the walk follows for every item."""

    bundle: str
    labels: tuple[Label, ...]
    stages: tuple[StagePlan, ...]
    meter: Meter
    calls: Mapping[str, Call]
    # Features whose acquirers are async, in the order in which they are needed.
    async_features: tuple[str, ...]

    @property
    def simple(self) -> bool:
        """Whether no call is async or guarded."""
        return all(stage.acquire.simple for stage in self.stages)


@dataclass(frozen=True, slots=True)
class ItemKeyReader:
    """The acquirer of a feature when items are mappings themselves; a class, so that it can be pickled."""

    name: str

    def __call__(self, item: Any) -> Any:
        """Return the item's value of the feature."""
        try:
            return item[self.name]
        except (KeyError, IndexError, TypeError):
            raise ValueFault("missing_key", f"the item has no key {self.name!r}. Add it, or register acquirers") from None


def bind(manifest: Manifest, entries: Sequence[Acquirer] | None, on_failure: OnFailure, *, many: bool = False) -> Plan:
    """Check acquirers against a manifest and lay out the plan.

    Parameters
    ----------
    manifest
        An audited manifest.
    entries
        The registered acquirers; None when items are mappings from feature name to value.
    on_failure
        The policy of acquirers that have none of their own.
    many
        Lay it out for many items in step: batch acquirers are preferred, and are called with all of them.

    Raises
    ------
    BindError
        With every fault found.
    """
    needed = {name: None for stage in manifest.stages for name in stage.acquire}
    described = {feature.name: feature for feature in manifest.features}
    features = {name: described[name] for name in needed}
    if entries is None:
        entries = [Acquirer(ItemKeyReader(name), (name,), "feature") for name in needed]
    faults = [*_policy_faults("on_failure", on_failure), *_entry_faults(entries), *_coverage_faults(features, entries)]
    faults += _fallback_faults(features, entries, on_failure)
    if faults:
        raise BindError(faults)
    calls = _make_calls(features, entries, on_failure, many=many)
    stages: list[StagePlan] = []
    earlier_names: list[str] = []
    for stage, cost in zip(manifest.stages, manifest.stage_costs(), strict=True):
        stages.append(_make_stage_plan(stage, earlier_names, len(stages) + 1, features, calls, cost, manifest.labels))
        earlier_names += stage.acquire
    async_features = tuple(name for name, call in calls.items() if call.is_async)
    return Plan(manifest.id, manifest.labels, tuple(stages), manifest.meter(), calls, async_features)


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
    adapt = BatchOfMany if many else BatchOfOne
    return Call(
        function=adapt(entry.function, entry.names) if batch else entry.function,
        names=entry.names,
        batch=batch and many,
        single=entry.shape == "feature" or (batch and len(entry.names) == 1),
        policy=entry.on_failure or on_failure,
        used_names=frozenset(feature.name for feature in used_features),
        rank=rank,
        guard=_make_guard(entry, used_features),
        is_async=is_async(entry.function),
    )


def _make_guard(entry: Acquirer, used_features: Sequence[Feature]) -> Guard | None:
    if entry.timeout_s is None and entry.breaker is None and entry.cache is None:
        return None
    encoders = {feature.name: make_encoder(feature) for feature in used_features}
    return Guard(entry.cache, entry.breaker, entry.timeout_s, _OutcomeValidator(entry.names, entry.shape == "feature", encoders))


@dataclass(frozen=True, slots=True, eq=False)
class _OutcomeValidator:
    """Tells whether the outcome of an acquirer holds an allowed value for every feature that is taken from it."""

    names: tuple[str, ...]
    single: bool
    encoders: Mapping[str, Encoder]

    def __call__(self, outcome: Any) -> bool:
        values = {self.names[0]: outcome} if self.single else values_by_name(self.names, outcome)
        try:
            for name, encode in self.encoders.items():
                if isinstance(values[name], ValueFault):
                    return False
                encode(values[name])
        except Exception:  # noqa: BLE001 - a bad value, or one of a class of the user's that raises when it is looked at
            return False
        return True


def is_async(function: Any) -> bool:
    """Return whether calling a function gives something to await: coroutine functions, and objects whose call is one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _make_stage_plan(
    stage: Stage,
    earlier_names: Sequence[str],
    number: int,
    features: Mapping[str, Feature],
    calls: Mapping[str, Call],
    cost: StageCost,
    labels: Sequence[Label],
) -> StagePlan:
    slots = [*earlier_names, *stage.acquire]
    # An acquirer that served an earlier stage is not called again.
    called = {calls[name].rank for name in earlier_names}
    acquire = AcquireRequest.from_calls(calls[name] for name in stage.acquire if calls[name].rank not in called)
    numeric = all(features[name].kind == "numeric" for name in stage.acquire)
    aligned = [call.names for call in acquire.calls if call.single] == [(name,) for name in stage.acquire]
    place = {name: position for position, name in enumerate(slots)}
    return StagePlan(
        number=number,
        earlier_names=tuple(earlier_names),
        names=stage.acquire,
        features=tuple(_bind_feature(features[name]) for name in stage.acquire),
        acquire=acquire,
        numeric=numeric,
        outcomes_are_values=numeric and aligned,
        input_positions=None if list(stage.inputs) == slots else tuple(place[name] for name in stage.inputs),
        thresholds=tuple(stage.thresholds[str(label)] for label in labels),
        cost=cost.total,
        added_cost=cost.added,
    )


def _bind_feature(feature: Feature) -> BoundFeature:
    encode = make_encoder(feature)
    return BoundFeature(feature.name, encode, None if feature.fallback is None else encode(feature.fallback))


def _entry_faults(entries: Sequence[Acquirer]) -> list[str]:
    faults: list[str] = []
    for entry in entries:
        place = f"@acquirers.{entry.shape}({', '.join(map(repr, entry.names))}) on {entry}"
        if not entry.names or not all(isinstance(name, str) for name in entry.names):
            faults.append(f"{place}: feature names are due, as text, one argument each")
        elif len(set(entry.names)) < len(entry.names):
            faults.append(f"{place}: a feature is named twice")
        if entry.on_failure is not None:
            faults += _policy_faults(f"{place}: on_failure", entry.on_failure)
        faults += [f"{place}: {fault}" for fault in _option_faults(entry)]
        fault = _signature_fault(entry)
        if fault:
            faults.append(f"{place}: {fault}")
    return faults


def _option_faults(entry: Acquirer) -> list[str]:
    timeout: object = entry.timeout_s
    faults = []
    if timeout is not None and not is_seconds(timeout):
        faults.append(f"timeout_s: a number of seconds above 0 is due, got {format_value(timeout)}")
    if not isinstance(entry.breaker, CircuitBreaker | None):
        faults.append(f"breaker: a CircuitBreaker is due, got {type(entry.breaker).__name__}")
    if not isinstance(entry.cache, AcquirerCache | None):
        faults.append(f"cache: an AcquirerCache is due, got {type(entry.cache).__name__}")
    return faults


def _policy_faults(place: str, policy: object) -> list[str]:
    return [] if policy in _POLICIES else [f"{place}: got {policy!r}, one of {', '.join(_POLICIES)} is due"]


def _signature_fault(entry: Acquirer) -> str | None:
    function = entry.function
    if not callable(function):
        return f"not callable: {function!r}. Decorate a function"
    if entry.shape == "batch" and is_async(function):
        return "a batch acquirer must be a plain function; decide_many_async runs async acquirers of single items side by side"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "it is a generator function (it uses yield), so it would return no value. Use return"
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None  # some built-in callables do not tell their signature
    try:
        signature.bind(object())
    except TypeError as error:
        return f"it must take one argument, the {'list of items' if entry.shape == 'batch' else 'item'}: {error}"
    return None


def _coverage_faults(features: Mapping[str, Feature], entries: Sequence[Acquirer]) -> list[str]:
    faults: list[str] = []
    acquirers_by_feature: defaultdict[tuple[str, bool], list[str]] = defaultdict(list)
    for entry in entries:
        # Names that are no text were told above; some cannot even be looked up.
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
