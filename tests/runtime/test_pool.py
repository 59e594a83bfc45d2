"""The pool of threads: side by side, bounded, abandoned calls counted and limited, forks, no thread left."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import pickle
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from emsco_runtime import Acquirers, Cascade, Decision, InputError
from emsco_runtime.sources import pool as pool_module
from emsco_runtime.sources.pool import AcquirerPool, PoolCall, PoolFull, released_slot
from emsco_runtime.testing import RecordingAcquirers, make_bundle
from tests.runtime.waiting import HangingSource, our_threads, wait_until


@pytest.fixture(autouse=True)
def _no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let idle threads end at once, and see that all have ended after each test; those of earlier tests may idle on."""
    monkeypatch.setattr(pool_module, "_IDLE_S", 0.05)
    before = set(our_threads())
    yield
    wait_until(lambda: set(our_threads()) <= before, "threads of the pool end")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"threads": 0}, "threads: expected a whole number of at least 1, got 0"),
        ({"threads": True}, "threads: expected a whole number of at least 1, got True"),
        ({"max_abandoned": -1}, "max_abandoned: expected a whole number of at least 0, got -1"),
        ({"max_abandoned": 1.0}, "max_abandoned: expected a whole number of at least 0, got 1.0"),
    ],
)
def test_invalid_settings(options: dict[str, Any], expected: str) -> None:
    """Settings that could never work are refused at once, with the value got."""
    with pytest.raises(InputError) as caught:
        AcquirerPool(**options)
    assert str(caught.value) == expected


def test_calls_give_what_their_functions_give() -> None:
    """Results and errors reach the caller that waits, SystemExit included."""
    pool = AcquirerPool(2)

    def leave(item: object) -> None:
        raise SystemExit(3)

    assert pool.submit(len, "abc").result(60) == 3
    assert isinstance(pool.submit(len, 3).exception(60), TypeError)
    assert isinstance(pool.submit(leave, 3).exception(60), SystemExit)


def test_calls_in_quick_succession_run_side_by_side() -> None:
    """Two calls for one idle thread: a second thread is started, although the first one was only just woken."""
    pool = AcquirerPool(4)
    assert pool.submit(len, "").result(60) == 0
    wait_until(lambda: pool._idle == 1, "the thread is idle")
    together = threading.Barrier(3)

    def meet(item: object) -> int:
        return together.wait(60)

    calls = [pool.submit(meet, None) for _ in range(3)]
    assert sorted(call.result(60) for call in calls) == [0, 1, 2]


def test_no_more_threads_than_allowed() -> None:
    """Twenty calls in a pool of three: never more than three at a time, and all are made."""
    pool = AcquirerPool(3)
    lock = threading.Lock()
    running: list[int] = []
    most: list[int] = []

    def work(item: int) -> int:
        with lock:
            running.append(item)
            most.append(len(running))
        time.sleep(0.002)
        with lock:
            running.remove(item)
        return item

    calls = [pool.submit(work, number) for number in range(20)]
    assert [call.result(60) for call in calls] == list(range(20))
    assert max(most) == 3
    assert pool.counts.threads <= 3


def test_a_call_that_has_not_begun_is_taken_back() -> None:
    """Given up while it waits: never made, not counted as abandoned, and it leaves the queue at once."""
    pool = AcquirerPool(1)
    source, other = HangingSource(), HangingSource()
    first, second = pool.submit(source, None), pool.submit(other, None)
    wait_until(lambda: source.entered, "the first call begins")
    pool.abandon(second)
    assert pool.counts == (1, 0, 0, 0)
    source.release_event.set()
    assert first.result(60) == 0.0
    assert other.entered == 0
    pool.abandon(first)
    pool.abandon(second)
    assert pool.counts[2:] == (0, 0)


def test_a_call_that_its_owner_cancels_is_skipped() -> None:
    """A call is a future: one cancelled as such is passed over by the threads."""
    pool = AcquirerPool(1)
    source, other = HangingSource(), HangingSource()
    pool.submit(source, None)
    wait_until(lambda: source.entered, "the first call begins")
    assert pool.submit(other, None).cancel()
    last = pool.submit(len, "ab")
    source.release_event.set()
    assert last.result(60) == 2
    assert other.entered == 0


