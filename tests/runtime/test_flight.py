"""One call per key at a time: who makes it, who waits for it, and what becomes of those who wait."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest

from emsco_runtime import Acquirers, AcquisitionError, Cascade
from emsco_runtime.driving.guarded_calls import GuardedCall
from emsco_runtime.engine.plan import Call
from emsco_runtime.sources import pool as pool_module
from emsco_runtime.sources.breaker import CircuitBreaker
from emsco_runtime.sources.cache import AcquirerCache, CacheClaim
from emsco_runtime.sources.in_flight import InFlightCall
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.testing import make_bundle, sample_bundle
from tests.runtime.test_breaker import Clock, fail
from tests.runtime.waiting import HangingSource, our_threads, wait_until

ITEMS = 50
SOON = 0.05
# Long enough to begin what is to hang, on a busy machine too.
WITHIN = 0.5
BUNDLE = make_bundle([["a"]], threshold=1.0)


@pytest.fixture(autouse=True)
def _no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let idle threads end at once, and see that all have ended after each test."""
    monkeypatch.setattr(pool_module, "_IDLE_S", 0.05)
    before = set(our_threads())
    yield
    wait_until(lambda: set(our_threads()) <= before, "threads of the pool end")


class WatchedCache(AcquirerCache):
    """A cache that counts who waits for the call of another; every item has the same key."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**({"key": lambda item: "one", "ttl_s": 60.0} | options))
        self.joined = 0

    def claim(self, key: Any, unusable: Any = AcquirerCache.MISS) -> CacheClaim:
        """Count, and do as always."""
        claim = super().claim(key, unusable)
        self.joined += claim.flight is not None and not claim.is_leader
        return claim

    def wait_for_followers(self, count: int) -> Callable[[], bool]:
        """Return whether `count` followers wait, as a condition."""
        return lambda: self.joined >= count


class Source:
    """A source that answers only when `followers` others wait for its first call; with an exception to raise, it raises that."""

    def __init__(self, cache: WatchedCache, followers: int, raised: BaseException | None = None, value: Any = 0.1) -> None:
        self.cache, self.followers, self.raised, self.value = cache, followers, raised, value
        self.calls = 0

    def plain(self, item: Any) -> Any:
        """Answer in a thread."""
        self.calls += 1
        if self.calls == 1:
            wait_until(self.cache.wait_for_followers(self.followers), "the others wait")
            if self.raised is not None:
                raise self.raised
        return self.value

    async def async_source(self, item: Any) -> Any:
        """Answer in an event loop."""
        self.calls += 1
        if self.calls == 1:
            while not self.cache.wait_for_followers(self.followers)():  # noqa: ASYNC110 - a cache sets no events of a loop
                await asyncio.sleep(0)
            if self.raised is not None:
                raise self.raised
        return self.value


def cascade_of(source: Any, cache: AcquirerCache, **options: Any) -> Cascade:
    """Return a cascade of one cached feature."""
    own = {name: options.pop(name) for name in ("breaker", "timeout_s") if name in options}
    acquirers = Acquirers()
    acquirers.feature("a", cache=cache, **own)(source)
    return Cascade(BUNDLE, acquirers, **options)


WAYS = ["threads", "many, pool", "many, async", "many, async pool"]


def decide_all(way: str, source: Source, cache: WatchedCache, **options: Any) -> list[Any]:
    """Decide fifty items of one key at the same time; a failure that is raised stands instead of its decision."""
    function = source.async_source if way == "many, async" else source.plain
    cascade = cascade_of(function, cache, pool=AcquirerPool(4) if "pool" in way else None, **options)
    if way == "threads":
        with ThreadPoolExecutor(ITEMS) as executor:
            return list(executor.map(cascade.decide, range(ITEMS)))
    if way == "many, pool":
        return cascade.decide_many(range(ITEMS))
    return asyncio.run(cascade.decide_many_async(range(ITEMS)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("charge", "bills"), [("free", 1.0), ("full", float(ITEMS))])
def test_items_of_one_key_share_one_call(way: str, charge: str, bills: float) -> None:
    """Fifty items at once: one call; the others are hits, billed and shown as if they had come one after the other."""
    cache = WatchedCache(charge=charge)
    source = Source(cache, ITEMS - 1)
    decisions = decide_all(way, source, cache)
    assert source.calls == 1
    assert math.fsum(decision.cost for decision in decisions) == bills
    assert sorted(decision.trace[0].cached for decision in decisions) == [()] + [("a",)] * (ITEMS - 1)
    assert sorted(decision.trace[0].acquired for decision in decisions) == [()] * (ITEMS - 1) + [("a",)]
    assert len({decision.confidence for decision in decisions}) == 1
    assert cache.counts == (ITEMS - 1, 1, 1)


@pytest.mark.parametrize("way", WAYS)
def test_those_who_wait_for_a_call_that_fails_fail_alike(way: str) -> None:
    """One call, one failure of the source for the breaker; it is not kept: who comes later calls again."""
    cache, breaker = WatchedCache(), CircuitBreaker(failures=2)
    source = Source(cache, ITEMS - 1, OSError("down"))
    decisions = decide_all(way, source, cache, on_failure="reject", breaker=breaker)
    assert source.calls == 1
    assert {decision.errors[0][2:] for decision in decisions} == {("exception", "its acquirer raised OSError: down")}
    assert {decision.cost for decision in decisions} == {1.0}
    assert (breaker.state, cache.counts.size) == ("closed", 0)
    assert cascade_of(lambda item: 0.2, cache).decide(0).trace[0].acquired == ("a",)


@pytest.mark.parametrize("way", WAYS)
def test_a_value_that_is_not_allowed_is_shared_and_not_kept(way: str) -> None:
    """The source answers None to the one call: every item fails for it, in full, and the next one asks again."""
    cache = WatchedCache()
    source = Source(cache, ITEMS - 1, value=None)
    decisions = decide_all(way, source, cache, on_failure="reject")
    assert source.calls == 1
    assert {(decision.errors[0].kind, decision.cost) for decision in decisions} == {("missing", 1.0)}
    assert (cache.counts.size, cache.counts.hits) == (0, 0)


def test_an_open_breaker_is_not_waited_for() -> None:
    """The one who would have led meets an open breaker: it fails at once, and so does the next, on its own."""
    breaker = CircuitBreaker(failures=1)
    cache = WatchedCache()
    cascade = cascade_of(lambda item: 1 / 0, cache, breaker=breaker, on_failure="reject")
    kinds = [cascade.decide(0).errors[0].kind for _ in range(3)]
    assert kinds == ["exception", "breaker_open", "breaker_open"]
    assert cache.joined == 0


# Leaders that are cancelled


class Leave(BaseException):
    """What ends a thread: no failure of a feature."""


@pytest.mark.parametrize("pooled", [False, True])
def test_an_interrupted_leader_is_replaced(pooled: bool) -> None:
    """The leader is interrupted: that passes through to its caller; one of the others makes the call, and all are served."""
    cache = WatchedCache()
    source = Source(cache, 3, Leave())
    cascade = cascade_of(source.plain, cache, pool=AcquirerPool(2) if pooled else None)
    with ThreadPoolExecutor(4) as executor:
        futures = [executor.submit(cascade.decide, number) for number in range(4)]
        ended = [future.exception() for future in futures]
    assert sorted(type(error).__name__ for error in ended) == ["Leave", "NoneType", "NoneType", "NoneType"]
    assert source.calls == 2
    assert sorted(future.result().cost for future, error in zip(futures, ended, strict=True) if error is None) == [0.0, 0.0, 1.0]


def test_a_cancelled_leader_is_replaced() -> None:
    """The task of the leader is cancelled: one of the others makes the call."""
    cache = WatchedCache()
    started: list[Any] = []

    async def source(item: Any) -> float:
        started.append(item)
        if len(started) == 1:
            await asyncio.Event().wait()
        return 0.1

    cascade = cascade_of(source, cache)

    async def main() -> list[float]:
        leader = asyncio.create_task(cascade.decide_async("leader"))
        others = [asyncio.create_task(cascade.decide_async(number)) for number in range(3)]
        while not cache.wait_for_followers(3)():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        leader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leader
        return sorted([(await other).cost for other in others])

    assert asyncio.run(asyncio.wait_for(main(), 60)) == [0.0, 0.0, 1.0]
    assert len(started) == 2


@pytest.mark.parametrize("way", ["threads", "async"])
def test_a_leader_whose_deadline_comes_is_replaced(way: str) -> None:
    """It had no time; one who has makes the call again. What the abandoned call answers in the end is ignored."""
    cache = WatchedCache()
    first = HangingSource(value=9.0)
    calls: list[Any] = []

    def source(item: Any) -> float:
        calls.append(item)
        return first(item) if len(calls) == 1 else 0.1

    cascade = cascade_of(source, cache, pool=AcquirerPool(2))

    def lead() -> Any:
        return (
            asyncio.run(cascade.decide_async("x", deadline_s=WITHIN))
            if way == "async"
            else cascade.decide("x", deadline_s=WITHIN)
        )

    with ThreadPoolExecutor(2) as executor:
        leader = executor.submit(lead)
        wait_until(lambda: first.entered, "the leader calls")
        follower = executor.submit(cascade.decide, "y")
        assert leader.result(60).reason == "deadline"
        decision = follower.result(60)
    assert (decision.trace[0].acquired, decision.cost) == (("a",), 1.0)
    first.release_event.set()
    wait_until(lambda: first.ended, "the abandoned call ends")
    assert cache.get("one") == 0.1


def test_a_leader_that_the_pool_refuses_is_replaced() -> None:
    """The pool takes no more calls: those who wait try for themselves, and fail with the kind "refused"; no wait is endless."""
    pool = AcquirerPool(1, max_abandoned=0)
    stuck = HangingSource()
    call = pool.submit(stuck, None)
    wait_until(lambda: stuck.entered, "the only thread is busy")
    pool.abandon(call)
    cascade = cascade_of(lambda item: 0.1, WatchedCache(), pool=pool, on_failure="reject")
    assert [decision.errors[0].kind for decision in cascade.decide_many(range(3))] == ["refused"] * 3
    stuck.release_event.set()
    wait_until(lambda: pool.counts.abandoned == 0, "the abandoned call ends")
    assert [decision.errors for decision in cascade.decide_many(range(3))] == [()] * 3


# Followers in a hurry


@pytest.mark.parametrize("way", ["decide", "async"])
def test_a_follower_waits_no_longer_than_until_its_deadline(way: str) -> None:
    """The leader has time, the follower has not: it is rejected for its deadline, and the call goes on for the leader."""
    cache, source = WatchedCache(), HangingSource(0.1)
    cascade = cascade_of(source, cache, pool=AcquirerPool(2))
    with ThreadPoolExecutor(1) as executor:
        leader = executor.submit(cascade.decide, "x")
        wait_until(lambda: source.entered, "the leader calls")
        if way == "decide":
            decision = cascade.decide("y", deadline_s=SOON)
        else:
            decision = asyncio.run(cascade.decide_async("y", deadline_s=SOON))
        assert (decision.reason, decision.cost, decision.errors) == ("deadline", 1.0, ())
        source.release_event.set()
        assert leader.result(60).errors == ()
    assert source.entered == 1


@pytest.mark.parametrize("way", ["decide", "async"])
def test_a_follower_is_served_or_timed_out_while_its_leader_looks_elsewhere(way: str) -> None:
    """A leader is held up by another call of its stage: a follower gets the answer when it comes, or its own timeout."""
    for hangs in (False, True):
        cache, slow, source = WatchedCache(), HangingSource(), HangingSource(0.1)
        if not hangs:
            source.release_event.set()
        acquirers = Acquirers()
        acquirers.feature("slow")(slow)
        acquirers.feature("a", cache=cache, timeout_s=SOON if hangs else 600.0, on_failure="reject")(source)
        pool = AcquirerPool(3)
        both = Cascade(make_bundle([["slow", "a"]], threshold=1.0), acquirers, pool=pool)
        one = Cascade(BUNDLE, acquirers, pool=pool)
        with ThreadPoolExecutor(1) as executor:
            leader = executor.submit(both.decide, "x")
            wait_until(lambda source=source: source.entered, "the leader calls")
            decision = one.decide("y") if way == "decide" else asyncio.run(one.decide_async("y"))
            assert [failure.kind for failure in decision.errors] == (["timeout"] if hangs else [])
            assert decision.trace[0].cached == (() if hangs else ("a",))
            assert source.entered == 1
            slow.release_event.set()
            source.release_event.set()
            leader.result(60)


# Those who must not wait


@pytest.mark.parametrize("way", ["decide", "pool", "async"])
def test_a_call_that_decides_with_its_own_key_does_not_wait_for_itself(way: str) -> None:
    """An acquirer that decides inside itself, for the same key: it calls itself as it did without a cache, and ends."""
    depths: list[int] = []

    def plain(item: int) -> float:
        depths.append(item)
        return 0.1 if item == 2 else float(cascade.decide(item + 1).stages)

    async def async_source(item: int) -> float:
        depths.append(item)
        return 0.1 if item == 2 else float((await cascade.decide_async(item + 1)).stages)

    cascade = cascade_of(
        async_source if way == "async" else plain, WatchedCache(), pool=AcquirerPool(4) if way == "pool" else None
    )
    decision = asyncio.run(cascade.decide_async(0)) if way == "async" else cascade.decide(0)
    assert decision.errors == ()
    assert depths == [0, 1, 2]


@pytest.mark.parametrize("way", ["decide", "pool", "async"])
@pytest.mark.parametrize("keys", ["ab", "abc"])
def test_calls_that_decide_for_each_others_keys_do_not_wait_in_a_circle(way: str, keys: str) -> None:
    """Each call asks for the next key while that one's call runs: one of them calls for itself, and all end."""
    following = dict(zip(keys, keys[1:] + keys[0], strict=True))
    running: list[str] = []
    inner: list[str] = []

    def plain(item: tuple[str, str]) -> float:
        key, place = item
        if place == "inner":
            inner.append(key)
            return 0.1
        running.append(key)
        wait_until(lambda: len(running) == len(keys), "all calls run")
        return float(cascade.decide((following[key], "inner")).stages)

    async def async_source(item: tuple[str, str]) -> float:
        key, place = item
        if place == "inner":
            inner.append(key)
            return 0.1
        running.append(key)
        while len(running) < len(keys):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
        return float((await cascade.decide_async((following[key], "inner"))).stages)

    cache = AcquirerCache(key=lambda item: item[0], ttl_s=60.0)
    pool = AcquirerPool(len(keys)) if way == "pool" else None
    cascade = cascade_of(async_source if way == "async" else plain, cache, pool=pool)
    items = [(key, "outer") for key in keys]
    decisions: list[Any] = []
    works: list[Callable[[], object]]
    if way == "async":
        works = [lambda: decisions.extend(asyncio.run(cascade.decide_many_async(items, concurrency=len(keys))))]
    elif way == "pool":
        works = [lambda: decisions.extend(cascade.decide_many(items))]
    else:
        works = [lambda item=item: decisions.append(cascade.decide(item)) for item in items]  # type: ignore[misc]
    # Daemons: calls that wait for ever are a failure, and do not keep the process.
    for work in works:
        threading.Thread(target=work, daemon=True).start()
    wait_until(lambda: len(decisions) == len(keys), "all calls end")
    assert [one.errors for one in decisions] == [()] * len(keys)
    assert len(inner) == 1


