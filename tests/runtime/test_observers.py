"""Observers: notified of everything, and never able to break anything."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import threading
import time
from typing import Any

import pytest

from emsco_runtime import Acquirers, AcquisitionError, BindError, Cascade, Decision, Manifest
from emsco_runtime.observing.observers import AcquirerCall, Observers
from emsco_runtime.testing import RecordingAcquirers, make_bundle, sample_bundle

SPAM = {"size": 2.0, "links": 1.0, "reputation": 0.5}
UNCLEAR = {"size": 0.0, "links": 0.0, "reputation": 0.0}
BUNDLE = sample_bundle()


class RecordingObserver:
    """An observer with every method, which keeps what it receives; at the top level, so that it can be pickled."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.calls: list[AcquirerCall] = []
        self.bound: list[Manifest] = []
        self.errors: list[tuple[AcquisitionError, str]] = []
        self.failures: list[Exception] = []

    def __call__(self, decision: Decision) -> None:
        """Keep a decision."""
        self.decisions.append(decision)

    def on_call(self, call: AcquirerCall) -> None:
        """Keep a call."""
        self.calls.append(call)

    def on_bind(self, manifest: Manifest) -> None:
        """Keep a manifest."""
        self.bound.append(manifest)

    def on_error(self, error: AcquisitionError, bundle: str) -> None:
        """Keep an error."""
        self.errors.append((error, bundle))

    def on_observer_failure(self, error: Exception) -> None:
        """Keep a failure of an observer."""
        self.failures.append(error)

    @property
    def received(self) -> list[tuple[tuple[str, ...], str, int]]:
        """Return features, outcome and number of items of each call."""
        return [(call.features, call.outcome, call.items) for call in self.calls]


class Broken(RecordingObserver):
    """An observer that raises in every method."""

    def __call__(self, decision: Decision) -> None:
        """Raise."""
        raise RuntimeError("on a decision")

    def on_call(self, call: AcquirerCall) -> None:
        """Raise."""
        raise RuntimeError("on a call")

    def on_bind(self, manifest: Manifest) -> None:
        """Raise."""
        raise RuntimeError("on a bundle")

    def on_error(self, error: AcquisitionError, bundle: str) -> None:
        """Raise."""
        raise RuntimeError("on an error")

    def on_observer_failure(self, error: Exception) -> None:
        """Raise."""
        raise RuntimeError("on a failure")


def by_key(*names: str, **options: Any) -> Acquirers:
    """Return plain acquirers that read the item."""
    acquirers = Acquirers()
    for name in names:
        acquirers.feature(name, **options)(lambda item, name=name: item[name])
    return acquirers


def same(one: Decision, other: Decision) -> bool:
    """Return whether two decisions differ in nothing but the time."""
    return one._replace(elapsed_s=0.0) == other._replace(elapsed_s=0.0)


def test_each_finished_decision_is_reported() -> None:
    """`decide`, `decide_many` and `decide_async` hand the very object that they return to each observer, in order."""
    watcher, order = RecordingObserver(), []
    cascade = Cascade(BUNDLE, observers=[watcher, lambda decision: order.append(len(watcher.decisions))])
    made = [cascade.decide(SPAM), *cascade.decide_many([SPAM, UNCLEAR]), asyncio.run(cascade.decide_async(UNCLEAR))]
    assert all(received is expected for received, expected in zip(watcher.decisions, made, strict=True))
    assert order == [1, 2, 3, 4]


