"""The walk: the whole control flow of a cascade, for one item, without any input or output.

Rules of this file:

1. A stage is: check the budget, acquire what is missing, validate, score, compare. In this order, and nowhere else.
2. The walk calls no acquirer and no model. It yields `Acquire` and is sent one outcome per call (fewer, or `NOT_DONE`, if a call
   failed whose policy ends the item; `Expired` around them, if the deadline came first); it yields `Score` and is sent
   probabilities. Drivers (`_drivers`, `_pooled`, `_async`) pump it: one item, many in step, in threads, as a coroutine.
3. The bill is the meter's cost of the features listed by the stages begun, left out those that were known, and those that came
   free out of a cache. It is never accumulated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from emsco_runtime._batch import by_name, said
from emsco_runtime._encoding import ValueFault, are_plain
from emsco_runtime._frozen import FrozenDict
from emsco_runtime._guard import Cached
from emsco_runtime._plan import Acquire, BoundFeature, Call, Plan, StagePlan
from emsco_runtime._rule import accept, is_distribution
from emsco_runtime.decision import Decision, Failure, Label, Reason, StageRecord
from emsco_runtime.errors import AcquisitionError

__all__ = ["NOT_DONE", "Expired", "Failed", "Kept", "NotDone", "Request", "Score", "Walk", "keep", "walk"]

_NEVER = math.inf
_NO_NAMES: frozenset[str] = frozenset()
_NOT_SCORED: Mapping[Label, float] = FrozenDict()


@dataclass(slots=True)
class Score:
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


Request: TypeAlias = Acquire | Score
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
    make = tuple.__new__  # half the price of the record's own constructor, which takes its arguments one by one
    raw: dict[str, Any] = {**known}
    # Sets: a stage may have thousands of features.
    held = free = _NO_NAMES
    values: list[float] = []
    request = Score(0, values)
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
        acquire, cost, added = stage.acquire, stage.cost, stage.added
        given: tuple[str, ...] = ()
        cached: tuple[str, ...] = ()
        if known or free:
            acquire, cost, added, given = _with_known(plan, stage, known, free, raw)
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
        if stage.plain and not given and len(outcomes) == len(stage.names) and are_plain(outcomes):
            values += outcomes
        else:
            kept = keep(acquire.calls, outcomes, raw)
            held |= kept.cached
            if kept.free:
                free |= kept.free
                _, bill, added, _ = _with_known(plan, stage, known, free, raw)
            settled = _settle(plan, stage, raw)
            values += settled.values
            errors += tuple(settled.failures)
            acquired, cached = _sorted_out(settled.obtained, known, held)
            defaulted = tuple(settled.defaulted)
            degraded = degraded or bool(defaulted)
            if expired or settled.fatal is not None:
                trace.append(StageRecord(stage.number, acquired, given, defaulted, added, _NOT_SCORED, cached))
                if not expired:
                    _raise_if_asked(settled, bill, trace, key)
                reason = "deadline" if expired else "acquisition_failed"
                break

        request.stage = stage.number - 1
        request.values = values if stage.order is None else [values[position] for position in stage.order]
        scores = yield request
        if not is_distribution(scores):
            settled = _not_scorable(plan, stage, values)
            errors += tuple(settled.failures)
            trace.append(StageRecord(stage.number, acquired, given, defaulted, added, _NOT_SCORED, cached))
            _raise_if_asked(settled, bill, trace, key)
            reason = "acquisition_failed"
            break

        scored += 1
        position, accepted = accept(scores, stage.thresholds)
        confidence = scores[position]
        probabilities = FrozenDict(zip(labels, scores))  # noqa: B905 - lengths were audited, and strict doubles the price
        trace.append(make(StageRecord, (stage.number, acquired, given, defaulted, added, probabilities, cached)))
        if accepted:
            reason, label = "confident", labels[position]
            break

    return make(
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


def _sorted_out(
    obtained: Sequence[str], known: Mapping[str, object], held: AbstractSet[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which of a stage's features were acquired and which came out of a cache; known ones are neither."""
    if not known and not held:
        return tuple(obtained), ()
    acquired = tuple(name for name in obtained if name not in known and name not in held)
    return acquired, tuple(name for name in obtained if name not in known and name in held)


