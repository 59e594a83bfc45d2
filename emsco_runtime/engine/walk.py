"""The walk: the whole control flow of a cascade, for one item, without any input or output.

Rules of this file:

1. A stage is: check deadline and budget, acquire what is missing, validate, score, compare. In this order, and nowhere else.
2. The walk calls no acquirer and no model. It yields `AcquireRequest` and is sent one outcome per call (fewer, or `NOT_DONE`, if
   a call failed whose policy ends the item; `Expired` around them, if the deadline came first); it yields `ScoreRequest` and is
   sent probabilities. The drivers (`driving`) answer: for one item, for many in lockstep, in threads, as a coroutine.
3. The bill is the meter's cost of the features listed by the stages started, without those that were known and those that came
   free from a cache. It is never accumulated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from emsco_runtime.acquirers import OnFailure
from emsco_runtime.bundle.encoding import Encoded, ValueFault, are_finite_numbers
from emsco_runtime.bundle.rule import accept, is_distribution
from emsco_runtime.decision import Decision, Failure, Label, Reason, StageRecord
from emsco_runtime.engine.outcomes import reject_coroutine, values_by_name
from emsco_runtime.engine.plan import AcquireRequest, BoundFeature, Call, Plan, StagePlan
from emsco_runtime.errors import AcquisitionError
from emsco_runtime.sources.guard import CachedOutcome
from emsco_runtime.support.arrays import Floats
from emsco_runtime.support.formatting import describe_error
from emsco_runtime.support.frozen_dict import FrozenDict

__all__ = ["NOT_DONE", "Expired", "Failed", "NotDone", "RawValues", "Request", "ScoreRequest", "Walk", "ends_item", "walk"]

_NEVER = math.inf
_NO_NAMES: tuple[str, ...] = ()
_NOT_SCORED: Mapping[Label, float] = FrozenDict()


@dataclass(slots=True)
class ScoreRequest:
    """The walk's request for probabilities: run the stage's model (counted from 0) on these values."""

    stage: int
    values: Sequence[float] | Floats


@dataclass(frozen=True, slots=True)
class Failed:
    """What a driver sends instead of a value if a call raised."""

    error: Exception


def ends_item(call: Call, outcome: Any) -> bool:
    """Return whether this outcome of a call ends the item, so that what its stage would acquire after it would only cost."""
    return isinstance(outcome, Failed) and call.policy != "default"


class NotDone:
    """Instead of an outcome if a call was not made, or not waited for."""


NOT_DONE = NotDone()


@dataclass(frozen=True, slots=True)
class Expired:
    """What a driver sends if the deadline came before all calls were done: the outcomes so far."""

    outcomes: Sequence[Any]


Request: TypeAlias = AcquireRequest | ScoreRequest
Walk: TypeAlias = Generator[Request, Any, Decision]


def walk(plan: Plan, known: Mapping[str, object], budget: float, deadline: float = _NEVER, key: str | None = None) -> Walk:
    """Walk one item through the stages, with known values that were checked, and a deadline by `time.perf_counter`.

    Every decision comes through here, and most items have no known or cached values and no failures. For them everything happens
    in this function and in local variables; what is rarer is left to the functions below.
    """
    started = time.perf_counter()
    labels = plan.labels
    new_tuple = tuple.__new__  # takes half the time of the record's own constructor, which passes the fields one by one
    raw = RawValues({**known}) if known else None
    values: list[Any] = []
    # One object for all stages: a driver reads it before it sends the scores.
    request = ScoreRequest(0, values)
    trace: list[StageRecord] = []
    errors: tuple[Failure, ...] = ()
    degraded = False
    bill = 0.0
    probabilities = _NOT_SCORED
    confidence: float | None = None
    scored = 0
    # It changes when the item ends.
    reason: Reason = "inconclusive"
    label: Label | None = None
    fatal: _FatalFailure | None = None

    for stage in plan.stages:
        acquire, cost, added_cost = stage.acquire, stage.cost, stage.added_cost
        known_names = cached = defaulted = _NO_NAMES
        if raw is not None and (known or raw.free):
            acquire, cost, added_cost, known_names = _remaining_work(plan, stage, known, raw)
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
        encoded_outcomes: Sequence[Any] | None = None
        if stage.outcomes_are_values and not known_names and len(outcomes) == len(acquired):
            is_encoded = stage.numeric and are_finite_numbers(outcomes)
            encoded_outcomes = outcomes if is_encoded else None if expired else _encode_outcomes(stage, outcomes)
        if encoded_outcomes is not None:
            values += encoded_outcomes
        else:
            raw = raw or RawValues()
            if raw.add(acquire.calls, outcomes):
                _, bill, added_cost, _ = _remaining_work(plan, stage, known, raw)
            encoded = _encode_stage(plan, stage, known, raw)
            acquired, cached, defaulted, fatal = encoded.acquired, encoded.cached, encoded.defaulted, encoded.fatal
            values += encoded.values
            errors += encoded.failures
            degraded = degraded or bool(defaulted)
            if expired or fatal is not None:
                reason = "deadline" if expired else "acquisition_failed"

        if reason == "inconclusive":
            request.stage = stage.number - 1
            request.values = values if stage.select_inputs is None else stage.select_inputs(values)
            scores = yield request
            if is_distribution(scores):
                scored += 1
                position, accepted = accept(scores, stage.thresholds)
                confidence = scores[position]
                probabilities = FrozenDict(zip(labels, scores))  # noqa: B905 - lengths were audited, and strict takes twice the time
                record = (stage.number, acquired, known_names, defaulted, added_cost, probabilities, cached)
                trace.append(new_tuple(StageRecord, record))
                if accepted:
                    reason, label = "confident", labels[position]
                    break
                continue
            reason, fatal = "acquisition_failed", _unscorable(plan, stage, values)
            errors += (fatal.failure,)

        trace.append(StageRecord(stage.number, acquired, known_names, defaulted, added_cost, _NOT_SCORED, cached))
        if fatal is not None and reason == "acquisition_failed":
            fatal.raise_by_policy(bill, trace, key, errors)
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


def _remaining_work(
    plan: Plan, stage: StagePlan, known: Mapping[str, object], raw: RawValues
) -> tuple[AcquireRequest, float, float, tuple[str, ...]]:
    """Return the stage's calls, bill, added cost and known features, if some values are known or came free from a cache."""
    before = [name for name in stage.earlier_names if name not in known and name not in raw.free]
    new = [name for name in stage.names if name not in known and name not in raw.free]
    acquire = AcquireRequest.from_calls(plan.calls[name] for name in new if name not in raw.values)
    known_names = tuple(name for name in stage.names if name in known)
    return acquire, plan.meter.cost([*before, *new]), plan.meter.increment(before, new), known_names