@pytest.mark.parametrize("ended_by", [OSError("down"), KeyboardInterrupt()], ids=repr)
def test_decisions_made_before_another_item_raised_are_reported(ended_by: BaseException) -> None:
    """Of five items two leave at stage 1 and one at stage 2; then one raises: observers get the three, then the error."""
    watcher = RecordingObserver()
    recorded: list[Decision] = []
    order: list[str] = []

    def listen(received: Any) -> None:
        recorded.append(received.decision)

    class Ordered(RecordingObserver):
        """Records the order of the notifications."""

        def __call__(self, decision: Decision) -> None:
            """Note it."""
            order.append("decision")

        def on_error(self, error: AcquisitionError, bundle: str) -> None:
            """Note it."""
            order.append("error")

    acquirers = by_key("size", "links")

    @acquirers.feature("reputation")
    def reputation(item: Any) -> float:
        if item is items[4]:
            raise ended_by
        return float(item["reputation"])

    cascade = Cascade(BUNDLE, acquirers, observers=[watcher, Ordered()], listener=listen)
    items = [UNCLEAR, SPAM, {**UNCLEAR, "links": 9.0}, SPAM, {**UNCLEAR}]
    alone = [Cascade(BUNDLE).decide(items[index]) for index in (1, 2, 3)]
    with pytest.raises(AcquisitionError if isinstance(ended_by, OSError) else KeyboardInterrupt) as caught:
        cascade.decide_many(items)
    assert all(same(received, expected) for received, expected in zip(watcher.decisions, alone, strict=True))
    assert recorded == watcher.decisions
    errors = [(caught.value, cascade.manifest.id)] if isinstance(ended_by, OSError) else []
    assert watcher.errors == errors
    assert order == ["decision"] * 3 + ["error"] * len(errors)


def test_tables_notify_no_observer() -> None:
    """Rows of a table are not traffic: `decide_columns` notifies of no decision, call or error, nor of rows decided alone."""
    watcher = RecordingObserver()
    cascade = Cascade(BUNDLE, by_key("size", "links", "reputation"), observers=[watcher], on_failure="reject")
    table = {"size": [2.0, 0.0, None], "links": [1.0, 0.0, 0.0], "reputation": [0.5, 0.0, 0.0]}
    assert cascade.decide_columns(table).reason.tolist() == ["confident", "inconclusive", "acquisition_failed"]
    strict = Cascade(BUNDLE, by_key("size", "links", "reputation"), observers=[watcher])
    with pytest.raises(AcquisitionError):
        strict.decide_columns(table)
    assert (watcher.decisions, watcher.calls, watcher.errors) == ([], [], [])


def test_a_bundle_is_reported_once_it_is_bound() -> None:
    """`on_bind` gets the manifest before the first decision, and not at all if binding fails."""
    watcher = RecordingObserver()
    with pytest.raises(BindError):
        Cascade(BUNDLE, Acquirers(), observers=[watcher])
    assert watcher.bound == []
    cascade = Cascade(BUNDLE, observers=[watcher])
    assert watcher.bound == [cascade.manifest]


def test_what_raises_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """An observer that raises in every method changes no decision; failures are counted, and others are still notified."""
    watcher = RecordingObserver()
    acquirers = by_key("size", "links", "reputation")
    subject = Cascade(BUNDLE, acquirers, observers=[Broken(), watcher])
    assert same(subject.decide(UNCLEAR), Cascade(BUNDLE, acquirers).decide(UNCLEAR))
    with pytest.raises(AcquisitionError):
        subject.decide({"size": "large"})
    # A bundle, three calls, a decision, one more call, an error; and each of these failures was more than the observer can bear.
    assert subject.observer_failures == 14
    assert len(watcher.failures) == 7
    assert (len(watcher.decisions), len(watcher.calls), len(watcher.errors)) == (1, 4, 1)
    # Each kind of failure is logged once, not each failure.
    assert len(caplog.records) == 4