def test_abandoned_calls_are_replaced_counted_limited_and_forgotten() -> None:
    """Two of at most two abandoned: their places were taken, then new calls are refused, until one of them ends."""
    pool = AcquirerPool(1, max_abandoned=2)
    sources = [HangingSource(), HangingSource()]
    for number, source in enumerate(sources, start=1):
        call = pool.submit(source, None)
        wait_until(lambda source=source: source.entered, "a thread takes the place of the abandoned one")
        pool.abandon(call)
        pool.abandon(call)
        assert pool.counts[2:] == (number, number)
    with pytest.raises(PoolFull, match="2 abandoned calls still run, 2 are allowed"):
        pool.submit(len, "abc")
    sources[0].release_event.set()
    wait_until(lambda: pool.counts.abandoned == 1, "the call ends")
    assert pool.submit(len, "abc").result(60) == 3
    sources[1].release_event.set()
    wait_until(lambda: pool.counts.abandoned == 0, "the other call ends")
    assert pool.counts.abandoned_ever == 2
    assert pool.counts.threads <= 1


def test_an_abandoned_call_frees_its_place_for_what_waits() -> None:
    """A call waits behind a hanging one: abandoning that starts a thread for it."""
    pool = AcquirerPool(1)
    source = HangingSource()
    stuck, waiting = pool.submit(source, None), pool.submit(len, "abc")
    wait_until(lambda: source.entered, "the first call begins")
    assert pool.counts.waiting == 1
    pool.abandon(stuck)
    assert waiting.result(60) == 3
    source.release_event.set()


def test_not_one_may_be_abandoned() -> None:
    """`max_abandoned=0`: calls are taken, and refused as soon as an abandoned one runs."""
    pool = AcquirerPool(1, max_abandoned=0)
    source = HangingSource()
    call = pool.submit(source, None)
    wait_until(lambda: source.entered, "the call begins")
    pool.abandon(call)
    with pytest.raises(PoolFull):
        pool.submit(len, "")
    source.release_event.set()
    wait_until(lambda: pool.counts.abandoned == 0, "the call ends")
    assert pool.submit(len, "").result(60) == 0


def test_a_call_abandoned_as_it_ends_is_not_counted_for_ever() -> None:
    """Many calls abandoned at the very moment in which they end: the count comes back to zero."""
    pool = AcquirerPool(4, max_abandoned=1000)
    for _ in range(300):
        call = pool.submit(len, "")
        pool.abandon(call)
    wait_until(lambda: pool.counts.abandoned == 0, "all have ended")
    assert pool.submit(len, "ab").result(60) == 2


def test_an_end_between_two_looks_is_counted_once() -> None:
    """The call ends after `abandon` has looked and before it has noted: the thread notices when it asks under the lock."""
    pool = AcquirerPool(1)
    source = HangingSource()
    call = pool.submit(source, None)
    wait_until(lambda: source.entered, "the call begins")
    with pool._condition:
        source.release_event.set()
        wait_until(call.done, "the call ends")
        call.abandoned = True
        pool._abandoned += 1
    wait_until(lambda: pool.counts.abandoned == 0, "the thread takes it off")


def test_idle_threads_end_and_new_ones_come() -> None:
    """A thread that has had nothing to do for a while ends; the next call starts another."""
    pool = AcquirerPool(2)
    assert pool.submit(len, "a").result(60) == 1
    wait_until(lambda: pool.counts.threads == 0, "the idle thread ends")
    assert pool.submit(len, "ab").result(60) == 2


def test_an_idle_thread_keeps_no_item_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a call is forgotten its item goes, although the thread that served it still waits for the next."""
    monkeypatch.setattr(pool_module, "_IDLE_S", 0.5)

    class Item:
        """Something large."""

    pool, item = AcquirerPool(1), Item()
    gone = weakref.ref(item)
    assert pool.submit(id, item).result(60) == id(item)
    wait_until(lambda: pool._idle == 1, "the thread is idle")
    del item
    gc.collect()
    assert gone() is None


def test_a_system_without_threads_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread can be started: refused when there is none at all; otherwise the existing ones do the work."""
    pool, start = AcquirerPool(3), threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(PoolFull, match="can't start new thread"):
        pool.submit(len, "")
    assert pool.counts == (0, 0, 0, 0)
    monkeypatch.setattr(threading.Thread, "start", start)
    source, other = HangingSource(), HangingSource()
    stuck, busy = pool.submit(source, None), pool.submit(other, None)
    wait_until(lambda: source.entered and other.entered, "the calls begin")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    waiting = pool.submit(len, "abc")
    pool.abandon(stuck)
    other.release_event.set()
    assert (busy.result(60), waiting.result(60)) == (0.0, 3)
    source.release_event.set()


