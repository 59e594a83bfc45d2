"""The walk: the whole control flow of a cascade, for one item, without any input or output.

Rules of this file:

1. A stage is: check the budget, acquire what is missing, validate, score, compare. In this order, and nowhere else.
2. The walk calls no acquirer and no model. It yields `AcquireRequest` and is sent one outcome per call (fewer, or `NOT_DONE`, if
   a call failed whose policy ends the item; `Expired` around them, if the deadline came first); it yields `ScoreRequest` and is
   sent probabilities. Drivers (`driving.many`, `pooled`, `asynchronous`) pump it: one item, many in step, in threads, as a
   coroutine.
3. The bill is the meter's cost of the features listed by the stages begun, left out those that were known, and those that came
   free out of a cache. It is never accumulated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from emsco_runtime.bundle.encoding import ValueFault, are_finite_numbers
from emsco_runtime.bundle.rule import accept, is_distribution
from emsco_runtime.decision import Decision, Failure, Label, Reason, StageRecord
from emsco_runtime.engine.outcomes import describe_error, values_by_name
from emsco_runtime.engine.plan import AcquireRequest, BoundFeature, Call, Plan, StagePlan
from emsco_runtime.errors import AcquisitionError
from emsco_runtime.sources.guard import CachedOutcome
from emsco_runtime.support.frozen_dict import FrozenDict

__all__ = [
    "NOT_DONE",
    "CachedNames",
    "Expired",
    "Failed",
    "NotDone",
    "Request",
    "ScoreRequest",
    "Walk",
    "record_outcomes",
    "walk",
]

_NEVER = math.inf
_NO_NAMES: frozenset[str] = frozenset()
_NOT_SCORED: Mapping[Label, float] = FrozenDict()


@dataclass(slots=True)
class ScoreRequest:
    """The walk's request for probabilities: run the stage's model (counted from 0) on these values."""

    stage: int
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Failed:
    """What a driver sends in the place of a value when a call raised."""

    error: Exception


class NotDone:
    """Stands in the place of an outcome when a call was not made, or not waited for."""


NOT_DONE = NotDone()


@dataclass(frozen=True, slots=True)
class Expired:
    """What a driver sends when the deadline came before all calls were done: the outcomes so far."""

    outcomes: Sequence[Any]


Request: TypeAlias = AcquireRequest | ScoreRequest
Walk: TypeAlias = Generator[Request, Any, Decision]


def walk(plan: Plan, known: Mapping[str, object], budget: float, deadline: float = _NEVER, key: str | None = None) -> Walk:
    """Walk one item through the stages.

    Parameters
    ----------
    plan
        The bound bundle.
    known
        Values that the caller has already, checked beforehand.
    budget
        Most that may be billed; infinity for no limit.
    deadline
        When to stop, by `time.perf_counter`; infinity for never.
    key
        The caller's own name of the item, for the decision or the error.
    """
    started = time.perf_counter()
    labels = plan.labels
    new_tuple = tuple.__new__  # half the price of the record's own constructor, which takes its arguments one by one
    raw_values: dict[str, Any] = {**known}
    # Sets: a stage may have thousands of features.
    cached_names = free_names = _NO_NAMES
    values: list[float] = []
    request = ScoreRequest(0, values)
    trace: list[StageRecord] = []
    errors: tuple[Failure, ...] = ()
    degraded = False
    bill = 0.0
    probabilities = _NOT_SCORED
    confidence: float | None = None
    scored = 0
    reason: Reason = "inconclusive"
    label: Label | None = None

    for stage in plan.stages:
        acquire, cost, added_cost = stage.acquire, stage.cost, stage.added_cost
        known_names: tuple[str, ...] = ()
        cached: tuple[str, ...] = ()
        if known or free_names:
            acquire, cost, added_cost, known_names = _remaining_work(plan, stage, known, free_names, raw_values)
        if deadline != _NEVER and time.perf_counter() >= deadline:
            reason = "deadline"
            break
        if cost > budget:
            reason = "budget"
            break
        bill = cost

        outcomes: Any = (yield acquire) if acquire.calls else ()
        expired = outcomes.__class__ is Expired
        if expired:
            outcomes = outcomes.outcomes
        acquired = stage.names
        defaulted: tuple[str, ...] = ()
        if stage.outcomes_are_values and not known_names and len(outcomes) == len(stage.names) and are_finite_numbers(outcomes):
            values += outcomes
        else:
            from_cache = record_outcomes(acquire.calls, outcomes, raw_values)
            cached_names |= from_cache.cached
            if from_cache.free_names:
                free_names |= from_cache.free_names
                _, bill, added_cost, _ = _remaining_work(plan, stage, known, free_names, raw_values)
            stage_values = _encode_stage(plan, stage, raw_values)
            values += stage_values.values
            errors += tuple(stage_values.failures)
            acquired, cached = _split_cached(stage_values.obtained, known, cached_names)
            defaulted = tuple(stage_values.defaulted)
            degraded = degraded or bool(defaulted)
            if expired or stage_values.fatal is not None:
                trace.append(StageRecord(stage.number, acquired, known_names, defaulted, added_cost, _NOT_SCORED, cached))
                if not expired:
                    _raise_by_policy(stage_values, bill, trace, key)
                reason = "deadline" if expired else "acquisition_failed"
                break

        request.stage = stage.number - 1
        request.values = values if stage.input_positions is None else [values[position] for position in stage.input_positions]
        scores = yield request
        if not is_distribution(scores):
            stage_values = _unscorable(plan, stage, values)
            errors += tuple(stage_values.failures)
            trace.append(StageRecord(stage.number, acquired, known_names, defaulted, added_cost, _NOT_SCORED, cached))
            _raise_by_policy(stage_values, bill, trace, key)
            reason = "acquisition_failed"
            break

        scored += 1
        position, accepted = accept(scores, stage.thresholds)
        confidence = scores[position]
        probabilities = FrozenDict(zip(labels, scores))  # noqa: B905 - lengths were audited, and strict doubles the price
        trace.append(new_tuple(StageRecord, (stage.number, acquired, known_names, defaulted, added_cost, probabilities, cached)))
        if accepted:
            reason, label = "confident", labels[position]
            break

    return new_tuple(
        Decision,
        (
            "accepted" if reason == "confident" else "rejected",
            reason,
            label,
            confidence,
            probabilities,
            scored,
            bill,
            time.perf_counter() - started,
            tuple(trace),
            degraded,
            errors,
            plan.bundle,
            key,
        ),
    )


def _split_cached(
    obtained: Sequence[str], known: Mapping[str, object], cached_names: AbstractSet[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which of a stage's features were acquired and which came out of a cache; known ones are neither."""
    if not known and not cached_names:
        return tuple(obtained), ()
    acquired = tuple(name for name in obtained if name not in known and name not in cached_names)
    return acquired, tuple(name for name in obtained if name not in known and name in cached_names)


