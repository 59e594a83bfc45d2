"""Circuit breakers: a state machine against a plain model, and what they do inside a cascade."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from emsco_runtime import Acquirers, AcquisitionError, Cascade, InputError
from emsco_runtime.sources.breaker import BreakerPhase, CircuitBreaker
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.support.fork import ForkSafe, _ForkHooks
from emsco_runtime.testing import RecordingAcquirers, make_bundle, sample_bundle
from tests.runtime.waiting import wait_until

UNCLEAR = {"size": 0.0, "links": 0.1, "reputation": 0.1}


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class BreakerMachine(RuleBasedStateMachine):
    """Any order of calls, answers, failures and time: the breaker does what a plain re-telling of its rules does.

    The model numbers its phases; a call remembers the number of the phase in which it was started.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.breaker = CircuitBreaker(failures=3, pause_s=10.0, clock=self.clock)
        self.row = 0
        self.opened: float | None = None
        self.phase = 0
        self.probes = 0
        self.probed = 0.0
        self.under_way: list[tuple[int, Any]] = []

    @property
    def expected(self) -> bool:
        """Whether the pause is over."""
        return self.opened is not None and self.clock.now - self.opened >= 10.0

    def change(self, opened: float | None) -> None:
        """Begin another phase."""
        self.phase, self.opened, self.probes, self.row = self.phase + 1, opened, 0, 0

    @rule()
    def call(self) -> None:
        """Call: closed, it goes through; open, it does not; half-open, one does, and a second one only after another pause."""
        lost = self.clock.now - self.probed >= 10.0
        allowed = self.opened is None or (self.expected and (not self.probes or lost))
        entered = self.breaker.enter()
        assert (entered is not None) is allowed
        if self.opened is not None and allowed:
            self.probes += 1
            self.probed = self.clock.now
        if allowed:
            self.under_way.append((self.phase, entered))

    def end(self, data: st.DataObject) -> tuple[bool, Any]:
        """Take any running call; return whether its phase still lasts."""
        phase, entered = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        return phase == self.phase, entered

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        """Succeed: the count starts over, and the probe closes the breaker; a call of an earlier phase does nothing."""
        counts, entered = self.end(data)
        self.breaker.succeeded(entered)
        if counts:
            self.row = 0
            if self.opened is not None:
                self.change(None)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        """Fail: the third time in a row opens it, and the probe begins another pause."""
        counts, entered = self.end(data)
        self.breaker.failed(entered)
        if counts:
            self.row += 1
            if self.opened is not None or self.row >= 3:
                self.change(self.clock.now)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """Cancel a call: that counts for nothing, and after a probe the next one may probe."""
        counts, entered = self.end(data)
        self.breaker.cancelled(entered)
        if counts and self.opened is not None:
            self.probes -= 1

    @rule(seconds=st.sampled_from([0.0, 1.0, 9.0, 10.0, 30.0]))
    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.now += seconds

    @invariant()
    def state(self) -> None:
        """Compare its state with the model's."""
        assert self.breaker.state == ("closed" if self.opened is None else "half-open" if self.expected else "open")


TestBreakerMachine = BreakerMachine.TestCase
TestBreakerMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def fail(breaker: CircuitBreaker) -> None:
    """Let one call through, and let it fail."""
    call = breaker.enter()
    assert call is not None
    breaker.failed(call)


@pytest.mark.parametrize("straggler", ["succeeded", "failed", "cancelled"])
@pytest.mark.parametrize("probed", [False, True])
def test_a_call_from_before_the_breaker_opened_tells_nothing(straggler: str, probed: bool) -> None:
    """It ends while the breaker is open, or while a probe runs: nothing closes, no pause starts, no second probe."""
    clock = Clock()
    breaker = CircuitBreaker(failures=1, pause_s=10.0, clock=clock)
    early = breaker.enter()
    fail(breaker)
    clock.now = 10.0
    probe = breaker.enter() if probed else None
    getattr(breaker, straggler)(early)
    assert breaker.state == "half-open"
    assert (breaker.enter() is None) is probed
    if probe is not None:
        breaker.succeeded(probe)
        assert breaker.state == "closed"