def test_a_call_that_has_waited_is_not_taken_for_one_that_waits() -> None:
    """Only calls that still run are followed: after its end, what a call had joined does not keep others from joining it."""
    first, second, third = InFlightCall(), InFlightCall(), InFlightCall()
    assert first.run(lambda _: second.try_join(), None)
    assert first.joined == (second,)
    assert not second.run(lambda _: second.try_join(), None)
    # Both have ended, and neither is waited for.
    assert third.run(lambda _: first.try_join() and third.joined == (first,) and second.try_join(), None)
    assert third.joined == (second,)


def test_plain_code_in_an_event_loop_does_not_wait_for_a_task_of_that_loop() -> None:
    """`decide` inside a coroutine, while a task of the same loop makes the call: it calls for itself, and nothing hangs."""
    cache, source = WatchedCache(), Source(WatchedCache(), 0)
    release_event, started = threading.Event(), threading.Event()

    def slow(item: Any) -> float:
        if item == "task":
            started.set()
            assert release_event.wait(60)
        return float(source.plain(item))

    for pool in (AcquirerPool(2), None):
        release_event.clear()
        started.clear()
        cache.reset_after_fork()
        cascade = cascade_of(slow, cache, timeout_s=600.0, pool=pool)

        async def main(cascade: Cascade = cascade) -> tuple[Any, Any]:
            task = asyncio.create_task(cascade.decide_async("task"))
            while not started.is_set():  # noqa: ASYNC110 - set by a thread
                await asyncio.sleep(0.001)
            here = cascade.decide("here")
            release_event.set()
            return here, await task

        here, task = asyncio.run(main())
        assert (here.cost, task.cost, here.errors) == (1.0, 1.0, ())