def test_a_failure_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Of one observer, one failure a minute is logged, with its traceback and the count so far; another has its own minute."""

    def first(decision: Decision) -> None:
        raise ValueError("first")

    def second(decision: Decision) -> None:
        raise ValueError("second")

    decision = Cascade(BUNDLE).decide(SPAM)
    times = [0.0, 59.9, 60.0, 60.1, 119.9]
    observers = Observers([first], clock=iter(times).__next__)
    for _ in times:
        observers.notify(decision)
    assert observers.failures == 5
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert "first raised (1 failures" in caplog.text
    assert "first raised (3 failures" in caplog.text
    assert "ValueError: first" in caplog.text
    caplog.clear()
    both = Observers([first, second], clock=lambda: 0.0)
    both.notify(decision)
    both.notify(decision)
    assert [record.getMessage().split(" raised")[0].rsplit(".", 1)[1] for record in caplog.records] == ["first", "second"]


def test_an_observer_that_cannot_be_printed(caplog: pytest.LogCaptureFixture) -> None:
    """The log names the class of an observer, since its own `repr` may raise."""

    class Unprintable:
        def __call__(self, decision: Decision) -> None:
            raise ValueError("no")

        def __repr__(self) -> str:
            raise RuntimeError("nor this")

    Cascade(BUNDLE, observers=[Unprintable()]).decide(SPAM)
    assert "Unprintable raised" in caplog.text


def test_what_ends_the_process_passes() -> None:
    """An observer may raise something other than an `Exception`: a request to stop is not swallowed."""

    def stop(decision: Decision) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Cascade(BUNDLE, observers=[stop]).decide(SPAM)


def test_what_cannot_be_called_is_refused() -> None:
    """Something that is not an observer raises when the cascade is created."""
    with pytest.raises(BindError, match="observers: 3 cannot be called"):
        Cascade(BUNDLE, observers=[3])  # type: ignore[list-item]
    with pytest.raises(BindError, match=r"observers: expected a list of observers, got <built-in function print>\. Put one"):
        Cascade(BUNDLE, observers=print)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("on_decison", None),
        ("on_decision", None),
        ("on_eror", "on_error"),
        ("on_calls", "on_call"),
        ("on_binding", "on_bind"),
        ("onError", "on_error"),
        ("on_reload_failures", "on_reload_failure"),
    ],
)
def test_a_misspelt_hook_is_refused(name: str, meant: str | None) -> None:
    """A method that only looks like a hook would never be called: the error names it, and the existing hooks."""
    kind = type("Mine", (RecordingObserver,), {name: lambda self, *received: None})
    with pytest.raises(BindError) as caught:
        Cascade(BUNDLE, observers=[kind()])
    said = str(caught.value)
    assert said.startswith(f"observers: Mine.{name} would never be called")
    assert (f"did you mean {meant!r}?" in said) is (meant is not None)
    assert "Hooks are on_bind, on_call, on_error, on_observer_failure, on_reload, on_reload_failure, on_start" in said
    assert "__call__ for decisions" in said


def test_only_methods_count_as_hooks() -> None:
    """Properties are not run; attributes and names with an underscore are ignored; a class method counts."""

    class Mine(RecordingObserver):
        on_time = True
        on_demand = None

        @property
        def on_fire(self) -> object:
            """Raise, if it is run."""
            raise RuntimeError("do not look")

        def _on_decision(self) -> None: ...

    assert Cascade(BUNDLE, observers=[Mine()]).observer_failures == 0

    class Other(Mine):
        @classmethod
        def on_decision(cls, decision: Decision) -> None: ...

    with pytest.raises(BindError, match=r"Other\.on_decision would never be called"):
        Cascade(BUNDLE, observers=[Other()])


def test_an_observer_without_a_call_says_what_to_write() -> None:
    """The commonest mistake: a class with a method for decisions that cannot itself be called, and may not even be printed."""

    class Mine:
        def on_decision(self, decision: Decision) -> None: ...

        def __repr__(self) -> str:
            raise RuntimeError("not printable")

    with pytest.raises(BindError) as caught:
        Cascade(BUNDLE, observers=[Mine()])  # type: ignore[list-item]
    hook, call = caught.value.faults
    assert "Mine.on_decision would never be called" in hook
    assert "and __call__ for decisions" in hook
    assert call == "observers: a value that cannot be printed cannot be called"


class StartObserver:
    """An observer that keeps what starts and ends."""

    def __init__(self, received: list[Any], name: str = "") -> None:
        self._received, self._name = received, name

    def __call__(self, decision: Decision) -> None:
        """Keep the label."""
        self._received.append(f"{self._name}decided {decision.label}")

    def on_start(self, bundle: str, items: int) -> Any:
        """Keep the number of items, and how it ends."""
        assert bundle == BUNDLE.manifest.id
        self._received.append(f"{self._name}start {items}")
        return lambda error: self._received.append(f"{self._name}end {type(error).__name__}")


def test_starts_and_ends_are_reported() -> None:
    """`on_start` comes before anything is acquired; what it returns is called last, the last observer's first."""
    received: list[Any] = []
    acquirers = by_key("links", "reputation")
    acquirers.feature("size")(lambda item: received.append("acquired") or item["size"])
    cascade = Cascade(BUNDLE, acquirers, observers=[StartObserver(received, "1 "), StartObserver(received, "2 ")])
    whole = ["1 start 1", "2 start 1", "acquired", "1 decided spam", "2 decided spam", "2 end NoneType", "1 end NoneType"]
    cascade.decide(SPAM)
    assert received == whole
    received.clear()
    asyncio.run(cascade.decide_async(SPAM))
    assert received == whole
    received.clear()
    asyncio.run(cascade.decide_many_async([SPAM]))
    assert received == whole
    received.clear()
    cascade.decide_many([SPAM, SPAM])
    assert received[:2] == ["1 start 2", "2 start 2"]
    assert received[-2:] == ["2 end NoneType", "1 end NoneType"]
    received.clear()
    with pytest.raises(AcquisitionError):
        cascade.decide({"size": None})
    assert received[-2:] == ["2 end AcquisitionError", "1 end AcquisitionError"]