@pytest.mark.parametrize("late", ["succeeded", "failed", "cancelled", None])
def test_a_probe_that_is_lost_lets_another_one_through(late: str | None) -> None:
    """It never ends, since its thread was killed or hangs: after another pause the next call is a probe; a late end counts."""
    clock = Clock()
    breaker = CircuitBreaker(failures=1, pause_s=10.0, clock=clock)
    fail(breaker)
    clock.now = 10.0
    lost = breaker.enter()
    clock.now = 19.9
    assert breaker.enter() is None
    clock.now = 20.0
    probe = breaker.enter()
    assert lost is not None
    assert probe is not None
    assert breaker.enter() is None
    if late is not None:
        getattr(breaker, late)(lost)
    assert breaker.state == {"succeeded": "closed", "failed": "open"}.get(str(late), "half-open")
    breaker.succeeded(probe)
    assert breaker.state == ("open" if late == "failed" else "closed")


def test_one_success_does_not_hide_the_failures_of_its_neighbours() -> None:
    """Calls side by side: after one of them has answered, three more failures in a row of the same round still open it."""
    breaker = CircuitBreaker(failures=3)
    calls = [breaker.enter() for _ in range(5)]
    for call, end in zip(calls, ["failed", "succeeded", "failed", "failed", "failed"], strict=True):
        assert breaker.state == "closed"
        getattr(breaker, end)(call)
    assert breaker.state == "open"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"failures": 0}, "failures: expected a whole number of at least 1, got 0"),
        ({"failures": True}, "failures: expected a whole number of at least 1, got True"),
        ({"failures": 1.5}, "failures: expected a whole number of at least 1, got 1.5"),
        ({"pause_s": 0}, "pause_s: expected a number of seconds above 0, got 0"),
        ({"pause_s": float("inf")}, "pause_s: expected a number of seconds above 0, got inf"),
        ({"pause_s": float("nan")}, "pause_s: expected a number of seconds above 0, got nan"),
    ],
)
def test_invalid_settings(options: dict[str, Any], expected: str) -> None:
    """Settings that could never work are refused at once, with the value got."""
    with pytest.raises(InputError) as caught:
        CircuitBreaker(**options)
    assert str(caught.value) == expected


def guarded_cascade(policy: Any, breaker: CircuitBreaker) -> tuple[Cascade, RecordingAcquirers]:
    """Return the sample cascade with a breaker on `links`."""
    acquirers = RecordingAcquirers("size", "reputation", on_failure=policy)
    recorder = RecordingAcquirers("links")
    acquirers.feature("links", on_failure=policy, breaker=breaker)(recorder.entries[0].function)
    acquirers.calls = recorder.calls  # only those of the guarded source
    return Cascade(sample_bundle(), acquirers), acquirers


def decide(cascade: Cascade, way: str, item: Any) -> Any:
    """Decide in one of the four ways."""
    if way == "decide":
        return cascade.decide(item)
    if way == "many":
        return cascade.decide_many([item])[0]
    if way == "async":
        return asyncio.run(cascade.decide_async(item))
    return asyncio.run(cascade.decide_many_async([item]))[0]


@pytest.mark.parametrize("way", ["decide", "many", "async", "many_async"])
@pytest.mark.parametrize("policy", ["raise", "reject", "default"])
def test_an_open_breaker_leaves_the_source_alone(way: str, policy: str) -> None:
    """After two failures in a row the source is not asked; the item fails by its policy, the stage is charged; then a probe."""
    clock = Clock()
    breaker = CircuitBreaker(failures=2, pause_s=10.0, clock=clock)
    cascade, acquirers = guarded_cascade(policy, breaker)
    broken = {**UNCLEAR, "links": OSError("down")}
    kinds = []
    for _ in range(4):
        if policy == "raise":
            with pytest.raises(AcquisitionError) as caught:
                decide(cascade, way, broken)
            kinds.append(caught.value.kind)
            assert caught.value.cost == 3.0
        else:
            decision = decide(cascade, way, broken)
            kinds.append(decision.errors[0].kind)
            assert decision.cost == (3.0 if policy == "reject" else 28.0)
            assert decision.reason == ("acquisition_failed" if policy == "reject" else "inconclusive")
            assert decision.degraded is (policy == "default")
    assert kinds == ["exception", "exception", "breaker_open", "breaker_open"]
    assert len(acquirers.calls) == 2
    clock.now = 10.0
    assert decide(cascade, way, UNCLEAR).errors == ()
    assert len(acquirers.calls) == 3
    assert breaker.state == "closed"