def test_abandoned_threads_are_not_waited_for_where_no_other_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every thread hangs in an abandoned call and the system gives no other: calls that wait, and new ones, are refused."""
    pool, source = AcquirerPool(1), HangingSource()
    stuck = pool.submit(source, None)
    wait_until(lambda: source.entered, "the call begins")

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    waiting = pool.submit(len, "abc")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        pool.abandon(stuck)
        with pytest.raises(PoolFull, match="can't start new thread"):
            waiting.result(60)
        with pytest.raises(PoolFull, match="can't start new thread"):
            pool.submit(len, "abc")
    assert waiting.was_refused
    assert pool.counts == (1, 0, 1, 1)
    assert pool.submit(len, "abc").result(60) == 3
    source.release_event.set()
    wait_until(lambda: not pool.counts.abandoned, "the call ends")


def test_a_nested_decision_that_gets_no_thread_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only thread decides inside itself and the system gives no other: its call is refused; it waited for itself for ever."""
    pool = AcquirerPool(4)
    inner = Cascade(make_bundle([["size"]]), RecordingAcquirers("size"), pool=pool, on_failure="reject")
    nested: list[Decision] = []

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def decide_inside(item: Any) -> float:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            nested.append(inner.decide(item, deadline_s=60))
        return 0.0

    assert pool.submit(decide_inside, {"size": 1.0}).result(90) == 0.0
    assert [(decision.reason, decision.errors[0].kind) for decision in nested] == [("acquisition_failed", "refused")]
    assert pool.submit(len, "abc").result(60) == 3


def test_a_pickled_pool_begins_anew() -> None:
    """Settings travel, threads do not."""
    pool = AcquirerPool(1, max_abandoned=0)
    source = HangingSource()
    call = pool.submit(source, None)
    wait_until(lambda: source.entered, "the call begins")
    pool.abandon(call)
    copy = pickle.loads(pickle.dumps(pool))
    assert copy.counts == (0, 0, 0, 0)
    assert copy.submit(len, "abc").result(60) == 3
    source.release_event.set()


def test_a_forked_child_has_a_pool_of_its_own() -> None:
    """Threads busy, calls abandoned and the lock held in the parent: the child's pool works, and knows nothing of them."""
    pool = AcquirerPool(1, max_abandoned=1)
    source = HangingSource()
    call = pool.submit(source, None)
    wait_until(lambda: source.entered, "the call begins")
    pool.abandon(call)
    with pool._condition:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = 0 if pool.counts == (0, 0, 0, 0) and pool.submit(len, "abc").result(60) == 3 else 2
            finally:
                os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pool.counts.abandoned == 1
    source.release_event.set()


def test_a_call_runs_its_function_once() -> None:
    """The record of a call: when it started, and what came of it."""
    call = PoolCall(len, "abc")
    assert call.started is None
    assert call.set_running_or_notify_cancel()
    call.run()
    assert call.started is not None
    assert call.result() == 3


REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="nobody's")


