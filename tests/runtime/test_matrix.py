"""Every policy, limit and state of a breaker, in every way of deciding: who was called, in which order, and the exact bill.

Three stages, (a, b), (c, d), (e); each feature costs twice the one before, so that a bill shows which features it holds. What
befalls an item befalls `c`, the first of the second stage.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from emsco_runtime import AcquirerCache, AcquirerPool, Acquirers, AcquisitionError, Cascade, CircuitBreaker
from emsco_runtime.sources import pool as pool_module
from emsco_runtime.testing import make_bundle
from tests.runtime.test_breaker import Clock, fail
from tests.runtime.waiting import our_threads, wait_until

STAGES = [["a", "b"], ["c", "d"], ["e"]]
PRICES = {"a": 1.0, "b": 2.0, "c": 4.0, "d": 8.0, "e": 16.0}
BUNDLE = make_bundle(STAGES, costs=PRICES, threshold=1.0)
POLICIES = ["raise", "reject", "default"]
SOON, WITHIN, LONG = 0.05, 0.5, 600.0


@dataclass
class World:
    """Counting fakes for one item: what befalls the source of `c`, and who was called."""

    befalls: str
    asynchronous: bool
    calls: list[str] = field(default_factory=list)
    release_event: threading.Event = field(default_factory=threading.Event)

    def source(self, name: str) -> Callable[[Any], Any]:
        """Return a source that notes its call."""

        def plain(item: Any) -> Any:
            self.calls.append(name)
            if name == "c" and self.befalls == "hangs":
                assert self.release_event.wait(60)
            return self.answer(name)

        async def async_source(item: Any) -> Any:
            self.calls.append(name)
            if name == "c" and self.befalls == "hangs":
                await asyncio.Event().wait()
            return self.answer(name)

        return async_source if self.asynchronous else plain

    def answer(self, name: str) -> Any:
        """Return a value, or what befalls."""
        if name == "c" and self.befalls == "raises":
            raise OSError("down")
        return None if name == "c" and self.befalls == "gives None" else 0.1

    def registry(self, policy: Any, **options: Any) -> Acquirers:
        """Return the acquirers; the options are those of `c`."""
        acquirers = Acquirers()
        for name in PRICES:
            acquirers.feature(name, on_failure=policy, **(options if name == "c" else {}))(self.source(name))
        return acquirers


WAYS = ["decide", "many", "pooled", "pooled many", "async", "many_async", "plain async", "pooled async"]


def is_async(way: str) -> bool:
    """Return whether the sources of a way are coroutines."""
    return way in ("async", "many_async")


def decide(way: str, acquirers: Acquirers, **limits: Any) -> Any:
    """Decide one item; return the decision, or the error."""
    cascade = Cascade(BUNDLE, acquirers, pool=AcquirerPool(4) if "pooled" in way else None)
    try:
        if way == "many_async":
            return asyncio.run(cascade.decide_many_async([None], **limits))[0]
        if "async" in way:
            return asyncio.run(cascade.decide_async(None, **limits))
        return cascade.decide_many([None], **limits)[0] if "many" in way else cascade.decide(None, **limits)
    except AcquisitionError as error:
        return error


def calls_made(way: str, calls: list[str], expected: str, perhaps: str = "") -> None:
    """Check the calls: in order, where they are made one after the other; else by stage, where others may have started too."""
    if way in ("decide", "many"):
        assert "".join(calls) == expected
        return
    assert len(calls) == len(set(calls))
    assert set(expected) <= set(calls) <= set(expected + perhaps)
    stage = {name: number for number, names in enumerate(STAGES) for name in names}
    assert [stage[name] for name in calls] == sorted(stage[name] for name in calls)


def decision_summary(found: Any, policy: str, kind: str) -> None:
    """Check an item whose `c` failed: the outcome by its policy, the exact bill, and the failure by feature, stage and kind."""
    if policy == "raise":
        assert isinstance(found, AcquisitionError)
        assert (found.feature, found.stage, found.kind, found.cost) == ("c", 2, kind, 15.0)
        assert [record.cost for record in found.trace] == [3.0, 12.0]
        return
    assert [failure[:3] for failure in found.errors] == [("c", 2, kind)]
    expected = ("acquisition_failed", 1, 15.0, False) if policy == "reject" else ("inconclusive", 3, 31.0, True)
    assert (found.reason, found.stages, found.cost, found.degraded) == expected
    assert [record.cost for record in found.trace] == ([3.0, 12.0] if policy == "reject" else [3.0, 12.0, 16.0])


@pytest.fixture(autouse=True)
def _no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let idle threads end at once, and see that all have ended after each test; those of earlier tests may idle on."""
    monkeypatch.setattr(pool_module, "_IDLE_S", 0.005)
    before = set(our_threads())
    yield
    wait_until(lambda: set(our_threads()) <= before, "threads of the pool end")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("befalls", "kind"), [("raises", "exception"), ("gives None", "missing"), ("hangs", "timeout"), ("nothing", "")]
)
def test_failures(way: str, policy: str, befalls: str, kind: str) -> None:
    """A call that fails ends the stage's calls unless it falls back; a value that is not allowed is found when all are there."""
    world = World(befalls, is_async(way))
    found = decide(way, world.registry(policy, timeout_s=SOON if befalls == "hangs" else None))
    world.release_event.set()
    if befalls == "nothing":
        assert (found.reason, found.stages, found.cost, found.errors) == ("inconclusive", 3, 31.0, ())
        calls_made(way, world.calls, "abcde")
        return
    decision_summary(found, policy, kind)
    whole = "abcde" if policy == "default" else "abcd" if befalls == "gives None" else "abc"
    # Side by side, d begins with c.
    calls_made(way, world.calls, whole, "d")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("state", ["closed", "open", "half-open", "half-open, fails", "half-open, probing"])