@pytest.mark.parametrize("way", ["decide", "many", "async", "many_async"])
@pytest.mark.parametrize("result", [ValueError("down"), "coroutine"], ids=["raises", "coroutine"])
def test_one_breaker_changes_nothing_for_acquirers_without(way: str, result: Any) -> None:
    """Beside an acquirer with a breaker, one without fails as it does where none has one: the same error, bill and calls."""

    async def look_up_later() -> float:
        return 0.1

    def look_up(_: Any) -> Any:
        if isinstance(result, Exception):
            raise result
        return look_up_later()

    decisions = []
    for breaker in (None, CircuitBreaker()):
        acquirers = RecordingAcquirers("size", on_failure="reject")
        acquirers.feature("links", on_failure="reject")(look_up)
        acquirers.feature("reputation", breaker=breaker)(lambda item: item["reputation"])
        decision = decide(Cascade(sample_bundle(), acquirers), way, UNCLEAR)
        decisions.append((decision.reason, decision.errors, decision.cost, acquirers.asked))
    assert decisions[0] == decisions[1]
    assert decisions[0][1][0].kind == ("exception" if isinstance(result, Exception) else "wrong_type")


@pytest.mark.parametrize("way", ["decide", "many", "async", "many_async"])
def test_a_value_that_is_not_allowed_is_an_answer(way: str) -> None:
    """A source that answers None is alive: the feature fails, the breaker does not count it."""
    breaker = CircuitBreaker(failures=1)
    cascade, acquirers = guarded_cascade("reject", breaker)
    for _ in range(3):
        assert decide(cascade, way, {**UNCLEAR, "links": None}).errors[0].kind == "missing"
    assert len(acquirers.calls) == 3
    assert breaker.state == "closed"


@pytest.mark.parametrize("way", ["decide", "many", "async", "many_async"])
@pytest.mark.parametrize("names", [("links",), ("links", "reputation")])
@pytest.mark.parametrize("result", [[0.1, 0.2, 0.3], 3.0, {"links": [0.1, 0.2, 0.3]}], ids=["length", "number", "column"])
def test_a_batch_answer_that_does_not_fit_is_a_failure_of_its_source(way: str, names: tuple[str, ...], result: Any) -> None:
    """Another length than that of the items, or not a sequence: the breaker counts it, with one item and with many."""
    breaker = CircuitBreaker(failures=2)
    acquirers = RecordingAcquirers(*(name for name in ("size", "reputation") if name not in names), on_failure="reject")
    acquirers.batch(*names, on_failure="reject", breaker=breaker)(lambda items: result)
    cascade = Cascade(sample_bundle(), acquirers)
    kinds = [decide(cascade, way, UNCLEAR).errors[0].kind for _ in range(3)]
    assert kinds[0] == kinds[1] != "breaker_open"
    assert kinds[2] == "breaker_open"
    assert breaker.state == "open"


@pytest.mark.parametrize("way", ["decide", "many", "async", "many_async"])
def test_an_interrupted_probe_lets_another_one_through(way: str) -> None:
    """SystemExit inside the probe says nothing about the source: the breaker waits for the next probe, not forever."""
    clock = Clock()
    breaker = CircuitBreaker(failures=1, pause_s=10.0, clock=clock)
    acquirers = RecordingAcquirers("size", "reputation", on_failure="reject")
    raised: list[BaseException] = [OSError("down"), KeyboardInterrupt()]

    @acquirers.feature("links", on_failure="reject", breaker=breaker)
    def links(item: Any) -> float:
        if raised:
            raise raised.pop(0)
        return 0.1

    cascade = Cascade(sample_bundle(), acquirers)
    assert decide(cascade, way, UNCLEAR).errors[0].kind == "exception"
    clock.now = 10.0
    with pytest.raises(KeyboardInterrupt):
        decide(cascade, way, UNCLEAR)
    assert breaker.state == "half-open"
    assert decide(cascade, way, UNCLEAR).errors == ()
    assert breaker.state == "closed"


def test_a_pickled_breaker_begins_closed() -> None:
    """Settings travel, the state does not: another process finds out by itself."""
    breaker = CircuitBreaker(failures=1, pause_s=5.0)
    fail(breaker)
    copy = pickle.loads(pickle.dumps(breaker))
    assert (breaker.state, copy.state) == ("open", "closed")
    fail(copy)
    assert copy.state == "open"