@pytest.mark.parametrize("given_up", [False, True])
def test_a_plain_call_in_the_loops_thread_lets_the_loop_go_on(given_up: bool) -> None:
    """It meets a call of the same key in a thread, which ends only if the loop runs: it waits in a task, or takes over there."""
    cache, source = WatchedCache(), HangingSource(0.2)
    calls: list[str] = []

    def ask(item: str) -> float:
        calls.append(item)
        return source(item) if item == "hurried" else 0.1

    cascade = cascade_of(ask, cache)

    async def main() -> tuple[Any, Any]:
        # A deadline sends plain calls into threads.
        first = asyncio.create_task(cascade.decide_async("hurried", deadline_s=600.0))
        while not source.entered:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
        second = asyncio.create_task(cascade.decide_async("plain"))
        while not cache.joined:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        if given_up:
            first.cancel()
        else:
            source.release_event.set()
        return (await asyncio.gather(first, second, return_exceptions=True))[0], await second

    first, second = asyncio.run(asyncio.wait_for(main(), 60))
    source.release_event.set()
    if given_up:
        assert isinstance(first, asyncio.CancelledError)
        assert (calls, second.cost) == (["hurried", "plain"], 1.0)
    else:
        assert (calls, second.cost, second.trace[0].cached) == (["hurried"], 0.0, ("a",))