@pytest.mark.parametrize("way", ["timeout", "deadline", "pool", "many", "batch", "async", "async deadline"])
def test_context_variables_follow_into_the_threads(way: str) -> None:
    """Tracing and logging know whose call it is: a source in a thread sees the caller's context, whatever sent it there."""
    seen: list[tuple[str, bool]] = []
    here = threading.get_ident()

    def source(item: Any) -> Any:
        seen.append((REQUEST.get(), threading.get_ident() == here))
        REQUEST.set("changed in the thread")
        return [0.1] * len(item) if way == "batch" else 0.1

    acquirers = Acquirers()
    timeout_s = 600.0 if way in ("timeout", "batch", "async") else None
    (acquirers.batch if way == "batch" else acquirers.feature)("a", timeout_s=timeout_s)(source)
    pool = AcquirerPool(2) if way in ("pool", "many") else None
    cascade = Cascade(make_bundle([["a"]]), acquirers, pool=pool)
    deadline_s = 600.0 if way.endswith("deadline") else None
    for request in ("first", "second"):
        # A thread that served one caller is used again for the next: it must not keep what it saw.
        token = REQUEST.set(request)
        if way.startswith("async"):
            asyncio.run(cascade.decide_async(None, deadline_s=deadline_s))
        elif way in ("many", "batch"):
            cascade.decide_many([None, None])
        else:
            cascade.decide(None, deadline_s=deadline_s)
        assert REQUEST.get() == request
        REQUEST.reset(token)
    assert seen == [(request, False) for request in ("first", "second") for _ in range(2 if way == "many" else 1)]


# In a cascade


def barrier_sources(parties: int) -> Any:
    """Return a source that answers only when `parties` calls run at the same time."""
    barrier = threading.Barrier(parties)

    def source(item: Any) -> float:
        barrier.wait(60)
        return 0.1

    return source


@pytest.mark.parametrize("way", ["decide", "async"])
def test_the_users_pool_runs_the_acquirers_of_a_stage_side_by_side(way: str) -> None:
    """Three sources that wait for each other: answered, with a pool, in plain and in async code."""
    source = barrier_sources(3)
    acquirers = Acquirers()
    for name in "abc":
        acquirers.feature(name)(source)
    cascade = Cascade(make_bundle([["a", "b", "c"]], threshold=1.0), acquirers, pool=AcquirerPool(3))
    decision = cascade.decide(None) if way == "decide" else asyncio.run(cascade.decide_async(None))
    assert decision.trace[0].acquired == ("a", "b", "c")
    assert decision.errors == ()


def test_the_users_pool_runs_many_items_side_by_side() -> None:
    """Three items whose sources wait for each other: `decide_many` with a pool answers, in the order of the items."""
    source = barrier_sources(3)
    acquirers = Acquirers()
    acquirers.feature("a")(lambda item: (source(item), item)[1])
    cascade = Cascade(make_bundle([["a"]], threshold=1.0), acquirers, pool=AcquirerPool(3))
    plain = Cascade(cascade.bundle, RecordingAcquirers("a"))
    decisions = cascade.decide_many([0.1, 0.2, 0.3])
    assert [one.probabilities for one in decisions] == [plain.decide({"a": a}).probabilities for a in (0.1, 0.2, 0.3)]


def test_one_pool_may_serve_several_cascades() -> None:
    """Two cascades, one pool of one thread: both decide, and a limit of one is a limit of both."""
    pool = AcquirerPool(1)
    acquirers = RecordingAcquirers("a", "b")
    cascades = [Cascade(make_bundle([["a", "b"]], seed=seed), acquirers, pool=pool) for seed in (1, 2)]
    assert [cascade.decide({"a": 1.0, "b": 1.0}).trace[0].acquired for cascade in cascades] == [("a", "b")] * 2
    assert pool.counts.threads <= 1


def nested_cascades(pool: AcquirerPool, way: str, **options: Any) -> tuple[Cascade, list[str]]:
    """Return a cascade whose acquirer decides with another one that uses the same pool; and the names of the calls made."""
    called: list[str] = []

    def leaf(name: str) -> Any:
        return lambda item: (called.append(name), 0.1)[1]

    inner_acquirers = Acquirers()
    for name in "bc":
        inner_acquirers.feature(name, **options)(leaf(name))
    inner = Cascade(make_bundle([["b", "c"]], threshold=1.0), inner_acquirers, pool=pool)

    def outer(item: Any) -> float:
        called.append("a")
        if way == "async":
            return float(asyncio.run(inner.decide_async(item)).stages)
        if way == "many":
            return float(inner.decide_many([item, item])[0].stages)
        return float(inner.decide(item, deadline_s=600.0 if way == "deadline" else None).stages)

    acquirers = Acquirers()
    acquirers.feature("a", **options)(outer)
    return Cascade(make_bundle([["a"]], threshold=1.0), acquirers, pool=pool), called


