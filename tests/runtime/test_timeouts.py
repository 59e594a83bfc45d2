"""Timeouts and deadlines in plain code: sources that hang, exact bills, what is abandoned, refused, recovered."""

from __future__ import annotations

import asyncio
import math
import os
import pickle
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from emsco_runtime import Acquirers, AcquisitionError, BindError, Cascade, Decision, InputError
from emsco_runtime.driving import pooled, runner
from emsco_runtime.driving.one import _acquire
from emsco_runtime.engine.walk import walk
from emsco_runtime.sources import pool as pool_module
from emsco_runtime.sources.breaker import BreakerPhase, CircuitBreaker
from emsco_runtime.sources.cache import AcquirerCache
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.testing import RecordingAcquirers, make_bundle, sample_bundle
from tests.runtime.test_breaker import decide
from tests.runtime.waiting import HangingSource, our_threads, wait_until

UNCLEAR = {"size": 0.0, "links": 0.1, "reputation": 0.1}
SOON = 0.1
# Long enough to begin what is to hang, on a busy machine too.
WITHIN = 0.5
LONG = 600.0


@pytest.fixture(autouse=True)
def _no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let idle threads end at once, and see that all have ended after each test; those of earlier tests may idle on."""
    monkeypatch.setattr(pool_module, "_IDLE_S", 0.05)
    before = set(our_threads())
    yield
    wait_until(lambda: set(our_threads()) <= before, "threads of the pool end")


@pytest.fixture
def source() -> Iterator[HangingSource]:
    """Return a source that hangs until the end of the test."""
    made = HangingSource()
    yield made
    made.release_event.set()


def sample(links: Any, timeout_s: float | None = None, **options: Any) -> tuple[Cascade, RecordingAcquirers]:
    """Return the sample cascade with this source for `links`, recorders for the rest."""
    acquirers = RecordingAcquirers("size", "reputation")
    own = {name: options.pop(name) for name in ("breaker", "cache") if name in options}
    acquirers.feature("links", timeout_s=timeout_s, **own)(links)
    return Cascade(sample_bundle(), acquirers, **options), acquirers


@pytest.mark.parametrize("way", ["decide", "many", "async", "many_async"])
@pytest.mark.parametrize("policy", ["raise", "reject", "default"])
def test_a_source_that_hangs_is_timed_out(source: HangingSource, way: str, policy: Any) -> None:
    """Each policy in each way of deciding: the kind, the exact bill, who was called, and that the stage started is charged."""
    cascade, acquirers = sample(source, SOON, on_failure=policy)
    if policy == "raise":
        with pytest.raises(AcquisitionError) as caught:
            decide(cascade, way, UNCLEAR)
        assert (caught.value.feature, caught.value.kind, caught.value.cost) == ("links", "timeout", 3.0)
        assert caught.value.index == (0 if "many" in way else None)
        assert str(caught.value).endswith("feature 'links' (stage 2): its acquirer did not answer within 0.1 s")
    else:
        decision = decide(cascade, way, UNCLEAR)
        assert decision.errors[0][:3] == ("links", 2, "timeout")
        expected = ("acquisition_failed", 1, 3.0, False) if policy == "reject" else ("inconclusive", 3, 28.0, True)
        assert (decision.reason, decision.stages, decision.cost, decision.degraded) == expected
        assert decision.trace[1].defaulted == (() if policy == "reject" else ("links",))
    assert acquirers.asked == [("size",), *([("reputation",)] if policy == "default" else [])]
    assert source.entered == 1
    assert cascade._pool.counts.abandoned == 1
    source.release_event.set()
    wait_until(lambda: cascade._pool.counts.abandoned == 0, "the abandoned call ends")
    assert cascade._pool.counts.abandoned_ever == 1


@pytest.mark.parametrize("way", ["decide", "many", "async", "many_async"])
def test_a_source_that_answers_in_time_is_as_without_a_timeout(way: str) -> None:
    """A timeout that is not reached changes nothing."""
    cascade, _ = sample(lambda item: item["links"], LONG)
    plain = Cascade(sample_bundle()).decide(UNCLEAR)
    found = decide(cascade, way, UNCLEAR)
    assert found._replace(elapsed_s=0.0) == plain._replace(elapsed_s=0.0)


@pytest.mark.parametrize("way", ["decide", "many", "async", "many_async"])
@pytest.mark.parametrize("raised", [ValueError("broken"), TimeoutError("its own"), StopIteration("empty")], ids=repr)
def test_what_a_source_in_a_thread_raises_is_a_failure(way: str, raised: Exception) -> None:
    """An exception in the pool is a failed feature with its cause; a TimeoutError of the source's own is an exception too."""

    def broken(item: Any) -> float:
        raise raised

    cascade, _ = sample(broken, LONG, on_failure="reject")
    assert decide(cascade, way, UNCLEAR).errors[0].kind == "exception"