def _remaining_work(
    plan: Plan, stage: StagePlan, known: Mapping[str, object], free_names: AbstractSet[str], raw_values: Mapping[str, Any]
) -> tuple[AcquireRequest, float, float, tuple[str, ...]]:
    """Return the stage's calls, bill, added cost and known features, when some values were brought or came free."""
    before = [name for name in stage.earlier_names if name not in known and name not in free_names]
    new = [name for name in stage.names if name not in known and name not in free_names]
    acquire = AcquireRequest.from_calls(plan.calls[name] for name in new if name not in raw_values)
    known_names = tuple(name for name in stage.names if name in known)
    return acquire, plan.meter.cost([*before, *new]), plan.meter.increment(before, new), known_names


@dataclass(slots=True)
class CachedNames:
    """Features whose values came out of a cache, and those of them that are free."""

    cached: set[str]
    free_names: set[str]


def record_outcomes(calls: Sequence[Call], outcomes: Sequence[Any], raw_values: dict[str, Any]) -> CachedNames:
    """Note what each feature came to; a driver that stopped at a failure sends fewer outcomes than calls."""
    from_cache = CachedNames(set(), set())
    for call, reply in zip(calls, outcomes, strict=False):
        outcome = reply
        if outcome is NOT_DONE:
            continue
        if isinstance(outcome, CachedOutcome):
            from_cache.cached |= call.used_names
            if outcome.free:
                from_cache.free_names |= call.used_names
            outcome = outcome.outcome
        if call.single:
            raw_values[call.names[0]] = outcome
        else:
            _unpack(call, outcome, raw_values)
    return from_cache


