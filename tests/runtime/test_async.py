"""Deciding in an event loop: at the same time, bounded, cancelled cleanly; the same decisions as plain code makes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from emsco_runtime import Acquirers, AcquisitionError, Cascade, InputError
from emsco_runtime.driving import asynchronous as async_module, tasks
from emsco_runtime.engine.walk import NOT_DONE, Expired
from emsco_runtime.sources import pool as pool_module
from emsco_runtime.sources.breaker import CircuitBreaker
from emsco_runtime.sources.cache import AcquirerCache
from emsco_runtime.sources.pool import AcquirerPool, CallScope
from emsco_runtime.testing import RecordingAcquirers, make_bundle, sample_bundle
from tests.runtime.test_breaker import Clock, fail
from tests.runtime.waiting import HangingSource, our_threads, wait_until

UNCLEAR = {"size": 0.0, "links": 0.1, "reputation": 0.1}
CLEAR = {"size": 3.0, "links": 0.0, "reputation": 0.0}
SOON = 0.1
# Long enough to begin what is to hang, on a busy machine too.
WITHIN = 0.5
LONG = 600.0
_Result = TypeVar("_Result")


@pytest.fixture(autouse=True)
def _no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let idle threads end at once, and see that all have ended after each test."""
    monkeypatch.setattr(pool_module, "_IDLE_S", 0.05)
    before = set(our_threads())
    yield
    wait_until(lambda: set(our_threads()) <= before, "threads of the pool end")


def run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run in a loop of its own; no other task may be left, and the loop's error handler may not have been called."""
    received: list[dict[str, Any]] = []

    async def main() -> _Result:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: received.append(context))
        try:
            async with asyncio.timeout(60):
                return await work
        finally:
            assert asyncio.all_tasks() == {asyncio.current_task()}
            gc.collect()

    try:
        return asyncio.run(main())
    finally:
        gc.collect()
        assert received == []


async def wait_for(condition: Callable[[], object]) -> None:
    """Wait for what another task, or another thread, does."""
    while not condition():  # noqa: ASYNC110 - threads set no events of a loop
        await asyncio.sleep(0.001)


class Sources:
    """Async sources of features that read the item, and write down when each call starts and how it ends."""

    def __init__(self, *names: str, **options: Any) -> None:
        self.log: list[str] = []
        self.under_way = 0
        self.most = 0
        self.acquirers = Acquirers()
        for name in names:
            self.acquirers.feature(name, **options)(self.source(name))

    def source(self, name: str) -> Any:
        """Return the source of one feature: a value, an exception to raise, or an event to wait for."""

        async def source(item: Any) -> Any:
            self.log.append(f"{name} starts")
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            try:
                value = item[name]
                if isinstance(value, asyncio.Event):
                    await value.wait()
                    value = 0.0
                await asyncio.sleep(0)
                if isinstance(value, BaseException):
                    raise value
            except asyncio.CancelledError:
                self.log.append(f"{name} is cancelled")
                raise
            else:
                return value
            finally:
                self.under_way -= 1
                self.log.append(f"{name} ends")

        return source


def test_async_and_plain_sources_decide_alike() -> None:
    """All async, all plain, or mixed: the same decision as `decide` makes with plain ones."""
    plain = Cascade(sample_bundle())
    for asynchronous in (["size", "links", "reputation"], ["links"], ["size", "reputation"], []):
        sources = Sources(*asynchronous)
        for name in UNCLEAR:
            if name not in asynchronous:
                sources.acquirers.feature(name)(lambda item, name=name: item[name])
        cascade = Cascade(sample_bundle(), sources.acquirers)
        for item in (UNCLEAR, CLEAR):
            found, expected = run(cascade.decide_async(item)), plain.decide(item)
            assert found._replace(elapsed_s=0.0) == expected._replace(elapsed_s=0.0)


def test_the_sources_of_a_stage_run_side_by_side_and_those_of_the_next_later() -> None:
    """Stage 1 has two sources that both start before either ends; stage 2 starts after both, and after the score."""
    sources = Sources("a", "b", "c")
    bundle = make_bundle([["a", "b"], ["c"]], threshold=1.0)
    run(Cascade(bundle, sources.acquirers).decide_async({"a": 0.1, "b": 0.1, "c": 0.1}))
    assert sources.log == ["a starts", "b starts", "a ends", "b ends", "c starts", "c ends"]