@pytest.mark.parametrize("way", ["decide", "deadline", "many", "async"])
@pytest.mark.parametrize("timeout_s", [None, 600.0])
def test_a_call_may_decide_with_the_same_pool(way: str, timeout_s: float | None) -> None:
    """A pool of one thread, and a cascade inside an acquirer of another: the outer call releases its slot while it waits."""
    pool = AcquirerPool(1)
    cascade, called = nested_cascades(pool, way, timeout_s=timeout_s)
    decisions: list[Any] = []
    # In a thread of its own: without that, a hang would hang the tests.
    thread = threading.Thread(target=lambda: decisions.append(cascade.decide(1)), daemon=True)
    thread.start()
    thread.join(60)
    assert [decision.errors for decision in decisions] == [()]
    assert sorted(called) == ["a", "b", "b", "c", "c"] if way == "many" else sorted(called) == ["a", "b", "c"]
    wait_until(lambda: pool._blocked == 0, "no call is counted as waiting")


def test_many_nested_decisions_do_not_fill_the_machine_with_threads() -> None:
    """Forty outer calls in a pool of two: the inner calls go first, so that there are a few threads, not forty."""
    pool = AcquirerPool(2)
    cascade, called = nested_cascades(pool, "decide")
    most: list[int] = []
    watched = pool._run_thread

    def serve() -> None:
        most.append(pool.counts.threads)
        watched()

    pool._run_thread = serve  # type: ignore[method-assign]
    decisions: list[Any] = []
    thread = threading.Thread(target=lambda: decisions.extend(cascade.decide_many(range(40))), daemon=True)
    thread.start()
    thread.join(60)
    assert [decision.errors for decision in decisions] == [()] * 40
    assert len(called) == 120
    assert max(most) <= 8


def test_a_call_that_was_abandoned_while_it_waited_is_not_counted_twice() -> None:
    """Given up during its nested wait: counted as abandoned, then forgotten; the pool's limits stay what they were."""
    pool, source = AcquirerPool(1), HangingSource()

    def outer(item: Any) -> Any:
        with released_slot():
            return source(item)

    call = pool.submit(outer, None)
    wait_until(lambda: pool._blocked == 1, "it waits")
    pool.abandon(call)
    assert (pool._blocked, pool.counts.abandoned) == (0, 1)
    source.release_event.set()
    wait_until(lambda: pool.counts.abandoned == 0, "it ends")
    assert (pool._blocked, pool._active <= 1) == (0, True)


def test_a_place_is_freed_once_however_many_waits_there_are() -> None:
    """Several tasks of one call wait at the same time: one place is free, until the last of them has ended."""
    pool = AcquirerPool(1)
    seen: list[int] = []

    def outer(item: Any) -> None:
        with released_slot():
            with released_slot():
                seen.append(pool._blocked)
            seen.append(pool._blocked)
        seen.append(pool._blocked)

    pool.submit(outer, None).result(60)
    assert seen == [1, 1, 0]
    with released_slot():
        assert pool._blocked == 0