def test_a_start_that_raises_breaks_nothing() -> None:
    """What `on_start` raises, or what it returns raises, is counted; it may return nothing."""
    received: list[Any] = []

    class Bad(StartObserver):
        def on_start(self, bundle: str, items: int) -> Any:
            raise ValueError("no")

    class Worse(StartObserver):
        def on_start(self, bundle: str, items: int) -> Any:
            return lambda error: 1 / 0

    class Quiet(StartObserver):
        def on_start(self, bundle: str, items: int) -> Any:
            return None

    cascade = Cascade(BUNDLE, observers=[Bad(received), Worse(received), Quiet(received), StartObserver(received)])
    assert cascade.decide(SPAM).label == "spam"
    assert cascade.observer_failures == 2
    assert received == ["start 1", *["decided spam"] * 4, "end NoneType"]


def test_without_on_call_nothing_is_wrapped() -> None:
    """The plan holds the user's own functions, unless an observer asks for calls."""
    acquirers = by_key("size", "links", "reputation")
    own = [entry.function for entry in acquirers.entries]
    plain = Cascade(BUNDLE, acquirers, observers=[bool])
    assert [call.function for call in plain._runner.plan.calls.values()] == own
    watched = Cascade(BUNDLE, acquirers, observers=[RecordingObserver()])
    assert all(call.function not in own for call in watched._runner.plan.calls.values())


def test_on_call_may_be_none() -> None:
    """An attribute that is not callable counts as absent: an option can turn a method off."""
    watcher = RecordingObserver()
    watcher.on_call = None  # type: ignore[assignment, method-assign]
    Cascade(BUNDLE, by_key("size", "links", "reputation"), observers=[watcher]).decide(SPAM)
    assert watcher.calls == []
    assert len(watcher.decisions) == 1


def test_items_that_are_mappings_have_no_calls() -> None:
    """Without acquirers there are no calls, and no notifications."""
    watcher = RecordingObserver()
    Cascade(BUNDLE, observers=[watcher]).decide(SPAM)
    assert watcher.calls == []


def test_calls_of_plain_acquirers() -> None:
    """Each call is reported as it ends, with its features, its time and the bundle; nothing else is reported."""
    watcher = RecordingObserver()
    cascade = Cascade(BUNDLE, RecordingAcquirers("size", ("links", "reputation")), observers=[watcher])
    cascade.decide(SPAM)
    assert watcher.received == [(("size",), "ok", 1)]
    cascade.decide(UNCLEAR)
    assert watcher.received[1:] == [(("size",), "ok", 1), (("links", "reputation"), "ok", 1)]
    assert all(call.elapsed_s >= 0 and call.bundle == cascade.manifest.id for call in watcher.calls)