def test_the_sources_of_a_stage_that_is_not_needed_never_start() -> None:
    """Stage 1 is confident: nothing of stage 2 was prefetched."""
    sources = Sources("size", "links", "reputation")
    decision = run(Cascade(sample_bundle(), sources.acquirers).decide_async(CLEAR))
    assert (decision.label, decision.cost) == ("spam", 1.0)
    assert sources.log == ["size starts", "size ends"]


def test_concurrency_is_bounded() -> None:
    """Six sources, at most two at a time; all are called, and the values land where they belong."""
    names = list("abcdef")
    sources = Sources(*names)
    bundle = make_bundle([names], threshold=1.0)
    item = {name: 0.1 * position for position, name in enumerate(names)}
    decision = run(Cascade(bundle, sources.acquirers, concurrency=2).decide_async(item))
    assert sources.most == 2
    assert decision.probabilities == Cascade(bundle).decide(item).probabilities


def test_concurrency_bounds_async_acquirers_alone() -> None:
    """Three plain acquirers wait for each other in the pool: each has a thread, whatever the limit of the async ones."""
    together = threading.Barrier(3, timeout=60)
    acquirers = Acquirers()
    for name in "abc":
        acquirers.feature(name)(lambda item: float(together.wait() * 0))
    cascade = Cascade(make_bundle([list("abc")]), acquirers, pool=AcquirerPool(3), concurrency=1, on_failure="reject")
    assert run(cascade.decide_async(1, deadline_s=10)).trace[0].acquired == ("a", "b", "c")


def test_budget_and_known_values_hold_in_async_code() -> None:
    """A budget ends it before the stage; a known value is free and its source is not started."""
    sources = Sources("size", "links", "reputation")
    cascade = Cascade(sample_bundle(), sources.acquirers)
    assert run(cascade.decide_async(UNCLEAR, budget=2.9)).reason == "budget"
    assert sources.log == ["size starts", "size ends"]
    sources.log.clear()
    decision = run(cascade.decide_async(UNCLEAR, known={"size": 0.0, "reputation": 0.1}))
    assert (decision.cost, decision.stages) == (2.0, 3)
    assert sources.log == ["links starts", "links ends"]


@pytest.mark.parametrize("policy", ["raise", "reject", "default"])
@pytest.mark.parametrize("guarded", [False, True])
def test_failures_follow_the_policy(policy: Any, guarded: bool) -> None:
    """An exception in a coroutine, alone in its stage or through a guard: the kind, the bill and the cause."""
    sources = Sources("size", "links", "reputation", **({"breaker": CircuitBreaker()} if guarded else {}))
    cascade = Cascade(sample_bundle(), sources.acquirers, on_failure=policy)
    broken = OSError("down")
    if policy == "raise":
        with pytest.raises(AcquisitionError) as caught:
            run(cascade.decide_async({**UNCLEAR, "links": broken}))
        assert (caught.value.kind, caught.value.cost, caught.value.__cause__) == ("exception", 3.0, broken)
        return
    decision = run(cascade.decide_async({**UNCLEAR, "links": broken}))
    assert decision.errors[0][:3] == ("links", 2, "exception")
    assert (decision.cost, decision.degraded) == ((3.0, False) if policy == "reject" else (28.0, True))


def test_a_failure_that_ends_the_item_cancels_the_others() -> None:
    """One of three fails under "reject": the others are cancelled and have ended before the decision is there."""
    sources = Sources("a", "b", "c")
    cascade = Cascade(make_bundle([["a", "b", "c"]]), sources.acquirers, on_failure="reject")

    async def main() -> Any:
        return await cascade.decide_async({"a": asyncio.Event(), "b": OSError("down"), "c": asyncio.Event()})

    decision = run(main())
    assert (decision.reason, decision.cost) == ("acquisition_failed", 3.0)
    assert [failure.feature for failure in decision.errors] == ["b"]
    assert {"a is cancelled", "c is cancelled"} <= set(sources.log)
    assert sources.under_way == 0


def test_a_plain_source_that_fails_spares_the_async_ones() -> None:
    """Plain sources go first: when one ends the item, the coroutines of the stage never start, bounded or not."""
    for concurrency in (1, 32):
        sources = Sources("a", "b")
        sources.acquirers.feature("c")(lambda item: 1 / 0)
        cascade = Cascade(make_bundle([["a", "b", "c"]]), sources.acquirers, on_failure="reject", concurrency=concurrency)
        assert run(cascade.decide_async({"a": 0.1, "b": 0.1})).reason == "acquisition_failed"
        assert sources.log == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="no loop starts tasks eagerly")