@pytest.mark.parametrize("way", ["decide", "many", "async", "many_async"])
@pytest.mark.parametrize("timeout_s", [None, LONG])
def test_a_coroutine_from_a_plain_function_is_refused(way: str, timeout_s: float | None) -> None:
    """A plain function that returns a coroutine: the message says how to write it, the same in every way of calling it."""

    async def late(item: Any) -> float:
        return 1.0

    cascade, _ = sample(lambda item: late(item), timeout_s, on_failure="reject", breaker=CircuitBreaker())  # noqa: PLW0108
    failure = decide(cascade, way, UNCLEAR).errors[0]
    assert failure.kind == "wrong_type"
    assert "write it as `async def`" in failure.message


def test_system_exit_in_a_thread_is_raised_in_the_caller() -> None:
    """It is not a failed feature: it passes through, as it would without a thread."""

    def leave(item: Any) -> float:
        raise SystemExit(3)

    cascade, _ = sample(leave, LONG, on_failure="default")
    for call in (lambda: cascade.decide(UNCLEAR), lambda: cascade.decide_many([UNCLEAR])):
        with pytest.raises(SystemExit):
            call()


def test_a_time_out_counts_from_the_moment_the_call_begins(source: HangingSource) -> None:
    """A call that waits longer than its timeout for a thread is not late; with a deadline it is taken back unbegun."""
    pool = AcquirerPool(1)
    busy = pool.submit(source, None)
    wait_until(lambda: source.entered, "the only thread is busy")
    answered = threading.Event()
    acquirers = RecordingAcquirers("size", "reputation")

    @acquirers.feature("links", timeout_s=0.4)
    def links(item: Any) -> float:
        answered.set()
        return 0.1

    cascade = Cascade(sample_bundle(), acquirers, pool=pool)
    limited = cascade.decide(UNCLEAR, deadline_s=WITHIN)
    assert (limited.reason, limited.cost, limited.trace[0].acquired) == ("deadline", 1.0, ())
    assert acquirers.calls == []
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(cascade.decide(UNCLEAR, known={"size": 0.0})))
    thread.start()
    time.sleep(0.6)  # longer than the timeout
    assert not answered.is_set()
    source.release_event.set()
    thread.join(60)
    assert results[0].errors == ()
    assert busy.result(60) == 0.0
    assert pool.counts.abandoned_ever == 0


# Deadlines


@pytest.mark.parametrize("way", ["decide", "many", "async", "many_async"])
@pytest.mark.parametrize("deadline_s", [0, -1.0, -math.inf])
@pytest.mark.parametrize("policy", ["raise", "reject", "default"])
def test_a_deadline_already_past_costs_nothing_and_calls_nothing(way: str, deadline_s: float, policy: Any) -> None:
    """Rejected for the deadline, no stage started, whatever the policy or the budget."""
    cascade, acquirers = sample(lambda item: 0.0, on_failure=policy)
    # Those of earlier tests may idle on.
    before = set(our_threads())
    decision = decide_within(cascade, way, UNCLEAR, deadline_s=deadline_s, budget=0.5)
    assert (decision.status, decision.reason, decision.stages, decision.cost) == ("rejected", "deadline", 0, 0.0)
    assert (decision.trace, decision.errors, decision.confidence) == ((), (), None)
    assert acquirers.calls == []
    assert set(our_threads()) <= before


def decide_within(cascade: Any, way: str, item: Any, **options: Any) -> Any:
    """Decide in one of the four ways, with options."""

    class Bound:
        """A cascade whose calls have these options."""

        decide = staticmethod(lambda item: cascade.decide(item, **options))
        decide_many = staticmethod(lambda items: cascade.decide_many(items, **options))
        decide_async = staticmethod(lambda item: cascade.decide_async(item, **options))
        decide_many_async = staticmethod(lambda items: cascade.decide_many_async(items, **options))

    return decide(Bound, way, item)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["decide", "many", "async", "many_async"])