def _unpack(call: Call, outcome: Any, raw_values: dict[str, Any]) -> None:
    """Spread the result of an acquirer of several features; values that are known already are not overwritten."""
    found = dict.fromkeys(call.names, outcome) if isinstance(outcome, Failed) else values_by_name(call.names, outcome)
    for name in call.used_names:
        if name not in raw_values:
            value = found[name]
            raw_values[name] = Failed(value) if isinstance(value, ValueFault) else value


@dataclass(slots=True)
class _StageValues:
    """A stage looked at feature by feature: its values, and what went wrong."""

    values: list[float] = field(default_factory=list)
    obtained: list[str] = field(default_factory=list)
    defaulted: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    fatal: Failure | None = None
    policy: str | None = None
    cause: BaseException | None = None


def _encode_stage(plan: Plan, stage: StagePlan, raw_values: Mapping[str, Any]) -> _StageValues:
    """Encode feature by feature, apply each acquirer's policy, and name every failure."""
    if stage.numeric:
        # All at once where all is well: a third of the time with thousands of features.
        values: list[Any] = [raw_values.get(name) for name in stage.names]
        if are_finite_numbers(values):
            return _StageValues(values, list(stage.names))
    stage_values = _StageValues()
    for feature in stage.features:
        if feature.name not in raw_values:
            continue  # the driver stopped before its call: another failure ends this item
        try:
            stage_values.values.append(_encode(feature, raw_values[feature.name]))
            stage_values.obtained.append(feature.name)
        except ValueFault as fault:
            failure = Failure(feature.name, stage.number, fault.kind, fault.message)
            stage_values.failures.append(failure)
            policy = plan.calls[feature.name].policy
            if policy == "default" and feature.fallback is not None:
                stage_values.values.append(feature.fallback)
                stage_values.defaulted.append(feature.name)
            elif stage_values.fatal is None:
                stage_values.fatal, stage_values.policy, stage_values.cause = failure, policy, fault.__cause__
    return stage_values


def _encode(feature: BoundFeature, value: Any) -> float:
    if not isinstance(value, Failed):
        try:
            return feature.encode(value)
        except ValueFault:
            raise
        except Exception as error:  # the value may be of a class of the user's, and raise anything
            raise ValueFault("exception", f"reading its value raised {describe_error(error)}") from error
    if isinstance(value.error, ValueFault):
        raise value.error
    raise ValueFault("exception", f"its acquirer raised {describe_error(value.error)}") from value.error


def _unscorable(plan: Plan, stage: StagePlan, values: Sequence[float]) -> _StageValues:
    """Blame the largest value: finite inputs give no probabilities only when they overflow inside the model."""
    names = (*stage.earlier_names, *stage.names)
    sizes = [0.0 if math.isnan(value) else abs(value) for value in values]
    name = names[sizes.index(max(sizes))]
    message = f"the largest value is {values[names.index(name)]!r}. Cap it"
    failure = Failure(name, stage.number, "not_scorable", f"the stage's model gives no probabilities for these values; {message}")
    return _StageValues(failures=[failure], fatal=failure, policy=plan.calls[name].policy)


def _raise_by_policy(stage_values: _StageValues, bill: float, trace: Sequence[StageRecord], key: str | None) -> None:
    fatal = stage_values.fatal
    if fatal is not None and stage_values.policy == "raise":
        message = f"feature {fatal.feature!r} (stage {fatal.stage}): {fatal.message}"
        error = AcquisitionError(message, fatal.feature, fatal.stage, fatal.kind, bill, tuple(trace), key=key)
        raise error from stage_values.cause