def test_the_time_is_that_of_the_function() -> None:
    """A call takes as long as its function says that it took, or a little longer, and not longer than the decision."""
    watcher, took = RecordingObserver(), []
    acquirers = by_key("links", "reputation")

    @acquirers.feature("size")
    def size(item: Any) -> float:
        started = time.perf_counter()
        time.sleep(0.01)
        took.append(time.perf_counter() - started)
        return float(item["size"])

    decision = Cascade(BUNDLE, acquirers, observers=[watcher]).decide(SPAM)
    assert took[0] <= watcher.calls[0].elapsed_s <= decision.elapsed_s


@pytest.mark.parametrize("policy", ["reject", "default", "raise"])
def test_calls_that_raise(policy: Any) -> None:
    """A function that raises is reported as "exception", whatever the policy."""
    watcher = RecordingObserver()
    cascade = Cascade(BUNDLE, RecordingAcquirers("size", "links", "reputation", on_failure=policy), observers=[watcher])
    item = {"size": OSError("down"), "links": 0.0, "reputation": 0.0}
    if policy == "raise":
        with pytest.raises(AcquisitionError) as caught:
            cascade.decide(item)
        assert watcher.errors == [(caught.value, cascade.manifest.id)]
        assert isinstance(caught.value.__cause__, OSError)
        assert watcher.decisions == []
    else:
        assert cascade.decide(item).errors[0].kind == "exception"
        assert watcher.errors == []
    assert watcher.received[0] == (("size",), "exception", 1)


def test_calls_of_batch_acquirers() -> None:
    """A batch is one call with all of its items; alone, an item is a batch of one; a batch of another length is a failure."""
    watcher = RecordingObserver()
    acquirers = RecordingAcquirers("links", "reputation", batch=["size"])
    cascade = Cascade(BUNDLE, acquirers, observers=[watcher])
    cascade.decide_many([SPAM, SPAM, SPAM])
    cascade.decide(SPAM)
    assert watcher.received == [(("size",), "ok", 3), (("size",), "ok", 1)]
    with pytest.raises(AcquisitionError) as caught:
        cascade.decide_many([SPAM, {"size": OSError("down")}])
    assert watcher.received[2:] == [(("size",), "exception", 2)]
    assert watcher.errors == [(caught.value, cascade.manifest.id)]
    assert caught.value.index == 0
    short = Acquirers()
    short.batch("size", on_failure="reject")(lambda items: [])
    for name in ("links", "reputation"):
        short.feature(name)(len)
    Cascade(BUNDLE, short, observers=[watcher]).decide(SPAM)
    assert watcher.received[3:] == [(("size",), "missing_key", 1)]


def test_calls_of_async_acquirers() -> None:
    """Async functions are timed until their end; they may return, raise, or be cancelled by a timeout."""
    watcher, took = RecordingObserver(), []
    acquirers = Acquirers()

    @acquirers.feature("size")
    async def size(item: Any) -> float:
        started = time.perf_counter()
        await asyncio.sleep(0.01)
        took.append(time.perf_counter() - started)
        return 0.0

    @acquirers.feature("links", on_failure="default")
    async def links(item: Any) -> float:
        raise OSError("down")

    @acquirers.feature("reputation", on_failure="reject", timeout_s=0.01)
    async def reputation(item: Any) -> float:
        await asyncio.Event().wait()
        return 0.0

    cascade = Cascade(BUNDLE, acquirers, observers=[watcher])
    decision = asyncio.run(cascade.decide_async({}))
    assert [failure.kind for failure in decision.errors] == ["exception", "timeout"]
    assert watcher.received == [(("size",), "ok", 1), (("links",), "exception", 1), (("reputation",), "cancelled", 1)]
    assert watcher.calls[0].elapsed_s >= took[0]
    with pytest.raises(BindError, match="async"):
        cascade.decide({})