def test_a_thread_that_leaves_passes_its_call_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two idle threads one is too many once a call has its slot again: a new call is made by the other, at once."""
    monkeypatch.setattr(pool_module, "_IDLE_S", 60.0)
    pool = AcquirerPool(2)
    waited, goes_on = threading.Event(), threading.Event()

    def wait_and_go_on(_: object) -> None:
        with released_slot():
            assert waited.wait(60)
        assert goes_on.wait(60)

    outer = pool.submit(wait_and_go_on, None)
    both = threading.Barrier(2, timeout=60)
    for inner in [pool.submit(lambda _: both.wait(), None) for _ in range(2)]:
        inner.result(60)
    wait_until(lambda: pool._idle == 2, "both threads are idle")
    waited.set()
    wait_until(lambda: pool._active == 3, "the call has its slot again")
    assert pool.submit(len, "x").result(20) == 1
    goes_on.set()
    outer.result(60)
    pool.close()


def test_a_waiting_call_that_its_holder_has_cancelled_is_not_refused() -> None:
    """The others that wait are, and whoever abandons the call before them notices nothing."""
    pool = AcquirerPool(1, max_abandoned=1)
    source = HangingSource()
    first = pool.submit(source, "first")
    wait_until(lambda: first.started is not None, "the call runs")
    cancelled, other = pool.submit(len, "a"), pool.submit(len, "b")
    assert cancelled.cancel()
    pool.abandon(first)
    assert cancelled.cancelled()
    assert isinstance(other.exception(0), PoolFull)
    source.release_event.set()


def test_a_call_begun_inside_one_that_has_ended_waits_its_turn() -> None:
    """Work that outlives its call (a task, a thread with its context) is not inside it any more, and does not go first."""
    pool = AcquirerPool(1)
    contexts: list[contextvars.Context] = []
    pool.submit(lambda item: contexts.append(contextvars.copy_context()), None).result(60)
    late = contexts[0].run(pool.submit, len, "abc")
    assert not late.is_nested_in(pool)
    assert late.result(60) == 3

    def waits() -> int:
        with released_slot():
            return pool._blocked

    assert contexts[0].run(lambda: contexts[0].copy().run(waits)) == 0
    other = AcquirerPool(1)
    inside: list[tuple[bool, bool]] = []

    def outer(item: Any) -> None:
        call = other.submit(lambda item: inside.append((call.is_nested_in(pool), call.is_nested_in(other))), None)
        call.result(60)

    pool.submit(outer, None).result(60)
    assert inside == [(True, False)]


def test_a_place_that_no_thread_can_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system gives no thread while a call waits: what is in the queue is refused, since that call may wait for it."""
    pool = AcquirerPool(1)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    waiting: list[PoolCall] = []

    def outer(item: Any) -> None:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        waiting.append(pool.submit(len, "abc"))
        with released_slot():
            pass

    pool.submit(outer, None).result(60)
    assert waiting[0].was_refused


def test_a_cascade_for_another_bundle_shares_the_threads() -> None:
    """`with_bundle`: the same pool, so that abandoned calls still count, and the same options; other acquirers on request."""
    acquirers = RecordingAcquirers("a")
    decided: list[str] = []
    old = Cascade(
        make_bundle([["a"]], seed=1), acquirers, on_failure="reject", observers=[lambda one: decided.append(one.bundle)]
    )
    new = old.with_bundle(make_bundle([["a"]], seed=2))
    assert new._pool is old._pool
    assert new.decide({"a": None}).reason == "acquisition_failed"
    assert decided == [new.manifest.id]
    other = RecordingAcquirers("b")
    wider = old.with_bundle(make_bundle([["b"]]), other)
    assert wider.decide({"b": 0.1}).trace[0].acquired == ("b",)
    assert old.decide({"a": 0.1}).bundle == old.manifest.id
    with pytest.raises(TypeError, match=r"expected a Bundle, got str; Cascade.load\(path\) reads one from a folder"):
        old.with_bundle("path")  # type: ignore[arg-type]


def test_an_event_loop_waits_for_a_call_as_a_whole_and_no_longer_than_it_says() -> None:
    """What it gives and raises comes back; one that hangs is abandoned, and the next one has a thread again."""
    pool, hanging = AcquirerPool(1, max_abandoned=1), HangingSource()

    async def run() -> None:
        assert await pool.call_async(len, "abc", timeout_s=60) == 3
        with pytest.raises(TypeError):
            await pool.call_async(len, 3, timeout_s=60)
        with pytest.raises(TimeoutError, match=r"the call has not ended within 0.05 s"):
            await pool.call_async(hanging, None, timeout_s=0.05)
        assert pool.counts.abandoned == 1
        with pytest.raises(PoolFull):
            await pool.call_async(len, "abc", timeout_s=60)

    asyncio.run(run())
    hanging.release_event.set()
    wait_until(lambda: pool.counts.abandoned == 0, "the abandoned call ends")
    # The loop that waited is closed by now, and the call that ended late has notified nobody.
    assert asyncio.run(pool.call_async(len, "abc", timeout_s=60)) == 3