def test_two_loops_share_a_call() -> None:
    """Tasks of loops in two threads want the same key: one call, and the other loop is woken when it ends."""
    cache = WatchedCache()
    source = Source(cache, 1)
    cascade = cascade_of(source.async_source, cache)
    with ThreadPoolExecutor(2) as executor:
        runs = [executor.submit(lambda: asyncio.run(cascade.decide_async(0))) for _ in range(2)]
        costs = sorted(run.result(60).cost for run in runs)
    assert (costs, source.calls) == ([0.0, 1.0], 1)


def test_a_value_of_another_bundle_is_asked_for_again_while_others_wait() -> None:
    """A kept value that this bundle does not allow is as if it were not there: no hit, one call, and its value is kept."""
    cache = AcquirerCache(key=lambda item: "one", ttl_s=60.0)
    cache.put("one", None)
    decision = cascade_of(lambda item: 0.1, cache).decide(0)
    assert decision.trace[0].acquired == ("a",)
    assert cache.counts == (0, 1, 1)
    assert cache.get("one") == 0.1


def test_the_first_end_of_a_flight_counts() -> None:
    """A call that was abandoned, or was late, and answers or raises afterwards: those who waited keep what they got."""
    late = InFlightCall()
    late.set_failure(TimeoutError())
    assert late.run(len, "abc") == 3
    assert isinstance(late.exception(), TimeoutError)
    given_up = InFlightCall()
    given_up.cancel()
    with pytest.raises(ZeroDivisionError):
        given_up.run(lambda item: 1 / 0, None)
    assert given_up.cancelled()
    assert [flight.can_be_joined for flight in (late, given_up, InFlightCall())] == [False, False, True]