def test_an_async_error_is_reported() -> None:
    """`decide_async` and `decide_many_async` notify of an item that raises, once."""
    watcher = RecordingObserver()
    cascade = Cascade(BUNDLE, by_key("size", "links", "reputation"), observers=[watcher])
    with pytest.raises(AcquisitionError):
        asyncio.run(cascade.decide_async({}))
    with pytest.raises(AcquisitionError):
        asyncio.run(cascade.decide_many_async([{}]))
    assert [(error.feature, bundle) for error, bundle in watcher.errors] == [("size", cascade.manifest.id)] * 2


def test_an_abandoned_call_is_reported_when_it_ends() -> None:
    """A plain function that exceeds its timeout is reported with its real time, after the decision."""
    watcher, took, go, ended = RecordingObserver(), [], threading.Event(), threading.Event()

    class Late(RecordingObserver):
        def on_call(self, call: AcquirerCall) -> None:
            watcher.on_call(call)
            ended.set()

    acquirers = by_key("links", "reputation")

    @acquirers.feature("size", timeout_s=0.01, on_failure="reject")
    def size(item: Any) -> float:
        started = time.perf_counter()
        go.wait(30)
        took.append(time.perf_counter() - started)
        return 0.0

    decision = Cascade(BUNDLE, acquirers, observers=[Late()]).decide(SPAM)
    assert [failure.kind for failure in decision.errors] == ["timeout"]
    assert watcher.calls == []
    go.set()
    assert ended.wait(30)
    assert watcher.received == [(("size",), "ok", 1)]
    assert watcher.calls[0].elapsed_s >= took[0]


def test_faults_of_acquirers_are_found_behind_the_wrapper() -> None:
    """Every check of binding sees the user's own function, timed or not."""
    acquirers = by_key("links", "reputation")
    acquirers.feature("size")(lambda: 0.0)
    with pytest.raises(BindError, match="it must take one argument"):
        Cascade(BUNDLE, acquirers, observers=[RecordingObserver()])


def test_timing_changes_no_decision() -> None:
    """Mixed acquirers over several stages decide the same with and without an observer of calls, known values included."""
    names = [f"f{index}" for index in range(6)]
    bundle = make_bundle([names[:2], names[2:4], names[4:]], threshold=0.95, seed=1)
    acquirers = RecordingAcquirers(names[0], (names[1], names[4]), (names[2], names[3]), batch=[names[5]])
    plain, watched = Cascade(bundle, acquirers), Cascade(bundle, acquirers, observers=[RecordingObserver()])
    for size in (0.0, 0.3, 3.0):
        item = {name: size * (index - 2) for index, name in enumerate(names)}
        for known in ({}, {names[1]: 0.5}, {names[2]: 0.1, names[5]: 0.2}):
            assert same(plain.decide(item, known=known), watched.decide(item, known=known))


def read_size(item: Any) -> float:
    """Return a feature; at the top level, so that it can be pickled."""
    return float(item["size"])


def test_a_pickled_cascade_notifies_its_own_copy() -> None:
    """Observers go with a cascade to another process: bound again there, timed again there."""
    acquirers = Acquirers()
    for name in ("size", "links", "reputation"):
        acquirers.feature(name)(read_size)
    copy = pickle.loads(pickle.dumps(Cascade(BUNDLE, acquirers, observers=[RecordingObserver()])))
    copy.decide(SPAM)
    (watcher,) = copy._state.options.observers
    assert (len(watcher.decisions), len(watcher.calls), len(watcher.bound)) == (1, 1, 2)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_is_not_held_by_a_lock() -> None:
    """A failure can be noted in a child that was forked while another thread noted one."""
    observers = Observers([Broken()])
    with observers._lock:
        child = os.fork()
        if child == 0:  # pragma: no cover - the child leaves without telling coverage
            signal.alarm(60)
            observers.notify(Cascade(BUNDLE).decide(SPAM))
            os._exit(0 if observers.failures == 2 else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