def test_a_caller_that_is_cancelled_abandons_its_call() -> None:
    """A client that hangs up: the call is not waited for, and not made if it has not started."""
    pool, hanging = AcquirerPool(1), HangingSource()

    async def run() -> None:
        first = asyncio.ensure_future(pool.call_async(hanging, None, timeout_s=60))
        second = asyncio.ensure_future(pool.call_async(hanging, None, timeout_s=60))
        await asyncio.to_thread(wait_until, lambda: pool.counts.waiting == hanging.entered == 1, "one runs, one waits")
        for task in (second, first):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert (pool.counts.waiting, pool.counts.abandoned) == (0, 1)

    asyncio.run(run())
    hanging.release_event.set()
    wait_until(lambda: pool.counts.abandoned == 0, "the abandoned call ends")
    assert hanging.entered == 1


@pytest.fixture
def single(monkeypatch: pytest.MonkeyPatch) -> Iterator[AcquirerPool]:
    """Yield a pool of one thread whose idle threads stay, as in a service; afterwards no slot may be missing."""
    monkeypatch.setattr(pool_module, "_IDLE_S", 60.0)
    pool = AcquirerPool(1, max_abandoned=2)
    yield pool
    wait_until(lambda: pool.counts.threads <= 1 and pool._blocked == pool.counts.abandoned == 0, "all is as it was")
    pool.close()


class Overlap:
    """A call that notes how many of it run at the same time."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def __call__(self, seconds: float) -> None:
        """Take some time."""
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(seconds)
        with self._lock:
            self.now -= 1


async def hold_up(pool: AcquirerPool, hanging: HangingSource, hold_s: float = 0.02) -> asyncio.Future[Any]:
    """Begin a call that hangs."""
    before = hanging.entered
    long = asyncio.ensure_future(pool.call_async(hanging, None, timeout_s=60, hold_s=hold_s))
    await asyncio.to_thread(wait_until, lambda: hanging.entered == before + 1, "it runs")
    return long


def test_a_call_that_takes_long_lets_the_next_one_begin(single: AcquirerPool) -> None:
    """It goes on without its slot and gives its answer, meanwhile others run; after it, they run one at a time as before."""
    hanging, overlap = HangingSource(7.0), Overlap()

    async def run() -> None:
        long = await hold_up(single, hanging)
        assert [await single.call_async(len, "abc", timeout_s=60) for _ in range(3)] == [3, 3, 3]
        assert not long.done()
        hanging.release_event.set()
        # The loop learns of the end only after the thread has become idle, or ended.
        wait_until(lambda: hanging.ended == 1, "it ends")
        time.sleep(0.05)  # noqa: ASYNC251 - it is to be busy
        assert await long == 7.0
        assert await single.call_async(len, "abc", timeout_s=5) == 3
        await asyncio.gather(*(single.call_async(overlap, 0.002, timeout_s=60) for _ in range(10)))

    asyncio.run(run())
    assert overlap.most == 1
    assert single.counts.abandoned_ever == 0


def test_a_long_call_is_waited_for_where_no_thread_can_be_started(single: AcquirerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system gives no thread for the calls that wait: they begin when the long one ends, or as soon as there is a thread."""
    hanging, start = HangingSource(7.0), threading.Thread.start
    refused: list[str] = []

    def refuse(thread: threading.Thread) -> None:
        if thread.name != "emsco-acquirer":
            start(thread)
            return
        refused.append(thread.name)
        raise RuntimeError("can't start new thread")

    async def run() -> None:
        for begins_by in ("end", "thread"):
            seen = len(refused)
            long = await hold_up(single, hanging, hold_s=0.2)
            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", refuse)
                waiting = [asyncio.ensure_future(single.call_async(len, "abc", timeout_s=60)) for _ in range(3)]
                await asyncio.to_thread(wait_until, lambda seen=seen: len(refused) > seen, "no thread is started")
                if begins_by == "end":
                    hanging.release_event.set()
                    assert await asyncio.gather(*waiting) == [3, 3, 3]
            assert await asyncio.gather(*waiting) == [3, 3, 3]
            hanging.release_event.set()
            assert await long == 7.0
            hanging.release_event.clear()

    asyncio.run(run())
    assert single.counts.abandoned_ever == single._blocked == 0


