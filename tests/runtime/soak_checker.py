"""The soak's checker: each decision recomputed from the bundle's raw JSON, by code that shares nothing with the runtime.

What is guaranteed, and checked for every decision:

- **Every failure is explained.** An error names a feature whose source really raised, hung or answered wrongly for this item; or
  its kind is "timeout", "breaker_open" or "refused", which the load may cause, at a source that has such a guard.
- **No fault is silent.** A source that was asked and did wrong stands in the errors.
- **All else follows.** From the values, the failures listed, the fallbacks and the options, one decision follows: its status,
  reason, label, number of stages, probabilities, trace and bill. "deadline" may come at any stage, where a deadline was given.
- **Without errors, and unless a deadline came first, it is the decision of a world without faults.**
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from emsco_runtime import Cascade, Decision
from tests.runtime.soak_bundles import Version
from tests.runtime.soak_sources import BREAKING, FREE, FULL, POLICIES, TIMED, Calls
from tests.runtime.soak_world import SENDERS, SOURCE_OF, Fault, Options, World, expected_answer, expected_failures

LOAD_FAILURES = ("timeout", "breaker_open", "refused")


class WrongDecision(Exception):
    """A decision that is not as guaranteed."""


@dataclass(frozen=True, slots=True)
class ItemRequest:
    """One item and how it was decided: alone, or as one of many."""

    item: int
    options: Options
    many: bool = False


class Model:
    """One version of the bundle, as its raw manifest describes it.

    Parameters
    ----------
    version
        The version.
    """

    def __init__(self, version: Version) -> None:
        raw = json.loads(version.bundle.manifest.model_dump_json())
        self.labels: list[str] = raw["labels"]
        self.features: dict[str, Any] = {one["name"]: one for one in raw["features"]}
        self.groups: dict[str, float] = {one["name"]: one["cost"] for one in raw["groups"]}
        self.stages: list[Any] = raw["stages"]
        self.weights = [matrix.tolist() for matrix in version.weights]
        self.reference = Cascade(version.bundle)

    def bill(self, names: Iterable[str]) -> float:
        """Return what a set of features costs: each of them and each of their groups once."""
        bought = set(names)
        shared = {self.features[name]["group"] for name in bought} - {None}
        return math.fsum([*(self.features[name]["cost"] for name in bought), *(self.groups[group] for group in shared)])

    def number(self, name: str, value: Any) -> float:
        """Return a value as the models take it: a category by its place, a gap as the 0 that these models impute."""
        if self.features[name]["kind"] == "categorical":
            return float(self.features[name]["categories"].index(value))
        return 0.0 if math.isnan(value) else float(value)

    def probabilities(self, stage: int, values: Sequence[float]) -> list[float]:
        """Return what the logistic model of a stage gives."""
        logits = [math.fsum(map(float.__mul__, row, values)) for row in self.weights[stage]]
        top = max(logits)
        powers = [math.exp(logit - top) for logit in logits]
        total = math.fsum(powers)
        return [power / total for power in powers]


@dataclass(slots=True)
class DecisionChecker:
    """The one decision that follows from the values, the failures listed and the options.

    Parameters
    ----------
    model, world, calls
        The bundle, the sources, and how often they were called.
    request
        The item.
    decision
        What the runtime decided.
    seen
        Counts of what was met, for the report.
    """

    model: Model
    world: World
    calls: Calls
    request: ItemRequest
    decision: Decision
    seen: Counter[str]
    reported: dict[tuple[str, int], str] = field(default_factory=dict)
    explained: set[tuple[str, int]] = field(default_factory=set)
    free: set[str] = field(default_factory=set)
    numbers: list[float] = field(default_factory=list)
    degraded: bool = False

    def check(self) -> None:
        """Recompute the decision.

        Raises
        ------
        WrongDecision
            If it is another one.
        """
        decision = self.decision
        self.reported = {(one.feature, one.stage): one.kind for one in decision.errors}
        reason, label, started, bill = self._walk()
        expected = ("accepted" if reason == "confident" else "rejected", reason, label, started, bill, self.degraded)
        got = (decision.status, decision.reason, decision.label, len(decision.trace), decision.cost, decision.degraded)
        _check_equal("outcome", expected, got)
        scored = [one for one in decision.trace if one.probabilities]
        _check_equal("stages scored", len(scored), decision.stages)
        _check_equal(
            "probabilities of the last stage", dict(scored[-1].probabilities) if scored else {}, dict(decision.probabilities)
        )
        _check_equal("confidence", max(decision.probabilities.values(), default=None), decision.confidence)
        _check_equal("errors", self.explained, set(self.reported))
        _check_equal("number of errors", len(self.explained), len(decision.errors))

    def _walk(self) -> tuple[str, str | None, int, float]:
        """Return reason, label, stages started and bill."""
        model, decision, options = self.model, self.decision, self.request.options
        known = options.known or {}
        bought: list[str] = []
        bill = 0.0
        for stage, described in enumerate(model.stages, 1):
            bought += [name for name in described["acquire"] if name not in known]
            if decision.reason == "deadline" and len(decision.trace) == stage - 1:
                return self._deadline(), None, stage - 1, bill
            if options.budget is not None and model.bill(set(bought) - self.free) > options.budget:
                return "budget", None, stage - 1, bill
            if len(decision.trace) < stage:
                raise WrongDecision(f"stage {stage} was not started")
            self._acquire(stage, described["acquire"], known)
            bill = model.bill(set(bought) - self.free)
            if decision.reason == "deadline" and len(decision.trace) == stage:
                return self._deadline(), None, stage, bill
            if any(POLICIES[SOURCE_OF[name]] == "reject" for name, at in self.explained if at == stage):
                return "acquisition_failed", None, stage, bill
            if len(self.numbers) != len(described["inputs"]):
                raise WrongDecision(f"stage {stage} has {len(self.numbers)} values for {described['inputs']}")
            label = self._score(stage, described)
            if label is not None:
                return "confident", label, stage, bill
        return "inconclusive", None, len(model.stages), bill

    def _deadline(self) -> str:
        if self.request.options.deadline_s is None:
            raise WrongDecision("a deadline came although none was set")
        return "deadline"

    def _acquire(self, stage: int, names: Sequence[str], known: Mapping[str, Any]) -> None:
        """Look at every feature of a stage, and check that the trace shows the same."""
        decision = self.decision
        record = decision.trace[stage - 1]
        # The item ended in this stage: what was not waited for is not recorded.
        ended = len(decision.trace) == stage and decision.reason in ("deadline", "acquisition_failed")
        acquired, defaulted = [], []
        for name in names:
            if name in known:
                self.numbers.append(self.model.number(name, known[name]))
                continue
            if name in record.cached:
                self._cached(name)
                continue
            if ended and name not in record.acquired and name not in record.defaulted and (name, stage) not in self.reported:
                self.seen["features not waited for"] += 1
                continue
            if self._failed(name, stage):
                self.explained.add((name, stage))
                if POLICIES[SOURCE_OF[name]] == "default":
                    defaulted.append(name)
                    self.numbers.append(self.model.number(name, self.model.features[name]["fallback"]))
                continue
            acquired.append(name)
            self.numbers.append(self.model.number(name, self._answer(name)))
        self.degraded = self.degraded or bool(defaulted)
        got = (record.stage, list(record.known), list(record.acquired), list(record.defaulted))
        _check_equal(f"trace of stage {stage}", (stage, [name for name in names if name in known], acquired, defaulted), got)

    def _cached(self, name: str) -> None:
        if name not in (FREE, FULL) or self.calls.of(name, self.request.item):
            raise WrongDecision(f"{name} is listed as cached, and was acquired {self.calls.of(name, self.request.item)} times")
        self.seen["values from caches"] += 1
        if name == FREE:
            self.free.add(name)
        self.numbers.append(self.model.number(name, self.world.value(name, self.request.item)))

    def _failed(self, name: str, stage: int) -> bool:
        """Return whether a feature that was waited for failed, after a look at whether it should have."""
        source, item = SOURCE_OF[name], self.request.item
        fault = self.world.fault(source, item, many=self.request.many)
        expected, got = expected_failures(source, fault).get(name), self.reported.get((name, stage))
        if got is not None and self._shared(name, got):
            self.seen["failures of a call for another item"] += 1
            self.seen[got] += 1
            return True
        if got in LOAD_FAILURES:
            if (got == "timeout" and source not in TIMED) or (got == "breaker_open" and source not in BREAKING):
                raise WrongDecision(f"{name}: its source has no guard for {got}")
            self.seen[got] += 1
            self.seen["timeouts of sources that did not hang"] += got == "timeout" and fault is not Fault.HANG
            return True
        if got is None and expected == "timeout":
            # It answered before it was looked at: late, and good.
            self.seen["hung, but answered before it was looked at"] += 1
            return False
        if got != expected:
            raise WrongDecision(f"{name}: expected {expected} at stage {stage}, got {got}")
        if self.calls.of(source, item) != 1:
            raise WrongDecision(f"{name}: its source was called {self.calls.of(source, item)} times")
        if got is not None:
            self.seen[got] += 1
        return got is not None

    def _shared(self, name: str, kind: str) -> bool:
        """Return whether a failure may be that of a call which another item of the same sender made, and this one waited for."""
        source, item = SOURCE_OF[name], self.request.item
        if name not in (FREE, FULL) or self.calls.of(source, item):
            return False
        others = range(item % SENDERS, self.world.items, SENDERS)
        return any(expected_failures(source, self.world.fault(source, other, many=False)).get(name) == kind for other in others)

    def _answer(self, name: str) -> Any:
        source, item = SOURCE_OF[name], self.request.item
        answer = expected_answer(self.world, source, item, self.world.fault(source, item, many=self.request.many))
        return answer[name] if source == "auth" else answer

    def _score(self, stage: int, described: Mapping[str, Any]) -> str | None:
        """Return the label that is accepted at a stage, after a look at the probabilities."""
        labels = self.model.labels
        expected = self.model.probabilities(stage - 1, self.numbers)
        got = self.decision.trace[stage - 1].probabilities
        if [*got] != labels or max(abs(got[label] - one) for label, one in zip(labels, expected, strict=True)) > 1e-9:
            raise WrongDecision(f"probabilities of stage {stage}: expected {expected}, got {dict(got)}")
        top = expected.index(max(expected))
        return labels[top] if expected[top] >= described["thresholds"][labels[top]] else None


def check_reference(model: Model, world: World, request: ItemRequest, decision: Decision) -> bool:
    """Check that a decision without faults is the one of a world without faults; return whether that is guaranteed for it."""
    cached = {name for record in decision.trace for name in record.cached}
    options = request.options
    if decision.errors or decision.reason == "deadline" or (options.budget is not None and FREE in cached):
        return False
    values = {name: world.value(name, request.item) for name in SOURCE_OF}
    if world.fault("body", request.item, many=request.many) is Fault.NAN:
        values["body"] = math.nan
    plain = model.reference.decide(values, budget=options.budget, known=options.known)
    expected, got = (
        (one.status, one.reason, one.label, one.stages, None if FREE in cached else one.cost) for one in (plain, decision)
    )
    _check_equal("fault-free reference", expected, got)
    return True


def _check_equal(what: str, expected: Any, got: Any) -> None:
    if expected != got:
        raise WrongDecision(f"{what}: expected {expected}, got {got}")
