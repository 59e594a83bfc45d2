"""Random faults: the walk, and every way of driving it, against a plain re-telling of the contract."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from emsco_runtime import AcquirerCache, AcquirerPool, Acquirers, AcquisitionError, Bundle, Cascade, CircuitBreaker, Decision
from emsco_runtime.bundle.encoding import ValueFault, make_encoder
from emsco_runtime.bundle.rule import accept
from emsco_runtime.engine.binding import bind
from emsco_runtime.engine.plan import AcquireRequest
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.engine.walk import NOT_DONE, Expired, Failed, walk
from emsco_runtime.sources.guard import CachedOutcome
from emsco_runtime.testing import make_bundle
from tests.runtime.strategies import bundles, items, prices
from tests.runtime.test_breaker import Clock, fail

pytestmark = pytest.mark.uncounted

POLICIES = ["raise", "reject", "default"]
POOL = AcquirerPool(4)


@dataclass(frozen=True)
class Source:
    """One acquirer of the test: its features, its policy, and what befalls its call."""

    names: tuple[str, ...]
    policy: str
    behaviour: str


ASKED = ("answers", "raises", "lacks a key")
BEHAVIOURS = ["answers"] * 4 + ["raises", "is late", "is cached, free", "is cached, charged", "lacks a key"]


@st.composite
def sources(draw: st.DrawFn, names: Sequence[str], behaviours: Sequence[str]) -> list[Source]:
    """Draw acquirers, of one feature or of several, that serve all names."""
    left, made = list(draw(st.permutations(names))), []
    while left:
        count = draw(st.integers(1, min(3, len(left))))
        made.append(Source(tuple(left[:count]), draw(st.sampled_from(POLICIES)), draw(st.sampled_from(behaviours))))
        left = left[count:]
    return made


@dataclass
class Expected:
    """What the contract says must happen."""

    reason: str = "inconclusive"
    label: Any = None
    stages: int = 0
    cost: float = 0.0
    degraded: bool = False
    raised: str | None = None
    calls: list[tuple[str, ...]] = field(default_factory=list)
    trace: list[tuple[Any, ...]] = field(default_factory=list)
    errors: list[tuple[str, int, str]] = field(default_factory=list)


def expected_by_contract(
    bundle: Bundle,
    serving: Sequence[Source],
    item: Mapping[str, Any],
    known: Mapping[str, Any],
    budget: float,
    calls_before_deadline: int,
    *,
    guarded: bool = False,
) -> Expected:
    """Tell the contract again, plainly; at the call of number `calls_before_deadline` the deadline comes.

    Behind real guards only those sources are asked that neither a cache nor a breaker stands before, and a cache has kept nothing
    that a feature does not allow.
    """
    manifest, expected, scorer = bundle.manifest, Expected(), Scorer.from_bundle(bundle)
    encoders = {feature.name: make_encoder(feature) for feature in manifest.features}
    fallbacks = {feature.name: feature.fallback for feature in manifest.features}
    owner = {name: source for source in serving for name in source.names}
    order = list(dict.fromkeys(owner[name] for stage in manifest.stages for name in stage.acquire))
    meter = manifest.meter()
    got: dict[str, Any] = {}
    cached: set[str] = set()
    free: set[str] = set()
    before: list[str] = []
    values: list[float] = []

    def allowed(name: str) -> bool:
        try:
            encoders[name](item[name])
        except ValueFault:
            return False
        return True

    for number, stage in enumerate(manifest.stages, start=1):

        def price(names: Sequence[str]) -> list[str]:
            return [name for name in names if name not in known and name not in free]

        if meter.cost(price([*before, *stage.acquire])) > budget:
            expected.reason = "budget"
            return expected
        expired = ended = False
        for source in order:
            needed = [name for name in stage.acquire if owner[name] is source and name not in known and name not in got]
            if not needed or ended:
                continue
            if len(expected.calls) == calls_before_deadline:
                expired = True
                break
            behaviour = source.behaviour
            if guarded and behaviour.startswith("is cached") and not all(allowed(name) for name in source.names):
                behaviour = "answers"
            if not guarded or behaviour in ASKED:
                expected.calls.append(source.names)
            for position, name in enumerate(source.names):
                if behaviour == "raises":
                    got[name] = "exception"
                elif behaviour == "has an open breaker":
                    got[name] = "breaker_open"
                elif behaviour == "is late":
                    got[name] = "timeout"
                elif behaviour == "lacks a key" and len(source.names) > 1 and position == 0:
                    got[name] = "missing_key"
                else:
                    got[name] = (item[name],)
            if behaviour.startswith("is cached"):
                cached.update(source.names)
            if behaviour == "is cached, free":
                free.update(source.names)
            # A bad value is only seen when the stage is validated; a call that failed ends the item at once.
            ended = behaviour in ("raises", "is late", "has an open breaker") and source.policy != "default"
        expected.cost = meter.cost(price([*before, *stage.acquire]))
        fatal: tuple[str, str] | None = None
        obtained: list[str] = []
        defaulted: list[str] = []
        for name in stage.acquire:
            if name in known:
                values.append(encoders[name](known[name]))
                continue
            if name not in got:
                continue
            kind = got[name]
            if isinstance(kind, tuple):
                try:
                    values.append(encoders[name](kind[0]))
                    obtained.append(name)
                    continue
                except ValueFault as fault:
                    kind = fault.kind
            expected.errors.append((name, number, kind))
            if owner[name].policy == "default":
                values.append(encoders[name](fallbacks[name]))
                defaulted.append(name)
            elif fatal is None:
                fatal = (name, owner[name].policy)
        expected.degraded = expected.degraded or bool(defaulted)
        expected.trace.append(
            (
                number,
                tuple(name for name in obtained if name not in cached),
                tuple(name for name in stage.acquire if name in known),
                tuple(defaulted),
                meter.increment(price(before), price(stage.acquire)),
                tuple(name for name in obtained if name in cached),
            )
        )
        if expired:
            expected.reason = "deadline"
            return expected
        if fatal is not None:
            expected.reason = "acquisition_failed"
            expected.raised = fatal[0] if fatal[1] == "raise" else None
            return expected
        before += stage.acquire
        place = {name: position for position, name in enumerate(before)}
        # A vector is several numbers.
        inputs = [one for name in stage.inputs for one in np.atleast_1d(values[place[name]]).tolist()]
        scores = scorer.score(number - 1, inputs)
        expected.stages = number
        label, accepted = accept(scores, [stage.thresholds[str(one)] for one in manifest.labels])
        if accepted:
            expected.reason, expected.label = "confident", manifest.labels[label]
            return expected
    return expected


def compare(expected: Expected, found: Decision | AcquisitionError) -> None:
    """Compare all that the contract says of one item."""
    trace = [(one.stage, one.acquired, one.known, one.defaulted, one.cost, one.cached) for one in found.trace]
    assert trace == expected.trace
    assert found.cost == expected.cost
    if isinstance(found, AcquisitionError):
        assert found.feature == expected.raised
        assert (found.feature, found.stage, found.kind) in expected.errors
        return
    assert expected.raised is None
    assert found.status == ("accepted" if expected.reason == "confident" else "rejected")
    assert (found.reason, found.label, found.stages, found.degraded) == (
        expected.reason,
        expected.label,
        expected.stages,
        expected.degraded,
    )
    assert [failure[:3] for failure in found.errors] == expected.errors


def answer(source: Source, item: Mapping[str, Any]) -> Any:
    """Return what a source gives when it is called."""
    if source.behaviour == "raises":
        raise OSError("down")
    if len(source.names) == 1:
        return item[source.names[0]]
    left_out = 1 if source.behaviour == "lacks a key" else 0
    return {name: item[name] for name in source.names[left_out:]}


def registry(
    serving: Sequence[Source], calls: list[tuple[str, ...]], asynchronous: set[int], cached: Mapping[str, Any] | None = None
) -> Acquirers:
    """Return acquirers that do what their fate says, and write down their calls; caches hold what there is of this item."""
    acquirers = Acquirers()
    for position, source in enumerate(serving):

        def plain(item: Any, source: Source = source) -> Any:
            calls.append(source.names)
            return answer(source, item)

        async def async_source(item: Any, source: Source = source) -> Any:
            calls.append(source.names)
            await asyncio.sleep(0)
            return answer(source, item)

        register = acquirers.feature if len(source.names) == 1 else acquirers.features
        breaker = CircuitBreaker(failures=1) if source.behaviour == "has an open breaker" else None
        if breaker is not None:
            fail(breaker)
        options: dict[str, Any] = {"on_failure": source.policy, "breaker": breaker, "cache": filled_cache(source, cached)}
        register(*source.names, **options)(async_source if position in asynchronous else plain)
    return acquirers


def filled_cache(source: Source, item: Mapping[str, Any] | None) -> AcquirerCache | None:
    """Return a cache that has what the source would answer, where that is its fate."""
    if item is None or not source.behaviour.startswith("is cached"):
        return None
    cache = AcquirerCache(key=lambda _: "all", ttl_s=600.0, charge="free" if source.behaviour.endswith("free") else "full")
    cache.put("all", answer(source, item))
    return cache


def drive(cascade_plan: Any, scorer: Scorer, serving: Sequence[Source], item: Any, steps: Any, calls_before_deadline: int) -> Any:
    """Pump a walk with made-up outcomes: timeouts and cached values included, without waiting for any."""
    by_names = {source.names: source for source in serving}
    calls: list[tuple[str, ...]] = []
    reply: Any = None
    try:
        while True:
            request = steps.send(reply)
            if not isinstance(request, AcquireRequest):
                reply = scorer.score(request.stage, request.values)
                continue
            outcomes: list[Any] = []
            reply = outcomes
            for call in request.calls:
                if len(calls) == calls_before_deadline:
                    outcomes += [NOT_DONE] * (len(request.calls) - len(outcomes))
                    reply = Expired(outcomes)
                    break
                calls.append(call.names)
                source = by_names[call.names]
                if source.behaviour == "is late":
                    outcomes.append(Failed(ValueFault("timeout", "late")))
                elif source.behaviour == "raises":
                    outcomes.append(Failed(OSError("down")))
                elif source.behaviour.startswith("is cached"):
                    outcomes.append(CachedOutcome(answer(source, item), source.behaviour.endswith("free")))
                else:
                    outcomes.append(answer(source, item))
                if isinstance(outcomes[-1], Failed) and call.policy != "default":
                    break
    except StopIteration as stop:
        return stop.value, calls
    except AcquisitionError as error:
        return error, calls


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_the_walk_under_random_faults(data: st.DataObject) -> None:
    """Exceptions, timeouts, bad values, missing keys, cached values, deadlines, budgets, policies, known values: all agree."""
    bundle = data.draw(bundles(mixed=True))
    names = [feature.name for feature in bundle.manifest.features]
    serving = data.draw(sources(names, BEHAVIOURS))
    item = data.draw(items(bundle, faults=True))
    good = data.draw(items(bundle))
    known = {name: good[name] for name in data.draw(st.sets(st.sampled_from(names), max_size=2))}
    budget = data.draw(st.sampled_from([math.inf]) | prices)
    calls_before_deadline = data.draw(st.sampled_from([10**6, 0, 1, 2, 3]))
    plan = bind(bundle.manifest, registry(serving, [], set()).entries, "raise")
    scorer = Scorer.from_bundle(bundle)
    found, calls = drive(plan, scorer, serving, item, walk(plan, known, budget), calls_before_deadline)
    expected = expected_by_contract(bundle, serving, item, known, budget, calls_before_deadline)
    assert calls == expected.calls
    compare(expected, found)


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_every_way_of_deciding_under_random_faults(data: st.DataObject) -> None:
    """Plain acquirers, no clock: `decide`, `decide_many` and both async ways call, bill and fail as the contract says."""
    bundle = data.draw(bundles(mixed=True))
    names = [feature.name for feature in bundle.manifest.features]
    serving = data.draw(sources(names, ["answers", "answers", "raises", "lacks a key"]))
    item = data.draw(items(bundle, faults=True))
    good = data.draw(items(bundle))
    known = {name: good[name] for name in data.draw(st.sets(st.sampled_from(names), max_size=2))}
    budget = data.draw(st.sampled_from([math.inf]) | prices)
    expected = expected_by_contract(bundle, serving, item, known, budget, 10**6)
    calls: list[tuple[str, ...]] = []
    cascade = Cascade(bundle, registry(serving, calls, set()))
    for way in (
        lambda: cascade.decide(item, budget=budget, known=known),
        lambda: cascade.decide_many([item], budget=budget, known=[known])[0],
        lambda: asyncio.run(cascade.decide_async(item, budget=budget, known=known)),
        lambda: asyncio.run(cascade.decide_many_async([item], budget=budget, known=[known]))[0],
    ):
        calls.clear()
        try:
            found: Decision | AcquisitionError = way()
        except AcquisitionError as error:
            found = error
        assert calls == expected.calls
        compare(expected, found)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_coroutines_under_random_faults(data: st.DataObject) -> None:
    """Some acquirers async, at the same time: the outcome and the bill are those of one after the other."""
    bundle = data.draw(bundles(mixed=True))
    names = [feature.name for feature in bundle.manifest.features]
    serving = data.draw(sources(names, ["answers", "answers", "raises", "lacks a key"]))
    item = data.draw(items(bundle, faults=True))
    budget = data.draw(st.sampled_from([math.inf]) | prices)
    asynchronous = data.draw(st.sets(st.integers(0, len(serving) - 1)))
    expected = expected_by_contract(bundle, serving, item, {}, budget, 10**6)
    calls: list[tuple[str, ...]] = []
    cascade = Cascade(bundle, registry(serving, calls, asynchronous), concurrency=data.draw(st.sampled_from([1, 2, 32])))
    # Two failures of one stage end the item in either order: which is raised, and which others answered, may differ then.
    fatal = {source.policy for source in serving} - {"default"}
    try:
        found: Decision | AcquisitionError = asyncio.run(cascade.decide_async(item, budget=budget))
    except AcquisitionError as error:
        found = error
    assert found.cost == expected.cost
    assert len(calls) == len(set(calls))
    if not fatal:
        assert sorted(calls) == sorted(expected.calls)
        compare(expected, found)
    elif isinstance(found, Decision):
        assert (found.reason, found.label, found.stages) == (expected.reason, expected.label, expected.stages)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_every_way_behind_guards_under_random_faults(data: st.DataObject) -> None:
    """Real caches and open breakers, plain acquirers, one by one and at the same time in threads: all as the contract says."""
    bundle = data.draw(bundles(mixed=True))
    names = [feature.name for feature in bundle.manifest.features]
    behaviours = ["answers", "answers", "raises", "lacks a key", "is cached, free", "is cached, charged", "has an open breaker"]
    serving = data.draw(sources(names, behaviours))
    item = data.draw(items(bundle, faults=True))
    good = data.draw(items(bundle))
    known = {name: good[name] for name in data.draw(st.sets(st.sampled_from(names), max_size=2))}
    budget = data.draw(st.sampled_from([math.inf]) | prices)
    expected = expected_by_contract(bundle, serving, item, known, budget, 10**6, guarded=True)
    for pool, way in (
        (None, lambda cascade: cascade.decide(item, budget=budget, known=known)),
        (None, lambda cascade: cascade.decide_many([item], budget=budget, known=[known])[0]),
        (None, lambda cascade: asyncio.run(cascade.decide_async(item, budget=budget, known=known))),
        (POOL, lambda cascade: cascade.decide(item, budget=budget, known=known)),
        (POOL, lambda cascade: cascade.decide_many([item], budget=budget, known=[known])[0]),
    ):
        # A list of its own: in threads, a call that is not waited for may be recorded late.
        calls: list[tuple[str, ...]] = []
        cascade = Cascade(bundle, registry(serving, calls, set(), item), pool=pool)
        try:
            found: Decision | AcquisitionError = way(cascade)
        except AcquisitionError as error:
            found = error
        compare(expected, found)
        if pool is None:
            assert calls == expected.calls
        else:
            started = list(calls)
            assert len(started) == len(set(started))
            assert set(expected.calls) <= set(started)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_run_of_items_past_a_breaker(data: st.DataObject) -> None:
    """Item after item in random ways, with failures and time in between: called, or not, as a plain model of them says."""
    clock, asked, behaviours = Clock(), list[int](), list[str]()
    breaker = CircuitBreaker(failures=2, pause_s=10.0, clock=clock)
    bundle = make_bundle([["a", "b"], ["c"]], costs={"a": 1.0, "b": 2.0, "c": 4.0}, threshold=1.0)
    policy = data.draw(st.sampled_from(["reject", "default"]))

    def guarded(number: int) -> float | None:
        asked.append(number)
        if behaviours[number] == "raises":
            raise OSError("down")
        return None if behaviours[number] == "gives None" else 0.1

    async def async_source(number: int) -> float | None:
        return guarded(number)

    cascades = []
    for function in (guarded, async_source):
        acquirers = Acquirers()
        acquirers.feature("a")(lambda item: 0.1)
        acquirers.feature("b", breaker=breaker, on_failure=policy)(function)
        acquirers.feature("c")(lambda item: 0.1)
        cascades.append(Cascade(bundle, acquirers, pool=POOL if data.draw(st.booleans()) else None))
    plain, coroutines = cascades
    ways = (
        plain.decide,
        lambda item: plain.decide_many([item])[0],
        lambda item: asyncio.run(plain.decide_async(item)),
        lambda item: asyncio.run(coroutines.decide_async(item)),
    )
    row, opened = 0, -math.inf
    is_open = False
    for number in range(data.draw(st.integers(1, 25))):
        clock.now += data.draw(st.sampled_from([0.0, 0.0, 1.0, 9.0, 10.0, 30.0]))
        behaviours.append(data.draw(st.sampled_from(["raises", "raises", "answers", "gives None"])))
        decision = data.draw(st.sampled_from(ways))(number)
        left_alone = is_open and clock.now - opened < 10.0
        assert (number in asked) is not left_alone
        kind = {"raises": "exception", "answers": None, "gives None": "missing"}[behaviours[number]]
        if left_alone:
            kind = "breaker_open"
        elif behaviours[number] == "raises":
            row += 1
            if is_open or row >= 2:
                is_open, opened, row = True, clock.now, 0
        else:
            is_open, row = False, 0
        assert [failure.kind for failure in decision.errors] == ([] if kind is None else [kind])
        assert decision.cost == (3.0 if kind is not None and policy == "reject" else 7.0)
        assert decision.degraded is (kind is not None and policy == "default")