def test_two_threads_at_a_half_open_breaker() -> None:
    """Of many threads that come at once, one is let through."""
    clock = Clock()
    breaker = CircuitBreaker(failures=1, pause_s=1.0, clock=clock)
    fail(breaker)
    clock.now = 1.0
    start = threading.Barrier(8)
    let_in = []

    def enter_all() -> None:
        start.wait()
        let_in.append(breaker.enter() is not None)

    threads = [threading.Thread(target=enter_all) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(let_in) == [False] * 7 + [True]


def test_a_breaker_that_another_thread_closes_meanwhile() -> None:
    """The look without the lock may be out of date: the one under the lock counts."""
    breaker = CircuitBreaker(failures=1)
    fail(breaker)
    lock = breaker._lock

    class Closing:
        """Stands for a thread that was faster."""

        def __enter__(self) -> None:
            """Close the breaker, then take the lock."""
            lock.acquire()
            breaker._phase = BreakerPhase()

        def __exit__(self, *_: object) -> None:
            """Give the lock back."""
            lock.release()

    breaker._lock = Closing()  # type: ignore[assignment]
    assert breaker.enter() is breaker._phase


def test_a_forked_child_begins_closed_and_unlocked() -> None:
    """A lock held in the parent at the time of the fork, and a state of the parent's, are not the child's."""
    breaker = CircuitBreaker(failures=1)
    fail(breaker)
    with breaker._lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if breaker.state == "closed" and breaker.enter() is not None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert breaker.state == "open"


def test_fork_hooks_keep_no_object_alive() -> None:
    """The fork hook reaches what lives, and keeps nothing from going."""
    fork_hooks = _ForkHooks()
    started = []

    class Thing(ForkSafe):
        """Something with a lock."""

        def reset_after_fork(self) -> None:
            """Count."""
            started.append(self)

    thing, gone = Thing(), Thing()
    fork_hooks.register(thing)
    fork_hooks.register(gone)
    del gone
    fork_hooks._run_hooks()
    assert started == [thing]


@pytest.mark.parametrize("way", ["many", "many_async"])
def test_a_breaker_that_opens_stops_the_calls_that_wait_for_a_thread(way: str) -> None:
    """Fifty items wait for one thread, and the source fails at once: after three failures, no other calls it; a probe does."""
    clock, calls = Clock(), []
    acquirers = Acquirers()

    @acquirers.feature("size", breaker=CircuitBreaker(failures=3, clock=clock))
    def size(item: Any) -> float:
        calls.append(item)
        raise OSError("down")

    cascade = Cascade(make_bundle([["size"]]), acquirers, pool=AcquirerPool(1), on_failure="reject")
    decisions = cascade.decide_many(range(50)) if way == "many" else asyncio.run(cascade.decide_many_async(range(50)))
    kinds = [decision.errors[0].kind for decision in decisions]
    assert kinds.count("exception") == len(calls) == 3
    assert kinds.count("breaker_open") == 50 - len(calls)
    clock.now = 60.0
    assert cascade.decide(50).errors[0].kind == "exception"
    assert calls[-1] == 50


@pytest.mark.parametrize("way", ["plain", "async"])
@pytest.mark.parametrize("end", ["answers", "raises"])
def test_a_call_that_was_too_late_counts_once(way: str, end: str) -> None:
    """A timeout is one failure, whatever the call does when it ends at last: another one would open the breaker."""
    go_on, ended = threading.Event(), threading.Event()
    acquirers = Acquirers()
    breaker = CircuitBreaker(failures=2)

    @acquirers.feature("size", breaker=breaker, timeout_s=0.02)
    def size(_: Any) -> float:
        assert go_on.wait(60)
        try:
            if end == "raises":
                raise OSError("down")
            return 1.0
        finally:
            ended.set()

    cascade = Cascade(make_bundle([["size"]]), acquirers, pool=AcquirerPool(1), on_failure="reject")
    decision = cascade.decide({}) if way == "plain" else asyncio.run(cascade.decide_async({}))
    assert decision.errors[0].kind == "timeout"
    go_on.set()
    assert ended.wait(60)
    wait_until(lambda: cascade._pool.counts.abandoned == 0, "the call ends")
    assert (breaker.state, breaker._phase.consecutive_failures) == ("closed", 1)