def test_a_call_that_was_given_up_is_not_found_by_those_it_wakes() -> None:
    """They claim before it has been taken out: they get a new one, which the end of the old one leaves alone."""
    cache = AcquirerCache(key=str, ttl_s=60.0)
    first = cache.claim("k").flight
    assert first is not None
    first.cancel()
    second = cache.claim("k")
    assert second.is_leader
    cache.finish("k", first)
    third = cache.claim("k")
    assert (third.flight, third.is_leader) == (second.flight, False)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()], ids=repr)
def test_a_leader_that_cannot_hand_in_its_call_gives_it_up(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted, or out of memory, before the pool has the call: that passes through, and the next one makes the call."""
    cache, pool = WatchedCache(), AcquirerPool(2)
    clock = Clock()
    breaker = CircuitBreaker(failures=1, pause_s=10.0, clock=clock)
    fail(breaker)
    clock.now = 10.0
    cascade = cascade_of(lambda item: 0.1, cache, pool=pool, breaker=breaker)

    def interrupted(*_: object) -> Any:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(pool, "submit", interrupted)
        with pytest.raises(type(error)):
            cascade.decide(0)
    assert cascade.decide(0).trace[0].acquired == ("a",)
    assert (cache.joined, breaker.state) == (0, "closed")


def test_an_error_of_one_call_carries_the_index_of_each_item() -> None:
    """Under "raise" the first item that waited, or led, ends `decide_many`, with its own index and the cause."""
    cascade = cascade_of(lambda item: 1 / 0, WatchedCache(), pool=AcquirerPool(2))
    with pytest.raises(AcquisitionError) as caught:
        cascade.decide_many(range(3))
    assert caught.value.index == 0
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_keys_do_not_wait_for_each_other() -> None:
    """Two senders, twenty items: two calls, at the same time."""
    together = threading.Barrier(2)
    calls: list[str] = []

    def source(item: dict[str, Any]) -> float:
        calls.append(item["sender"])
        together.wait(60)
        return 0.1

    acquirers = Acquirers()
    acquirers.feature("reputation", cache=AcquirerCache(key=lambda item: item["sender"], ttl_s=60.0))(source)
    for name in ("size", "links"):
        acquirers.feature(name)(lambda item: 0.0)
    cascade = Cascade(sample_bundle(), acquirers, pool=AcquirerPool(2))
    decisions = cascade.decide_many([{"sender": "ab"[number % 2]} for number in range(20)])
    assert sorted(calls) == ["a", "b"]
    assert sorted(decision.cost for decision in decisions) == [3.0] * 18 + [28.0] * 2


def test_a_call_that_has_ended_is_not_cancelled() -> None:
    """Cancelling after the outcome changes nothing: the guard is notified of the success alone."""
    log: list[str] = []
    guard = SimpleNamespace(
        succeeded=lambda ticket, outcome: log.append("succeeded"), cancelled=lambda ticket: log.append("cancelled")
    )
    guarded = GuardedCall(cast("Call", SimpleNamespace(guard=guard)), "item")
    assert guarded.finish(lambda: 1.0) == 1.0
    guarded.cancel()
    assert (guarded.outcome, log) == (1.0, ["succeeded"])


def test_followers_that_give_up_in_an_event_loop_leave_nothing_behind() -> None:
    """A call hangs; hundreds wait for it to their deadlines: the call does not keep something of each of them."""
    source, acquirers, cache = HangingSource(), Acquirers(), WatchedCache()
    acquirers.feature("a", cache=cache)(source)
    pool = AcquirerPool(1)
    cascade = Cascade(BUNDLE, acquirers, on_failure="reject", pool=pool)
    leader = threading.Thread(target=cascade.decide, args=({},))
    leader.start()
    wait_until(lambda: source.entered, "the call begins")

    async def give_up() -> set[str]:
        decisions = await cascade.decide_many_async([{}] * 200, deadline_s=0.02)
        return {decision.reason for decision in decisions}

    assert asyncio.run(give_up()) == {"deadline"}
    flight = cache._flights["one"]
    assert cache.joined >= 100
    assert len(flight._events) == 0
    # That which the cache itself has, and one for all events.
    assert len(flight._done_callbacks) == 2
    source.release_event.set()
    leader.join(60)


def test_an_event_of_a_call_that_has_ended_is_set() -> None:
    """A follower that comes as the call ends does not wait, whether or not others have waited before."""

    async def are_set() -> list[bool]:
        flight = InFlightCall()
        flight.set_answer(1.0)
        return [flight.add_event().is_set() for _ in range(2)]

    assert asyncio.run(are_set()) == [True, True]