@dataclass(slots=True)
class RawValues:
    """Values of one item by feature, as they were acquired; those that came from a cache, and those of them that are free."""

    values: dict[str, Any] = field(default_factory=dict)
    # Sets: a stage may have thousands of features.
    cached: set[str] = field(default_factory=set)
    free: set[str] = field(default_factory=set)

    def add(self, calls: Sequence[Call], outcomes: Sequence[Any]) -> bool:
        """Add the outcomes of calls, fewer if the driver stopped at a failure; return whether some of them are free."""
        some_free = False
        for call, reply in zip(calls, outcomes, strict=False):
            outcome = reply
            if outcome is NOT_DONE:
                continue
            if isinstance(outcome, CachedOutcome):
                self.cached |= call.used_names
                if outcome.free:
                    self.free |= call.used_names
                    some_free = True
                outcome = outcome.outcome
            if call.single:
                self.values[call.names[0]] = outcome
            else:
                self._add_several(call, outcome)
        return some_free

    def _add_several(self, call: Call, outcome: Any) -> None:
        """Add the values of an acquirer of several features; those that are known already are not overwritten."""
        found = dict.fromkeys(call.names, outcome) if isinstance(outcome, Failed) else values_by_name(call.names, outcome)
        values = self.values
        for name in call.used_names.difference(values):
            value = found[name]
            values[name] = Failed(value) if isinstance(value, ValueFault) else value


class _FatalFailure(NamedTuple):
    """The failure that ends an item, with the policy of its acquirer and the exception behind it."""

    failure: Failure
    policy: OnFailure
    cause: BaseException | None = None

    def raise_by_policy(self, bill: float, trace: Sequence[StageRecord], key: str | None, errors: tuple[Failure, ...]) -> None:
        """Raise `AcquisitionError` if the policy says so."""
        feature, stage, kind, message = self.failure
        if self.policy == "raise":
            text = f"feature {feature!r} (stage {stage}): {message}"
            raise AcquisitionError(text, feature, stage, kind, bill, tuple(trace), None, key, errors) from self.cause