def test_eager_tasks_begin_after_plain_sources() -> None:
    """A loop that runs each task as it is made calls async acquirers after the plain ones all the same, or not at all."""
    calls: list[str] = []
    acquirers = Acquirers()

    @acquirers.feature("links")
    async def links(item: Any) -> float:
        calls.append("links")
        return 0.0

    @acquirers.feature("reputation")
    def reputation(item: Any) -> float:
        calls.append("reputation")
        return 1.0 / item

    cascade = Cascade(make_bundle([["links", "reputation"]]), acquirers, on_failure="reject")

    async def decide(item: float) -> str:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        return (await cascade.decide_async(item)).reason

    run(decide(1.0))
    assert calls == ["reputation", "links"]
    calls.clear()
    assert (run(decide(0.0)), calls) == ("acquisition_failed", ["reputation"])


def test_a_failure_that_falls_back_does_not_cancel_the_others() -> None:
    """Under "default" every source of the stage is asked, and each failure is listed."""
    sources = Sources("a", "b", "c")
    cascade = Cascade(make_bundle([["a", "b", "c"]], threshold=1.0), sources.acquirers, on_failure="default")
    decision = run(cascade.decide_async({"a": OSError("x"), "b": 0.1, "c": None}))
    assert [(failure.feature, failure.kind) for failure in decision.errors] == [("a", "exception"), ("c", "missing")]
    assert decision.trace[0].acquired == ("b",)


# Timeouts and deadlines


@pytest.mark.parametrize("policy", ["raise", "reject", "default"])
@pytest.mark.parametrize("alone", [True, False])
def test_a_coroutine_that_hangs_is_timed_out(policy: Any, alone: bool) -> None:
    """It is cancelled, and the item goes on or ends by the policy, with the exact bill."""
    sources = Sources("size")
    sources.acquirers.feature("links", timeout_s=SOON)(sources.source("links"))
    sources.acquirers.feature("reputation")(sources.source("reputation"))
    stages = [["size"], ["links"], ["reputation"]] if alone else [["size"], ["links", "reputation"]]
    bundle = make_bundle(stages, costs={"size": 1.0, "links": 2.0, "reputation": 25.0}, threshold=1.0)
    cascade = Cascade(bundle, sources.acquirers, on_failure=policy)

    async def main() -> Any:
        return await cascade.decide_async({**UNCLEAR, "links": asyncio.Event()})

    cost = 3.0 if alone else 28.0
    if policy == "raise":
        with pytest.raises(AcquisitionError) as caught:
            run(main())
        assert (caught.value.kind, caught.value.cost) == ("timeout", cost)
    else:
        decision = run(main())
        assert decision.errors[0][:3] == ("links", 2, "timeout")
        assert decision.cost == (cost if policy == "reject" else 28.0)
        assert decision.degraded is (policy == "default")
    assert "links is cancelled" in sources.log


def test_a_time_out_of_the_sources_own_is_an_exception() -> None:
    """TimeoutError raised inside is distinguished from our limit."""
    sources = Sources("size", "links", "reputation", timeout_s=LONG)
    decision = run(
        Cascade(sample_bundle(), sources.acquirers, on_failure="reject").decide_async({**UNCLEAR, "size": TimeoutError("mine")})
    )
    assert decision.errors[0].kind == "exception"
    assert "TimeoutError: mine" in decision.errors[0].message


def test_a_deadline_cancels_what_is_outstanding() -> None:
    """One of three came in time: it counts as acquired, the others are cancelled, the stage is charged."""
    sources = Sources("a", "b", "c")
    cascade = Cascade(make_bundle([["a", "b", "c"]]), sources.acquirers)

    async def main() -> Any:
        return await cascade.decide_async({"a": asyncio.Event(), "b": 0.1, "c": asyncio.Event()}, deadline_s=WITHIN)

    decision = run(main())
    assert (decision.reason, decision.cost, decision.stages) == ("deadline", 3.0, 0)
    assert decision.trace[0].acquired == ("b",)
    assert {"a is cancelled", "c is cancelled"} <= set(sources.log)


def test_a_deadline_between_two_answers() -> None:
    """One answer comes at the deadline, another is still missing when it is looked at again: rejected, not waited for."""

    async def slow(item: Any) -> float:
        # Holds the loop past the deadline, so that the next look comes too late.
        await asyncio.sleep(0.01)
        threading.Event().wait(2 * WITHIN)
        return 0.1

    sources = Sources("b")
    sources.acquirers.feature("a")(slow)
    cascade = Cascade(make_bundle([["a", "b"]]), sources.acquirers)

    async def main() -> Any:
        return await cascade.decide_async({"b": asyncio.Event()}, deadline_s=WITHIN)

    decision = run(main())
    assert (decision.reason, decision.trace[0].acquired) == ("deadline", ("a",))