def _with_known(
    plan: Plan, stage: StagePlan, known: Mapping[str, object], free: AbstractSet[str], raw: Mapping[str, Any]
) -> tuple[Acquire, float, float, tuple[str, ...]]:
    """Return the stage's calls, bill, added cost and known features, when some values were brought or came free."""
    before = [name for name in stage.before if name not in known and name not in free]
    new = [name for name in stage.names if name not in known and name not in free]
    due = Acquire.of(plan.calls[name] for name in new if name not in raw)
    given = tuple(name for name in stage.names if name in known)
    return due, plan.meter.cost([*before, *new]), plan.meter.increment(before, new), given


@dataclass(slots=True)
class Kept:
    """Features whose values came out of a cache, and those of them that are free."""

    cached: set[str]
    free: set[str]


def keep(calls: Sequence[Call], outcomes: Sequence[Any], raw: dict[str, Any]) -> Kept:
    """Note what each feature came to; a driver that stopped at a failure sends fewer outcomes than calls."""
    kept = Kept(set(), set())
    for call, given in zip(calls, outcomes, strict=False):
        outcome = given
        if outcome is NOT_DONE:
            continue
        if isinstance(outcome, Cached):
            kept.cached |= call.serves
            if outcome.free:
                kept.free |= call.serves
            outcome = outcome.outcome
        if call.single:
            raw[call.names[0]] = outcome
        else:
            _unpack(call, outcome, raw)
    return kept


def _unpack(call: Call, outcome: Any, raw: dict[str, Any]) -> None:
    """Spread the result of an acquirer of several features; values that are known already are not overwritten."""
    found = dict.fromkeys(call.names, outcome) if isinstance(outcome, Failed) else by_name(call.names, outcome)
    for name in call.serves:
        if name not in raw:
            value = found[name]
            raw[name] = Failed(value) if isinstance(value, ValueFault) else value


@dataclass(slots=True)
class _Settled:
    """A stage looked at feature by feature: its values, and what went wrong."""

    values: list[float] = field(default_factory=list)
    obtained: list[str] = field(default_factory=list)
    defaulted: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    fatal: Failure | None = None
    policy: str | None = None
    cause: BaseException | None = None


def _settle(plan: Plan, stage: StagePlan, raw: Mapping[str, Any]) -> _Settled:
    """Encode feature by feature, apply each acquirer's policy, and name every failure."""
    if stage.numeric:
        # All at once where all is well: a third of the time with thousands of features.
        values: list[Any] = [raw.get(name) for name in stage.names]
        if are_plain(values):
            return _Settled(values, list(stage.names))
    settled = _Settled()
    for feature in stage.features:
        if feature.name not in raw:
            continue  # the driver stopped before its call: another failure ends this item
        try:
            settled.values.append(_encode(feature, raw[feature.name]))
            settled.obtained.append(feature.name)
        except ValueFault as fault:
            failure = Failure(feature.name, stage.number, fault.kind, fault.message)
            settled.failures.append(failure)
            policy = plan.calls[feature.name].policy
            if policy == "default" and feature.fallback is not None:
                settled.values.append(feature.fallback)
                settled.defaulted.append(feature.name)
            elif settled.fatal is None:
                settled.fatal, settled.policy, settled.cause = failure, policy, fault.__cause__
    return settled


def _encode(feature: BoundFeature, value: Any) -> float:
    if not isinstance(value, Failed):
        try:
            return feature.encode(value)
        except ValueFault:
            raise
        except Exception as error:  # the value may be of a class of the user's, and raise anything
            raise ValueFault("exception", f"reading its value raised {said(error)}") from error
    if isinstance(value.error, ValueFault):
        raise value.error
    raise ValueFault("exception", f"its acquirer raised {said(value.error)}") from value.error


def _not_scorable(plan: Plan, stage: StagePlan, values: Sequence[float]) -> _Settled:
    """Blame the largest value: finite inputs give no probabilities only when they overflow inside the model."""
    names = (*stage.before, *stage.names)
    sizes = [0.0 if math.isnan(value) else abs(value) for value in values]
    name = names[sizes.index(max(sizes))]
    told = f"the largest value is {values[names.index(name)]!r}. Cap it"
    failure = Failure(name, stage.number, "not_scorable", f"the stage's model gives no probabilities for these values; {told}")
    return _Settled(failures=[failure], fatal=failure, policy=plan.calls[name].policy)


def _raise_if_asked(settled: _Settled, bill: float, trace: Sequence[StageRecord], key: str | None) -> None:
    fatal = settled.fatal
    if fatal is not None and settled.policy == "raise":
        message = f"feature {fatal.feature!r} (stage {fatal.stage}): {fatal.message}"
        error = AcquisitionError(message, fatal.feature, fatal.stage, fatal.kind, bill, tuple(trace), key=key)
        raise error from settled.cause