class _EncodedStage(NamedTuple):
    """The values of a stage, where each of its features came from, and what failed."""

    values: Sequence[Encoded]
    acquired: tuple[str, ...]
    cached: tuple[str, ...]
    defaulted: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    fatal: _FatalFailure | None = None


def _encode_outcomes(stage: StagePlan, outcomes: Sequence[Any]) -> list[Encoded] | None:
    """Encode outcomes that are values, one for each feature; None if that fails somewhere, for whatever reason."""
    try:
        return [feature.encode(outcome) for feature, outcome in zip(stage.features, outcomes, strict=True)]
    except Exception:  # noqa: BLE001 - a failed call, a cached outcome, a bad value: found out by `_encode_stage`
        return None


def _encode_stage(plan: Plan, stage: StagePlan, known: Mapping[str, object], raw: RawValues) -> _EncodedStage:
    """Encode feature by feature, apply each acquirer's policy, and list every failure."""
    if stage.numeric:
        # All at once if all is well: a third of the time with thousands of features.
        numbers: list[Any] = [raw.values.get(name) for name in stage.names]
        if are_finite_numbers(numbers):
            return _EncodedStage(numbers, *_split_cached(stage.names, known, raw))
    values: list[Encoded] = []
    obtained: list[str] = []
    defaulted: list[str] = []
    failures: list[Failure] = []
    fatal: _FatalFailure | None = None
    for feature in stage.features:
        if feature.name not in raw.values:
            continue  # the driver stopped before its call: another failure ends this item
        try:
            values.append(_encode(feature, raw.values[feature.name]))
            obtained.append(feature.name)
        except ValueFault as fault:
            failures.append(Failure(feature.name, stage.number, fault.kind, fault.message))
            policy = plan.calls[feature.name].policy
            if policy == "default" and feature.fallback is not None:
                values.append(feature.fallback)
                defaulted.append(feature.name)
            else:
                fatal = fatal or _FatalFailure(failures[-1], policy, fault.__cause__)
    return _EncodedStage(values, *_split_cached(obtained, known, raw), tuple(defaulted), tuple(failures), fatal)


def _split_cached(
    obtained: Sequence[str], known: Mapping[str, object], raw: RawValues
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which of a stage's features were acquired and which came from a cache; known ones are neither."""
    if not known and not raw.cached:
        return tuple(obtained), ()
    acquired = tuple(name for name in obtained if name not in known and name not in raw.cached)
    return acquired, tuple(name for name in obtained if name not in known and name in raw.cached)


def _encode(feature: BoundFeature, value: Any) -> Encoded:
    if not isinstance(value, Failed):
        try:
            return feature.encode(value)
        except ValueFault:
            reject_coroutine(value)
            raise
        except Exception as error:  # the value may be of the user's own class, and raise anything
            raise ValueFault("exception", f"reading its value raised {describe_error(error)}") from error
    if isinstance(value.error, ValueFault):
        # A copy: all items of a batch, or of a key, share one error, and each time it is raised its traceback grows.
        raise ValueFault(value.error.kind, value.error.message) from value.error.__cause__
    raise ValueFault("exception", f"its acquirer raised {describe_error(value.error)}") from value.error


def _unscorable(plan: Plan, stage: StagePlan, values: Sequence[Encoded]) -> _FatalFailure:
    """Blame the largest value: finite inputs give no probabilities only if they overflow inside the model."""
    names = (*stage.earlier_names, *stage.names)
    # Of a vector, its largest number.
    largest = [max(np.atleast_1d(value).tolist(), key=_size) for value in values]
    position = max(range(len(largest)), key=lambda place: _size(largest[place]))
    message = f"the stage's model gives no probabilities for these values; the largest value is {largest[position]!r}. Cap it"
    return _FatalFailure(Failure(names[position], stage.number, "not_scorable", message), plan.calls[names[position]].policy)


def _size(number: float) -> float:
    return 0.0 if math.isnan(number) else abs(number)