def test_states_of_a_breaker(way: str, policy: str, state: str) -> None:
    """Closed and half-open the source is asked, open and during a probe it is not; the probe's own end decides what comes."""
    clock = Clock()
    breaker = CircuitBreaker(failures=1, pause_s=10.0, clock=clock)
    if state != "closed":
        fail(breaker)
    if state.startswith("half-open"):
        clock.now = 10.0
    if state.endswith("probing"):
        assert breaker.enter() is not None
    world = World("raises" if state.endswith("fails") else "nothing", is_async(way))
    found = decide(way, world.registry(policy, breaker=breaker))
    if state in ("closed", "half-open"):
        assert (found.reason, found.stages, found.cost, found.errors) == ("inconclusive", 3, 31.0, ())
        calls_made(way, world.calls, "abcde")
        assert breaker.state == "closed"
        return
    asked = state.endswith("fails")
    decision_summary(found, policy, "exception" if asked else "breaker_open")
    expected = ("abcde" if asked else "abde") if policy == "default" else ("abc" if asked else "ab")
    calls_made(way, world.calls, expected, "d")
    assert breaker.state == ("half-open" if state.endswith("probing") else "open")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("budget", "expected", "cost"), [(0.0, "", 0.0), (2.99, "", 0.0), (3.0, "ab", 3.0), (30.99, "abcd", 15.0)]
)
def test_budgets(way: str, policy: str, budget: float, expected: str, cost: float) -> None:
    """A stage that would exceed the budget is not started: nothing is called or charged for it, whatever the policy."""
    world = World("nothing", is_async(way))
    found = decide(way, world.registry(policy), budget=budget)
    assert (found.status, found.reason, found.cost) == ("rejected", "budget", cost)
    calls_made(way, world.calls, expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_deadline_already_past(way: str, policy: str) -> None:
    """Nobody is called and nothing is charged, whatever the policy."""
    world = World("nothing", is_async(way))
    found = decide(way, world.registry(policy), deadline_s=0.0)
    assert (found.status, found.reason, found.cost, found.trace) == ("rejected", "deadline", 0.0, ())
    calls_made(way, world.calls, "")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("state", ["closed", "half-open"])
def test_a_deadline_during_a_stage(way: str, state: str) -> None:
    """The stage under way is charged, later ones are not started, and a breaker counts nothing: the next call may probe again."""
    clock = Clock()
    breaker = CircuitBreaker(failures=1, pause_s=10.0, clock=clock)
    if state == "half-open":
        fail(breaker)
        clock.now = 10.0
    world = World("hangs", is_async(way))
    found = decide(way, world.registry("reject", breaker=breaker), deadline_s=WITHIN)
    world.release_event.set()
    assert (found.status, found.reason, found.cost, found.stages) == ("rejected", "deadline", 15.0, 1)
    assert found.errors == ()
    calls_made(way, world.calls, "abc", "d")
    assert breaker.state == state
    assert breaker.enter() is not None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("charge", ["free", "full"])
@pytest.mark.parametrize("policy", POLICIES)
def test_cached_values(way: str, charge: Any, policy: str) -> None:
    """A value out of a cache spares the call, even of a source whose breaker is open; it is billed as was said."""
    breaker = CircuitBreaker(failures=1)
    fail(breaker)
    cache = AcquirerCache(key=lambda item: "all", ttl_s=60.0, charge=charge)
    cache.put("all", 0.1)
    world = World("raises", is_async(way))
    found = decide(way, world.registry(policy, cache=cache, breaker=breaker))
    assert (found.reason, found.errors, found.cost) == ("inconclusive", (), 31.0 if charge == "full" else 27.0)
    assert found.trace[1].cached == ("c",)
    calls_made(way, world.calls, "abde")


@pytest.mark.parametrize("way", ["pooled", "pooled many", "pooled async"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_pool_that_refuses(way: str, policy: str) -> None:
    """With as many abandoned calls as allowed, nothing is called: the first feature fails by its policy, as "refused"."""
    pool = AcquirerPool(1, max_abandoned=1)
    release_event, calls_begun = threading.Event(), threading.Event()

    def hang(item: Any) -> None:
        calls_begun.set()
        assert release_event.wait(60)

    call = pool.submit(hang, None)
    assert calls_begun.wait(60)
    pool.abandon(call)
    world = World("nothing", asynchronous=False)
    cascade = Cascade(BUNDLE, world.registry(policy), pool=pool)
    try:
        if "async" in way:
            found: Any = asyncio.run(cascade.decide_async(None))
        else:
            found = cascade.decide_many([None])[0] if "many" in way else cascade.decide(None)
    except AcquisitionError as error:
        found = error
    release_event.set()
    assert world.calls == []
    if policy == "raise":
        assert (found.feature, found.stage, found.kind, found.cost) == ("a", 1, "refused", 3.0)
    else:
        assert {failure.kind for failure in found.errors} == {"refused"}
        assert (found.reason, found.cost) == (("acquisition_failed", 3.0) if policy == "reject" else ("inconclusive", 31.0))


@pytest.mark.parametrize("way", ["pooled", "async"])
def test_a_call_from_before_lets_no_second_probe_through(way: str) -> None:
    """One item waits for its source while two others open the breaker and probe; its end must not send a fourth to the source."""
    clock = Clock()
    breaker = CircuitBreaker(failures=1, pause_s=10.0, clock=clock)
    asked: list[str] = []

    async def run_scenario() -> list[str]:
        gates = {name: asyncio.Event() for name in ("early", "probe")}
        under_way = {name: asyncio.Event() for name in gates}

        async def links(item: str) -> float:
            asked.append(item)
            if item == "failing":
                raise OSError("down")
            if item in gates:
                under_way[item].set()
                await gates[item].wait()
            return 0.1

        def plain(item: str) -> float:
            return asyncio.run_coroutine_threadsafe(links(item), loop).result(60)

        loop = asyncio.get_running_loop()
        acquirers = Acquirers()
        acquirers.feature("a", breaker=breaker, on_failure="reject")(links if way == "async" else plain)
        cascade = Cascade(make_bundle([["a"]], threshold=1.0), acquirers, pool=AcquirerPool(4))

        async def run_decision(item: str) -> str:
            decision = await cascade.decide_async(item)
            return decision.errors[0].kind if decision.errors else "ok"

        async def calls_begun(item: str) -> asyncio.Task[str]:
            task = asyncio.ensure_future(run_decision(item))
            await under_way[item].wait()
            return task

        early = await calls_begun("early")
        kinds = [await run_decision("failing"), await run_decision("next")]
        clock.now = 10.0
        probe = await calls_begun("probe")
        gates["early"].set()
        kinds += [await early, await run_decision("second probe")]
        gates["probe"].set()
        kinds += [await probe, await run_decision("last")]
        return kinds

    assert asyncio.run(run_scenario()) == ["exception", "breaker_open", "ok", "breaker_open", "ok", "ok"]
    assert asked == ["early", "failing", "probe", "last"]