def test_no_call_is_begun_after_the_deadline() -> None:
    """The deadline comes between the walk's look at the clock and the first call: nothing is called, all outcomes are missing."""
    started: list[str] = []

    async def source(item: Any) -> float:
        started.append(item)
        return 0.1

    acquirers = Acquirers()
    acquirers.feature("a")(source)
    acquirers.feature("b")(source)
    cascade = Cascade(make_bundle([["a", "b"]]), acquirers)
    past = replace(cascade._runner.limits, deadline=time.perf_counter() - 1.0)
    reply = asyncio.run(async_module._acquire(cascade._runner.plan.stages[0].acquire.calls, "item", past))
    assert isinstance(reply, Expired)
    assert list(reply.outcomes) == [NOT_DONE] * 2
    assert started == []


def test_a_deadline_at_the_moment_of_the_last_answer() -> None:
    """The alarm goes off when all answers are there but were not looked at yet: the answers count."""

    async def run_scenario() -> Any:
        board = async_module._StageTasks((), asyncio.get_running_loop().create_future())
        board.waiter.set_result(None)
        board.expire()
        return await async_module._wait_for_outcomes(board, asyncio.get_running_loop(), time.perf_counter() + 600.0)

    assert asyncio.run(run_scenario()) == []


class SlowCleanup:
    """An async source that hangs, and when it is cancelled cleans up until it is let go; then it raises, or returns."""

    def __init__(self, ends_with: BaseException | None = None) -> None:
        self.ends_with = ends_with
        self.log: list[str] = []
        self.release_event = asyncio.Event()

    async def __call__(self, item: Any) -> float:
        """Hang, clean up, end."""
        self.log.append("starts")
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append("cleans up")
            await self.release_event.wait()
            self.log.append("ends")
            if self.ends_with is not None:
                raise self.ends_with
        raise AssertionError("it hangs until it is cancelled")

    async def end(self) -> None:
        """Let it go, and wait until nothing is left of it."""
        assert self.log == ["starts", "cleans up"]
        # We hold the only reference: it must not be collected.
        gc.collect()
        self.release_event.set()
        await wait_for(lambda: not tasks.cancelled_tasks)
        assert self.log == ["starts", "cleans up", "ends"]