@pytest.mark.parametrize("policy", ["raise", "reject", "default"])
def test_a_deadline_ends_the_wait_for_a_source_that_hangs(source: HangingSource, way: str, policy: Any) -> None:
    """A source without a timeout of its own hangs: rejected at the deadline, its stage is charged, no fallback is used."""
    cascade, acquirers = sample(source, on_failure=policy)
    decision = decide_within(cascade, way, UNCLEAR, deadline_s=WITHIN)
    assert (decision.status, decision.reason, decision.stages, decision.cost) == ("rejected", "deadline", 1, 3.0)
    assert decision.trace[1][1:6] == ((), (), (), 2.0, {})
    assert decision.confidence is not None
    assert decision.errors == ()
    assert not decision.degraded
    assert acquirers.asked == [("size",)]
    assert cascade._pool.counts.abandoned == 1


@pytest.mark.parametrize("way", ["decide", "many", "async", "many_async"])
def test_a_deadline_that_is_not_reached_changes_nothing(way: str) -> None:
    """The same decision as without one, with the budget still in force."""
    cascade, acquirers = sample(lambda item: item["links"])
    decision = decide_within(cascade, way, UNCLEAR, deadline_s=1e300, budget=27.0)
    assert (decision.reason, decision.cost, decision.stages) == ("budget", 3.0, 2)
    assert acquirers.asked == [("size",)]
    plain = Cascade(sample_bundle()).decide(UNCLEAR)
    assert decide_within(cascade, way, UNCLEAR, deadline_s=math.inf)._replace(elapsed_s=0.0) == plain._replace(elapsed_s=0.0)


def test_a_stage_is_not_begun_after_the_deadline() -> None:
    """The first stage took all the time: it is scored, the second is not started, and its source is not asked."""
    acquirers = RecordingAcquirers("links", "reputation")

    @acquirers.feature("size")
    def slow(item: Any) -> float:
        # In this thread there is no deadline to interrupt it; the stage was started in time.
        while time.perf_counter() <= deadline:
            time.sleep(0.01)
        return 0.0

    cascade = Cascade(sample_bundle(), acquirers)
    # Far enough that a busy machine, too, begins the first stage in time.
    deadline = time.perf_counter() + 1.0
    steps = walk(cascade._runner.plan, {}, math.inf, deadline)
    request: Any = next(steps)
    request = steps.send(_acquire(request, UNCLEAR))
    with pytest.raises(StopIteration) as stop:
        steps.send(cascade._scorer.score(request.stage, request.values))
    decision = stop.value.value
    assert (decision.reason, decision.stages, decision.cost) == ("deadline", 1, 1.0)
    assert acquirers.calls == []


def test_no_item_of_many_is_begun_after_the_deadline(source: HangingSource) -> None:
    """Three items, the first hangs: at the deadline the others are not even asked for, and all three are charged the same."""
    acquirers = Acquirers()
    acquirers.feature("a")(source)
    cascade = Cascade(make_bundle([["a"]]), acquirers)
    decisions = cascade.decide_many([1, 2, 3], deadline_s=WITHIN)
    assert [(one.reason, one.cost, one.stages) for one in decisions] == [("deadline", 1.0, 0)] * 3
    assert source.entered == 1


def test_many_items_side_by_side_at_the_deadline(source: HangingSource) -> None:
    """With a pool all are started, and all are abandoned; the one that had answered goes on to its end."""
    acquirers = Acquirers()
    acquirers.feature("a")(lambda item: source(item) if item < 3 else 9.0)
    pool = AcquirerPool(3)
    cascade = Cascade(make_bundle([["a"]], weights=[[[-1.0], [1.0]]]), acquirers, pool=pool)
    decisions = cascade.decide_many([1, 2, 3], deadline_s=WITHIN)
    assert [one.reason for one in decisions] == ["deadline", "deadline", "confident"]
    assert pool.counts.abandoned == 2


def entered_at_all(source: HangingSource, pool: AcquirerPool) -> int:
    """Return how many calls of a source have started, once no other can begin."""
    source.release_event.set()
    wait_until(lambda: pool.counts.threads == 0, "threads of the pool end")
    return source.entered