def test_a_long_call_that_waits_for_another_has_no_slot_to_let_go() -> None:
    """Its slot is free already, and still counted once: when it goes on, and when it has ended, calls run one at a time."""
    pool, hanging, overlap = AcquirerPool(1), HangingSource(7.0), Overlap()

    def wait_inside(item: Any) -> float:
        with released_slot():
            return hanging(item)

    async def run() -> None:
        long = asyncio.ensure_future(pool.call_async(wait_inside, None, timeout_s=60, hold_s=0.01))
        await asyncio.to_thread(wait_until, lambda: hanging.entered == 1, "it waits")
        await asyncio.sleep(0.1)
        assert pool._blocked == 1
        hanging.release_event.set()
        assert await long == 7.0
        await asyncio.gather(*(pool.call_async(overlap, 0.002, timeout_s=60) for _ in range(10)))

    asyncio.run(run())
    assert (overlap.most, pool._blocked) == (1, 0)


def test_short_calls_keep_their_slot_and_waiting_ones_have_none(single: AcquirerPool) -> None:
    """Ten calls take turns, though most of them wait for longer than they would be let run."""
    overlap = Overlap()

    async def run() -> None:
        await asyncio.gather(*(single.call_async(overlap, 0.02, timeout_s=60, hold_s=0.1) for _ in range(10)))

    asyncio.run(run())
    assert overlap.most == 1


def test_long_calls_that_end_while_the_loop_is_busy_make_room_for_one(single: AcquirerPool) -> None:
    """Whoever let them go learns of it later; their threads do not take further calls meanwhile."""
    hanging, overlap = HangingSource(7.0), Overlap()

    async def run() -> None:
        long = [await hold_up(single, hanging) for _ in range(2)]
        await asyncio.to_thread(wait_until, lambda: single._blocked == 2, "both are without a slot")
        short = [single.submit(overlap, 0.005) for _ in range(8)]
        hanging.release_event.set()
        wait_until(lambda: all(call.done() for call in short), "all are done, and the loop has seen nothing yet")
        assert await asyncio.gather(*long) == [7.0] * 2

    asyncio.run(run())
    assert overlap.most == 1


def test_no_more_calls_than_may_be_abandoned_run_without_a_slot(single: AcquirerPool) -> None:
    """Of four that hang, two are let go and one holds the only slot; the fourth waits, and begins when one has ended."""
    hanging = HangingSource(7.0)

    async def run() -> None:
        calls = [asyncio.ensure_future(single.call_async(hanging, None, timeout_s=60, hold_s=0.01)) for _ in range(4)]
        await asyncio.to_thread(wait_until, lambda: hanging.entered == 3, "three run")
        await asyncio.sleep(0.1)
        assert (hanging.entered, single.counts.waiting) == (3, 1)
        hanging.release_event.set()
        assert await asyncio.gather(*calls) == [7.0] * 4

    asyncio.run(run())


def test_a_long_call_that_is_too_late_is_abandoned_all_the_same(single: AcquirerPool) -> None:
    """Its slot was free before; when it has ended, the pool is as it was."""
    hanging = HangingSource()

    async def run() -> None:
        with pytest.raises(TimeoutError):
            await single.call_async(hanging, None, timeout_s=0.1, hold_s=0.01)
        assert (single.counts.abandoned, single._blocked) == (1, 0)
        assert await single.call_async(len, "abc", timeout_s=60, hold_s=0.01) == 3

    asyncio.run(run())
    hanging.release_event.set()


@pytest.mark.parametrize("hold_s", [0, -1.0, float("nan"), "1"])
def test_the_time_of_a_slot_is_above_0(hold_s: Any) -> None:
    """The loop would wait without a pause otherwise."""
    with pytest.raises(InputError, match="hold_s: expected a number of seconds above 0"):
        asyncio.run(AcquirerPool(1).call_async(len, "abc", timeout_s=60, hold_s=hold_s))


@pytest.mark.parametrize("timeout_s", [None, "1", True, float("nan")])
def test_the_time_of_a_call_is_a_number(timeout_s: Any) -> None:
    """Another value is refused before the call is submitted: nobody would wait for it, yet it would be made."""
    pool, called = AcquirerPool(1), []
    with pytest.raises(InputError, match="timeout_s: expected a number of seconds"):
        asyncio.run(pool.call_async(called.append, None, timeout_s=timeout_s))
    assert pool.counts == (0, 0, 0, 0)
    assert called == []