@pytest.mark.parametrize(
    ("way", "ends_with", "errors", "logged"),
    [
        ("deadline", None, [], False),
        ("deadline, guarded", ValueError("x"), [], True),
        ("timeout", ValueError("x"), ["timeout"], True),
        ("timeout", asyncio.CancelledError(), ["timeout"], False),
        ("failure", None, ["exception"], False),
    ],
)
def test_nobody_waits_for_a_source_that_cleans_up(
    way: str,
    ends_with: BaseException | None,
    errors: list[str],
    logged: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """At its deadline, at a timeout, or when another source has failed: the decision is there, the clean-up goes on behind it.

    What it raises then is logged, and asyncio has nothing to complain of (the loop's handler is checked).
    """
    # Waiting for it would never end.
    monkeypatch.setattr(tasks, "_GRACE_S", LONG)
    caplog.set_level("DEBUG", logger="emsco_runtime.asynchronous")

    async def main() -> Any:
        source = SlowCleanup(ends_with)

        async def other(item: Any) -> float:
            await wait_for(lambda: source.log)
            if way == "failure":
                raise OSError("down")
            return 0.1

        acquirers = Acquirers()
        breaker = CircuitBreaker() if way == "deadline, guarded" else None
        acquirers.feature("a", timeout_s=SOON if way == "timeout" else None, breaker=breaker)(source)
        acquirers.feature("b")(other)
        cascade = Cascade(make_bundle([["a", "b"]], threshold=1.0), acquirers, on_failure="reject")
        decision = await cascade.decide_async(None, deadline_s=WITHIN if "deadline" in way else None)
        await source.end()
        return decision

    decision = run(main())
    assert decision.reason == ("deadline" if "deadline" in way else "acquisition_failed")
    assert [failure.kind for failure in decision.errors] == errors
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == ([ends_with] if logged else [])


@pytest.mark.parametrize("way", ["deadline", "cancelled"])
def test_a_probe_that_cleans_up_slowly_is_given_back_at_once(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe of a half-open breaker is cancelled by its caller: the next call may probe, although it still cleans up."""
    monkeypatch.setattr(tasks, "_GRACE_S", SOON)
    clock = Clock()
    breaker = CircuitBreaker(failures=1, pause_s=10.0, clock=clock)
    fail(breaker)
    clock.now = 10.0

    async def main() -> None:
        source = SlowCleanup()
        acquirers = Acquirers()
        acquirers.feature("a", breaker=breaker)(source)
        cascade = Cascade(make_bundle([["a"]]), acquirers)
        task = asyncio.create_task(cascade.decide_async(None, deadline_s=WITHIN if way == "deadline" else None))
        await wait_for(lambda: source.log)
        if way == "cancelled":
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert task.cancelled() is (way == "cancelled")
        probe = breaker.enter()
        assert probe is not None
        breaker.cancelled(probe)
        await source.end()

    run(main())
    assert breaker.state == "half-open"


def test_a_decision_that_is_cancelled_gives_its_sources_a_moment() -> None:
    """Whoever cancels finds them ended, if they clean up within a second; that is what tasks do for each other."""

    async def main() -> None:
        source = SlowCleanup()
        acquirers = Acquirers()
        acquirers.feature("a", breaker=CircuitBreaker())(source)
        acquirers.feature("b")(source)
        cascade = Cascade(make_bundle([["a"]]), acquirers)
        task = asyncio.create_task(cascade.decide_async(None))
        await wait_for(lambda: source.log)
        task.cancel()
        await wait_for(lambda: len(source.log) == 2)
        source.release_event.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert source.log == ["starts", "cleans up", "ends"]

    run(main())


def test_a_forked_child_begins_without_the_tasks_of_its_parent() -> None:
    """Tasks belong to the loops of their process."""

    async def main() -> None:
        cancelled_tasks = tasks._CancelledTasks()
        task = asyncio.create_task(asyncio.sleep(600))
        await asyncio.sleep(0)
        cancelled_tasks.cancel(task)
        assert len(cancelled_tasks) == 1
        cancelled_tasks.reset_after_fork()
        assert len(cancelled_tasks) == 0
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_coroutine_that_ignores_its_cancellation_is_left_behind() -> None:
    """At the deadline it is asked to stop, and the decision is given without it."""
    release_event: list[asyncio.Event] = []
    acquirers = Acquirers()

    @acquirers.feature("a")
    async def stubborn(item: Any) -> float:
        release_event.append(asyncio.Event())
        while not release_event[0].is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release_event[0].wait()
        return 0.1

    cascade = Cascade(make_bundle([["a"]]), acquirers)

    async def main() -> Any:
        decision = await cascade.decide_async(None, deadline_s=WITHIN)
        (left,) = asyncio.all_tasks() - {asyncio.current_task()}
        release_event[0].set()
        await left
        return decision

    assert run(main()).reason == "deadline"


# Cancelling


def test_cancelling_a_decision_cancels_its_sources() -> None:
    """`decide_async` is cancelled: every source under way is, and CancelledError is raised, whatever the policy."""
    for names in (["a"], ["a", "b"]):
        sources = Sources(*names)
        received: list[Any] = []
        cascade = Cascade(make_bundle([names]), sources.acquirers, on_failure="default", observers=[received.append])

        async def main(cascade: Cascade = cascade, names: list[str] = names, sources: Sources = sources) -> None:
            task = asyncio.create_task(cascade.decide_async({name: asyncio.Event() for name in names}))
            await wait_for(lambda: sources.under_way == len(names))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert task.cancelled()

        run(main())
        assert sorted(line for line in sources.log if "cancelled" in line) == [f"{name} is cancelled" for name in names]
        assert received == []


@pytest.mark.parametrize("answer", ["raise", "return"])
@pytest.mark.parametrize("stages", [[["a"], ["b"]], [["a", "c"], ["b"]]])
def test_a_source_that_catches_the_cancellation_does_not_undo_it(
    answer: str, stages: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client turns the cancellation into an error of its own, or a value: no further stage is paid, and nothing is decided."""
    monkeypatch.setattr(async_module, "_COUNTS_CANCELLATIONS", True)
    calls: list[str] = []
    received: list[Any] = []
    acquirers = Acquirers()

    @acquirers.feature("a")
    async def a(_item: Any) -> float:
        calls.append("a")
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            if answer == "raise":
                raise ConnectionError("connection lost") from None
        return 0.0

    for name in ("b", "c"):
        acquirers.feature(name)(lambda _item, name=name: calls.append(name) or 0.0)
    cascade = Cascade(make_bundle(stages), acquirers, on_failure="default", observers=[received.append])

    async def main() -> None:
        task = asyncio.create_task(cascade.decide_async(None))
        await wait_for(lambda: "a" in calls)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert "b" not in calls
    assert received == []


def test_a_source_whose_own_tasks_fail_cancels_nothing() -> None:
    """An acquirer handles the failure of one of its tasks: asyncio cancels whoever waits for these, and that is over then."""
    acquirers = Acquirers()

    async def fail_soon() -> None:
        await asyncio.sleep(0.001)
        raise ConnectionError("down")

    @acquirers.feature("a")
    async def a(_item: Any) -> float:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail_soon())
        except* ConnectionError:
            pass
        return 0.1

    assert run(Cascade(make_bundle([["a"]]), acquirers).decide_async(None)).errors == ()


def test_a_decision_in_a_task_that_was_cancelled_before() -> None:
    """Code that cleans up after its own cancellation may decide: that cancellation is not this decision's."""

    async def main() -> Any:
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            return await Cascade(make_bundle([["a"]]), Sources("a").acquirers).decide_async({"a": 0.1})

    async def cancelled() -> Any:
        task = asyncio.create_task(main())
        await asyncio.sleep(0)
        task.cancel()
        return await task

    assert run(cancelled()).stages == 1


@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
@pytest.mark.parametrize("guarded", [False, True])
def test_a_source_that_is_cancelled_by_itself_is_no_failed_feature(names: list[str], guarded: bool) -> None:
    """A coroutine whose own work was cancelled: that passes through, cancels the rest, and is no failure for a breaker."""
    breaker = CircuitBreaker(failures=1)
    sources = Sources(*names, **({"breaker": breaker} if guarded else {}))
    cascade = Cascade(make_bundle([names]), sources.acquirers, on_failure="default")

    async def main() -> Any:
        item: dict[str, Any] = {"a": asyncio.CancelledError(), "b": asyncio.Event()}
        with pytest.raises(asyncio.CancelledError):
            await cascade.decide_async(item)

    run(main())
    assert sources.under_way == 0
    assert breaker.state == "closed"


def test_cancelling_gives_up_the_thread_of_a_plain_source() -> None:
    """A plain source in the pool hangs: the decision is cancelled at once, the call is abandoned and ends by itself."""
    source = HangingSource()
    pool = AcquirerPool(1)
    acquirers = Acquirers()
    acquirers.feature("a")(source)
    cascade = Cascade(make_bundle([["a"]]), acquirers, pool=pool)

    async def main() -> None:
        task = asyncio.create_task(cascade.decide_async(None))
        await wait_for(lambda: source.entered)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert pool.counts.abandoned == 1
    # Its loop is closed by now: it must not be notified.
    source.release_event.set()
    wait_until(lambda: pool.counts.abandoned == 0, "the abandoned call ends")


def test_cancelling_lets_no_call_begin_that_waits_for_a_thread() -> None:
    """Two of forty plain sources hang when the decision is cancelled: giving these up does not let the others begin."""
    source = HangingSource()
    pool = AcquirerPool(2)
    names = [f"f{number}" for number in range(40)]
    acquirers = Acquirers()
    for name in names:
        acquirers.feature(name)(source)
    cascade = Cascade(make_bundle([names]), acquirers, pool=pool)

    async def main() -> None:
        task = asyncio.create_task(cascade.decide_async(None))
        await wait_for(lambda: source.entered == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert pool.counts[1:] == (0, 2, 2)
    source.release_event.set()
    wait_until(lambda: pool.counts.threads == 0, "threads of the pool end")
    assert source.entered == 2


def test_a_deadline_that_a_thread_notices_before_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's timer is late: a call that a thread did not begin for the deadline ends the item all the same."""
    monkeypatch.setattr(async_module, "CallScope", lambda _: CallScope(-math.inf))
    acquirers = RecordingAcquirers("a", "b")
    cascade = Cascade(make_bundle([["a", "b"]]), acquirers, pool=AcquirerPool(1))
    decision = run(cascade.decide_async({"a": 1.0, "b": 1.0}, deadline_s=LONG))
    assert (decision.reason, decision.cost, decision.trace[0].acquired) == ("deadline", 2.0, ())
    assert acquirers.calls == []


def test_a_plain_source_that_raises_after_its_time_out_disturbs_nobody() -> None:
    """The error of an abandoned call is thrown away: asyncio has nothing to complain of (the loop's handler is checked)."""
    release_event = threading.Event()
    acquirers = Acquirers()

    @acquirers.feature("a", timeout_s=SOON)
    def late(item: Any) -> float:
        assert release_event.wait(60)
        raise ValueError("too late to matter")

    cascade = Cascade(make_bundle([["a"]]), acquirers, on_failure="reject")

    async def main() -> Any:
        decision = await cascade.decide_async(None)
        release_event.set()
        await wait_for(lambda: not cascade._pool.counts.abandoned)
        return decision

    assert run(main()).errors[0].kind == "timeout"


def test_plain_sources_run_in_the_loops_thread_unless_they_must_not() -> None:
    """Without a pool, a timeout or a deadline: in this thread. With any of them: in another."""
    where: list[int] = []
    acquirers = Acquirers()

    @acquirers.feature("a")
    def plain(item: Any) -> float:
        where.append(threading.get_ident())
        return 0.1

    bundle = make_bundle([["a"]], threshold=1.0)
    run(Cascade(bundle, acquirers).decide_async(None))
    run(Cascade(bundle, acquirers).decide_async(None, deadline_s=LONG))
    run(Cascade(bundle, acquirers, pool=AcquirerPool(1)).decide_async(None))
    timed = Acquirers()
    timed.feature("a", timeout_s=LONG)(plain)
    run(Cascade(bundle, timed).decide_async(None))
    assert [ident == threading.get_ident() for ident in where] == [True, False, False, False]


def test_a_coroutine_from_a_plain_function_is_refused_alone_and_in_company() -> None:
    """A lambda that returns a coroutine is not recognised as async: the message says how to write it, however it is decided."""

    async def late(item: Any) -> float:
        return 1.0

    for names, together in ((["a"], False), (["a", "b"], False), (["a", "b"], True)):
        acquirers = Acquirers()
        for register in [acquirers.features(*names)] if together else map(acquirers.feature, names):
            register(lambda item: late(item))  # noqa: PLW0108 - the point of the test
        cascade = Cascade(make_bundle([names]), acquirers, on_failure="reject")
        for decision in (run(cascade.decide_async(None)), cascade.decide(None), cascade.decide_many([None])[0]):
            assert decision.errors[0].kind == "wrong_type"
            assert "returned a coroutine: write it as `async def`" in decision.errors[0].message


def test_a_cached_value_spares_the_coroutine() -> None:
    """A hit starts nothing, and is free."""
    sources = Sources("a", cache=AcquirerCache(key=str, ttl_s=60.0))
    cascade = Cascade(make_bundle([["a"]]), sources.acquirers)
    costs = [run(cascade.decide_async({"a": 0.1})).cost for _ in range(2)]
    assert costs == [1.0, 0.0]
    assert sources.log == ["a starts", "a ends"]


def test_a_key_that_fails_is_a_failure() -> None:
    """The key function of a cache raises: the source is not started."""
    sources = Sources("a", cache=AcquirerCache(key=lambda item: item["absent"], ttl_s=60.0))
    decision = run(Cascade(make_bundle([["a"]]), sources.acquirers, on_failure="reject").decide_async({"a": 0.1}))
    assert decision.errors[0].kind == "exception"
    assert sources.log == []


# Many


def test_many_decisions_come_in_the_order_of_the_items() -> None:
    """Items that take longer for being earlier: the order is theirs, at most `concurrency` are under way."""
    sources = Sources("a")
    under_way: list[int] = []
    acquirers = Acquirers()

    @acquirers.feature("a")
    async def backwards(item: int) -> float:
        under_way.append(item)
        sources.most = max(sources.most, len(under_way))
        for _ in range(20 - item):
            await asyncio.sleep(0)
        under_way.remove(item)
        return item / 10

    cascade = Cascade(make_bundle([["a"]], threshold=1.0), acquirers)
    decisions = run(cascade.decide_many_async(iter(range(20)), concurrency=7))
    plain = Cascade(cascade.bundle)
    assert [one.probabilities for one in decisions] == [plain.decide({"a": item / 10}).probabilities for item in range(20)]
    assert sources.most == 7
    assert run(cascade.decide_many_async([])) == []


def test_the_first_error_of_many_carries_its_index_and_cancels_the_rest() -> None:
    """Item 2 fails: the error names it, the items under way are cancelled, later ones are never started."""
    sources = Sources("a")
    cascade = Cascade(make_bundle([["a"]]), sources.acquirers)

    async def main() -> None:
        items: list[Any] = [{"a": asyncio.Event()} for _ in range(10)]
        items[2] = {"a": OSError("down")}
        with pytest.raises(AcquisitionError) as caught:
            await cascade.decide_many_async(items, concurrency=4)
        assert caught.value.index == 2
        assert str(caught.value).startswith("item 2: feature 'a' (stage 1)")
        assert isinstance(caught.value.__cause__, OSError)

    run(main())
    assert sources.log.count("a is cancelled") == 3
    assert sources.log.count("a starts") == 4


def test_several_errors_of_many_at_once_leave_nothing_behind() -> None:
    """All items fail at the same moment: one error is raised, asyncio complains of none (the loop's handler is checked)."""
    sources = Sources("a")
    cascade = Cascade(make_bundle([["a"]]), sources.acquirers)
    with pytest.raises(AcquisitionError) as caught:
        run(cascade.decide_many_async([{"a": OSError("down")}] * 5))
    assert caught.value.index in range(5)


def test_cancelling_many_cancels_all() -> None:
    """The caller goes away: every item under way is cancelled, and CancelledError is raised."""
    sources = Sources("a")
    cascade = Cascade(make_bundle([["a"]]), sources.acquirers)

    async def main() -> None:
        waiting = [{"a": asyncio.Event()} for _ in range(5)]
        task = asyncio.create_task(cascade.decide_many_async(waiting, concurrency=3))
        await wait_for(lambda: sources.under_way == 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert sources.log.count("a is cancelled") == 3
    assert sources.log.count("a starts") == 3


def test_known_values_and_budgets_of_many() -> None:
    """One mapping per item, one budget for each of them; observers are called with every decision."""
    received: list[Any] = []
    sources = Sources("size", "links", "reputation")
    cascade = Cascade(sample_bundle(), sources.acquirers, observers=[received.append])
    decisions = run(cascade.decide_many_async([UNCLEAR, UNCLEAR], budget=3.0, known=[{"reputation": 0.1}, None]))
    assert [(one.reason, one.cost) for one in decisions] == [("inconclusive", 3.0), ("budget", 3.0)]
    assert sorted(received, key=decisions.index) == decisions


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency": 0}, "concurrency: expected a whole number of at least 1, got 0"),
        ({"concurrency": True}, "concurrency: expected a whole number of at least 1, got True"),
        ({"budget": -1.0}, "budget: expected a number of at least 0, got -1.0"),
        ({"deadline_s": "1"}, "deadline_s: expected a number of seconds, got '1'"),
        ({"known": [None]}, "known: expected a sequence with one mapping (or None) per item, got 1 for 0 items"),
    ],
)
def test_wrong_options_are_refused_even_without_items(options: dict[str, Any], said: str) -> None:
    """An empty list does not hide a mistake."""
    with pytest.raises(InputError) as caught:
        run(Cascade(sample_bundle()).decide_many_async([], **options))
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("way", ["many", "many_async"])
def test_what_is_wrong_with_the_known_values_of_an_item_names_it(way: str) -> None:
    """The message begins with the place of the item's mapping."""
    cascade, items = Cascade(sample_bundle()), [UNCLEAR] * 3
    for wrong, said in (
        ({"size": "x"}, "known[2]: feature 'size': "),
        ({"sise": 1.0}, "known[2]: the bundle has no feature 'sise'; did you mean 'size'?"),
        (7, "known[2]: expected a mapping from feature to value, got int"),
    ):
        known: Any = [None, None, wrong]
        with pytest.raises(InputError) as caught:
            cascade.decide_many(items, known=known) if way == "many" else run(cascade.decide_many_async(items, known=known))
        assert str(caught.value).startswith(said)


@pytest.mark.parametrize("way", ["many", "many_async"])
def test_observers_get_errors_with_the_position_of_the_item(way: str) -> None:
    """The error that observers get is the one that is raised, with its index and its cause."""

    class Watcher:
        """Keeps errors."""

        def __init__(self) -> None:
            self.errors: list[AcquisitionError] = []

        def __call__(self, decision: Any) -> None:
            """Ignore it."""

        def on_error(self, error: AcquisitionError, bundle: str) -> None:
            """Keep it."""
            self.errors.append(error)

    watcher, acquirers = Watcher(), Acquirers()
    acquirers.feature("size")(lambda item: 1 / item)
    cascade, items = Cascade(make_bundle([["size"]]), acquirers, observers=[watcher]), [1.0, 2.0, 0.0]
    with pytest.raises(AcquisitionError) as caught:
        cascade.decide_many(items) if way == "many" else run(cascade.decide_many_async(items))
    assert watcher.errors == [caught.value]
    assert caught.value.index == 2
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