@pytest.mark.parametrize("way", ["many", "many_async"])
def test_calls_that_wait_for_a_thread_at_the_deadline_never_begin(
    source: HangingSource, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred items, two threads that hang: giving these two up at the deadline does not let the others begin."""
    acquirers = Acquirers()
    acquirers.feature("a")(source)
    pool = AcquirerPool(2)
    cascade = Cascade(make_bundle([["a"]]), acquirers, pool=pool)
    end = time.perf_counter() + WITHIN
    # In async code the deadline of each item counts from its own start: here all have the same.
    monkeypatch.setattr(runner, "compute_deadline", lambda _: end)
    if way == "many":
        decisions = cascade.decide_many(range(100), deadline_s=WITHIN)
    else:
        decisions = asyncio.run(cascade.decide_many_async(range(100), deadline_s=WITHIN, concurrency=100))
    assert {(one.reason, one.cost) for one in decisions} == {("deadline", 1.0)}
    assert pool.counts[1:] == (0, 2, 2)
    assert entered_at_all(source, pool) == 2


@pytest.mark.parametrize("way", ["decide", "async"])
def test_calls_that_wait_for_a_thread_at_a_failure_do_not_begin(source: HangingSource, way: str) -> None:
    """Of forty sources in two threads the first fails: the next may begin in its thread at that moment, and no other."""

    def failing(item: Any) -> float:
        wait_until(lambda: source.entered, "the second call begins")
        raise OSError("down")

    names = [f"f{number}" for number in range(40)]
    acquirers = Acquirers()
    for name in names:
        acquirers.feature(name, on_failure="reject")(failing if name == "f0" else source)
    pool = AcquirerPool(2)
    cascade = Cascade(make_bundle([names]), acquirers, pool=pool)
    decision = decide(cascade, way, 1)
    assert [(one.feature, one.kind) for one in decision.errors] == [("f0", "exception")]
    assert pool.counts.waiting == 0
    assert entered_at_all(source, pool) in (1, 2)


def test_a_batch_source_that_hangs(source: HangingSource) -> None:
    """Its timeout is for the whole call: every item fails by the policy, once; at a deadline all are rejected for it."""
    acquirers = Acquirers()
    acquirers.batch("a", timeout_s=SOON)(lambda items: [source(items)] * len(items))
    cascade = Cascade(make_bundle([["a"]]), acquirers, on_failure="reject")
    assert [one.errors[0].kind for one in cascade.decide_many([1, 2])] == ["timeout"] * 2
    assert source.entered == 1
    unlimited = Acquirers()
    unlimited.batch("a")(lambda items: [source(items)] * len(items))
    decisions = Cascade(make_bundle([["a"]]), unlimited).decide_many([1, 2], deadline_s=WITHIN)
    assert [(one.reason, one.cost) for one in decisions] == [("deadline", 1.0)] * 2
    assert source.entered == 2


def test_side_by_side_at_the_deadline(source: HangingSource) -> None:
    """Three sources at once, the second hangs: what came counts as acquired, the rest was not waited for."""
    acquirers = Acquirers()
    for name in "abc":
        acquirers.feature(name)(source if name == "b" else float)
    cascade = Cascade(make_bundle([["a", "b", "c"]]), acquirers, pool=AcquirerPool(3))
    decision = cascade.decide(1, deadline_s=WITHIN)
    assert (decision.reason, decision.cost, decision.stages) == ("deadline", 3.0, 0)
    assert decision.trace[0].acquired == ("a", "c")


@pytest.mark.parametrize("way", ["decide", "async"])
def test_side_by_side_a_breaker_learns_of_what_has_ended_at_the_deadline(source: HangingSource, way: str) -> None:
    """The first source hangs until the deadline, the second has failed before it, the third has answered: both count."""
    breaker = CircuitBreaker(failures=1)
    acquirers = Acquirers()
    acquirers.feature("a")(source)
    acquirers.feature("b", breaker=breaker, on_failure="default")(lambda item: 1 / 0)
    acquirers.feature("c")(float)
    cascade = Cascade(make_bundle([["a", "b", "c"]]), acquirers, pool=AcquirerPool(3))
    if way == "decide":
        decision = cascade.decide(1, deadline_s=WITHIN)
    else:
        decision = asyncio.run(cascade.decide_async(1, deadline_s=WITHIN))
    assert decision.reason == "deadline"
    assert decision.trace[0].acquired == ("c",)
    assert [(failure.feature, failure.kind) for failure in decision.errors] == [("b", "exception")]
    assert breaker.state == "open"


def decide_after_an_error(error: BaseException) -> tuple[Decision, CircuitBreaker]:
    """Return a decision that the failure of one source ends, after another has raised an error, and the other's breaker."""
    breaker, second_called = CircuitBreaker(failures=1), threading.Event()

    def first(item: Any) -> float:
        assert second_called.wait(60)
        time.sleep(SOON)
        raise OSError("down")

    def second(item: Any) -> float:
        second_called.set()
        raise error

    acquirers = Acquirers()
    acquirers.feature("a", on_failure="reject")(first)
    acquirers.feature("b", breaker=breaker, on_failure="default")(second)
    return Cascade(make_bundle([["a", "b"]]), acquirers, pool=AcquirerPool(2)).decide(1), breaker


def test_side_by_side_a_breaker_learns_of_what_has_ended_before_the_item() -> None:
    """One source fails and ends the item, after another has failed: the breaker of the other one learns of it too."""
    decision, breaker = decide_after_an_error(OSError("down"))
    assert decision.reason == "acquisition_failed"
    assert [failure.feature for failure in decision.errors] == ["a"]
    assert breaker.state == "open"


def test_side_by_side_what_ends_the_process_is_not_taken_for_a_failure() -> None:
    """A source fails and ends the item, after another has raised SystemExit: that one is dropped with its call."""
    decision, breaker = decide_after_an_error(SystemExit())
    assert decision.reason == "acquisition_failed"
    assert breaker.state == "closed"


def test_side_by_side_a_failure_ends_the_wait_for_the_others(source: HangingSource) -> None:
    """The first of three fails and ends the item: the one that hangs is abandoned at once, one that falls back is not."""
    for policy, reason in (("reject", "acquisition_failed"), ("default", "deadline")):
        acquirers = Acquirers()
        acquirers.feature("a", on_failure=policy)(lambda item: 1 / 0)  # type: ignore[arg-type]
        acquirers.feature("b")(source)
        cascade = Cascade(make_bundle([["a", "b"]]), acquirers, pool=AcquirerPool(2))
        decision = cascade.decide(1, deadline_s=None if policy == "reject" else WITHIN)
        assert decision.reason == reason
        assert [(failure.feature, failure.kind) for failure in decision.errors] == [("a", "exception")]
        assert decision.degraded is (policy == "default")
        # Abandoned while it ran, or taken back before it began.
        assert cascade._pool.counts.waiting == 0


@pytest.mark.parametrize("deadline_s", ["1", True, math.nan])
@pytest.mark.parametrize("way", ["decide", "many", "async", "many_async"])
def test_a_deadline_must_be_a_number(way: str, deadline_s: Any) -> None:
    """Anything else is refused with the value got, even without items."""
    cascade = Cascade(sample_bundle())
    with pytest.raises(InputError, match="deadline_s: expected a number of seconds, got"):
        decide_within(cascade, way, UNCLEAR, deadline_s=deadline_s)


# Refused


@pytest.mark.parametrize("way", ["decide", "many", "async", "many_async"])
@pytest.mark.parametrize("policy", ["raise", "reject", "default"])
def test_too_many_abandoned_calls_and_the_way_back(source: HangingSource, way: str, policy: Any) -> None:
    """At the limit calls are refused by kind, without waiting and without blame for the source; when one ends, all is well."""
    pool = AcquirerPool(1, max_abandoned=1)
    breaker = CircuitBreaker(failures=2)
    cascade = Cascade(sample_bundle(), registry(source, breaker), pool=pool, on_failure="reject")
    assert [decide(cascade, way, {}).errors[0].kind for _ in range(3)] == ["timeout", "refused", "refused"]
    assert breaker.state == "closed"
    by_policy = Cascade(cascade.bundle, registry(source, breaker), pool=pool, on_failure=policy)
    if policy == "raise":
        with pytest.raises(AcquisitionError, match="the pool takes no more calls: 1 abandoned calls still run, 1 are allowed"):
            decide(by_policy, way, {})
    else:
        assert decide(by_policy, way, {}).errors[0].kind == "refused"
    assert source.entered == 1
    source.release_event.set()
    wait_until(lambda: pool.counts.abandoned == 0, "the abandoned call ends")
    assert decide(by_policy, way, {}).errors == ()


@pytest.mark.parametrize("way", ["many", "many_async"])
@pytest.mark.parametrize("threads", [1, 2])
def test_calls_that_wait_for_a_thread_are_refused_at_the_limit(source: HangingSource, way: str, threads: int) -> None:
    """Sixty items hang, two calls may be abandoned: those that run by then are timed out, and all that wait are refused."""
    pool = AcquirerPool(threads, max_abandoned=2)
    acquirers = Acquirers()
    acquirers.feature("a", timeout_s=SOON, on_failure="reject")(source)
    cascade = Cascade(make_bundle([["a"]]), acquirers, pool=pool)
    if way == "many":
        decisions = cascade.decide_many(range(60))
    else:
        decisions = asyncio.run(cascade.decide_many_async(range(60), concurrency=60))
    kinds = Counter(one.errors[0].kind for one in decisions)
    timed_out = kinds["timeout"]
    # Of two threads, one may begin another call between the first timeout and the second.
    assert 2 <= timed_out <= 1 + threads
    assert kinds == {"timeout": timed_out, "refused": 60 - timed_out}
    assert pool.counts.abandoned == timed_out
    assert pool.counts.threads <= timed_out + threads
    assert entered_at_all(source, pool) == timed_out


def registry(source: HangingSource, breaker: CircuitBreaker) -> Acquirers:
    """Return acquirers of which the first hangs, in a stage of its own."""
    acquirers = Acquirers()
    acquirers.feature("size", timeout_s=SOON, breaker=breaker)(source)
    acquirers.feature("links", timeout_s=LONG)(lambda item: 0.0)
    acquirers.feature("reputation", timeout_s=LONG)(lambda item: 0.0)
    return acquirers


@pytest.mark.parametrize("way", ["decide", "many", "async", "many_async"])
def test_time_outs_open_a_breaker(source: HangingSource, way: str) -> None:
    """Two timeouts in a row: the third item is not sent to the source."""
    breaker = CircuitBreaker(failures=2)
    cascade = Cascade(sample_bundle(), registry(source, breaker), on_failure="reject")
    assert [decide(cascade, way, {}).errors[0].kind for _ in range(3)] == ["timeout", "timeout", "breaker_open"]
    assert source.entered == 2
    assert breaker.state == "open"


@pytest.mark.parametrize("way", ["decide", "many", "async", "many_async"])
def test_a_deadline_tells_a_breaker_nothing(source: HangingSource, way: str) -> None:
    """The caller had no time: that is not a failure of the source."""
    breaker = CircuitBreaker(failures=1)
    cascade, _ = sample(source, None, breaker=breaker)
    assert decide_within(cascade, way, UNCLEAR, deadline_s=WITHIN).reason == "deadline"
    assert breaker.state == "closed"


@pytest.mark.parametrize("way", ["decide", "many"])
def test_each_call_tells_its_breaker_once(source: HangingSource, way: str) -> None:
    """Answered, failed or late, in a thread: exactly one of the three is noted, and nothing is taken back afterwards."""

    class Noting(CircuitBreaker):
        """Records how its calls ended."""

        ended: list[str]

        def succeeded(self, call: BreakerPhase) -> None:
            """Note it."""
            self.ended.append("succeeded")

        def failed(self, call: BreakerPhase) -> None:
            """Note it."""
            self.ended.append("failed")

        def cancelled(self, call: BreakerPhase) -> None:
            """Note it."""
            self.ended.append("cancelled")

    for links, timeout_s, expected in (
        (lambda item: 0.1, LONG, "succeeded"),
        (lambda item: 1 / 0, LONG, "failed"),
        (source, SOON, "failed"),
    ):
        breaker = Noting()
        breaker.ended = []
        cascade, _ = sample(links, timeout_s, on_failure="reject", breaker=breaker)
        decide(cascade, way, UNCLEAR)
        assert breaker.ended == [expected]


def test_a_late_answer_is_not_cached(source: HangingSource) -> None:
    """What an abandoned call returns in the end is thrown away."""
    cache = AcquirerCache(key=str, ttl_s=60.0)
    cascade, _ = sample(source, SOON, cache=cache, on_failure="reject")
    cascade.decide(UNCLEAR)
    source.release_event.set()
    wait_until(lambda: cascade._pool.counts.abandoned == 0, "the abandoned call ends")
    assert cache.counts.size == 0


def test_an_interrupt_while_waiting_abandons_the_call(source: HangingSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control-C during the wait: it passes through, the call is abandoned, and a probe of the breaker is given back."""

    def interrupted(*_: object) -> Any:
        wait_until(lambda: source.entered, "the call begins")
        raise KeyboardInterrupt

    monkeypatch.setattr(pooled, "wait_for_call", interrupted)
    cascade, _ = sample(source, LONG)
    with pytest.raises(KeyboardInterrupt):
        cascade.decide(UNCLEAR)
    assert cascade._pool.counts.abandoned == 1


def test_an_interrupt_lets_no_call_begin_that_waits_for_a_thread(source: HangingSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control-C while two of forty sources hang: giving these up does not let the others begin."""

    def interrupted(*_: object) -> Any:
        wait_until(lambda: source.entered == 2, "two calls begin")
        raise KeyboardInterrupt

    monkeypatch.setattr(pooled, "wait_for_call", interrupted)
    names = [f"f{number}" for number in range(40)]
    acquirers = Acquirers()
    for name in names:
        acquirers.feature(name)(source)
    pool = AcquirerPool(2)
    with pytest.raises(KeyboardInterrupt):
        Cascade(make_bundle([names]), acquirers, pool=pool).decide(1)
    assert pool.counts[1:] == (0, 2, 2)
    assert entered_at_all(source, pool) == 2


def test_an_interrupt_while_calls_are_begun_abandons_those_that_are(source: HangingSource) -> None:
    """The key function of the second cache is interrupted: the first call, already running, is abandoned."""

    def interrupted(item: Any) -> str:
        wait_until(lambda: source.entered, "the first call begins")
        raise KeyboardInterrupt

    acquirers = Acquirers()
    acquirers.feature("a")(source)
    acquirers.feature("b", cache=AcquirerCache(key=interrupted, ttl_s=1.0))(float)
    pool = AcquirerPool(2)
    with pytest.raises(KeyboardInterrupt):
        Cascade(make_bundle([["a", "b"]]), acquirers, pool=pool).decide(1)
    assert pool.counts.abandoned == 1


def number(item: Any) -> float:
    """Return a value; at the top level, so that it can be pickled."""
    return 0.1


def text(item: Any) -> str:
    """Return a key; at the top level, so that it can be pickled."""
    return str(item)


def test_a_cascade_with_all_of_it_can_be_pickled() -> None:
    """Pool, breaker, cache and timeout travel as settings; a breaker shared by two acquirers stays shared."""
    breaker = CircuitBreaker(failures=1)
    acquirers = Acquirers()
    acquirers.feature("size", timeout_s=LONG, breaker=breaker, cache=AcquirerCache(key=text, ttl_s=60.0))(number)
    acquirers.feature("links", breaker=breaker)(number)
    acquirers.feature("reputation")(number)
    cascade = Cascade(sample_bundle(), acquirers, pool=AcquirerPool(2), on_failure="reject")
    cascade.decide("x")
    copy = pickle.loads(pickle.dumps(cascade))
    assert [copy.decide("x").cost, copy.decide("x").cost] == [28.0, 27.0]
    first, second, _ = copy._state.registered
    assert first.breaker is second.breaker is not breaker


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_decides_while_the_parents_source_hangs(source: HangingSource) -> None:
    """A cascade with a busy pool, an open breaker and a full cache is forked: the child begins with fresh ones."""
    breaker = CircuitBreaker(failures=1)
    item = {"links": 0}
    cascade = Cascade(sample_bundle(), registry(source, breaker), pool=AcquirerPool(1, max_abandoned=1), on_failure="reject")
    assert cascade.decide(item).errors[0].kind == "timeout"
    assert cascade.decide(item).errors[0].kind == "breaker_open"
    child = os.fork()
    if child == 0:
        status = 1
        try:
            source.release_event = threading.Event()
            source.release_event.set()
            status = 0 if cascade.decide(item).errors == () else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert breaker.state == "open"


def test_async_acquirers_need_async_deciding_unless_a_batch_one_serves() -> None:
    """`decide_many` uses the batch acquirer where there is one, so an async one for single items does not stand in its way."""

    async def size(item: Any) -> float:
        return 3.0

    acquirers = RecordingAcquirers("links", "reputation", batch=["size"])
    acquirers.feature("size")(size)
    cascade = Cascade(sample_bundle(), acquirers)
    assert cascade.decide_many([{"size": 3.0}])[0].label == "spam"
    with pytest.raises(BindError, match="decide: the acquirer of 'size' is async"):
        cascade.decide({"size": 3.0})
