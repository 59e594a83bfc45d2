"""Shadows: a second bundle decides on what was acquired anyway, and never touches the answer."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from emsco_runtime import Acquirers, AcquisitionError, BindError, Bundle, Cascade, InputError, write_bundle
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.observing.recording import RecordedItem
from emsco_runtime.serving import shadow as shadow_module
from emsco_runtime.serving.reloading import ReloadingCascade
from emsco_runtime.serving.shadow import Shadow, ShadowSummary
from emsco_runtime.sources import pool as pool_module
from emsco_runtime.sources.breaker import CircuitBreaker
from emsco_runtime.sources.cache import AcquirerCache
from emsco_runtime.sources.pool import PoolFull
from emsco_runtime.testing import RecordingAcquirers, make_bundle, sample_bundle
from tests.runtime.strategies import bundles, items
from tests.runtime.test_breaker import decide
from tests.runtime.waiting import HangingSource, our_threads, wait_until

WAYS = ["decide", "many", "async", "many_async"]
CLEAR = {"size": 3.0, "links": 0.0, "reputation": 0.0}
UNCLEAR = {"size": 0.0, "links": 0.1, "reputation": 0.1}
# Long enough to begin what is to hang, on a busy machine too.
WITHIN = 0.5


@pytest.fixture(autouse=True)
def _no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let idle threads end at once, and see that all have ended after each test."""
    monkeypatch.setattr(pool_module, "_IDLE_S", 0.05)
    before = set(our_threads())
    yield
    wait_until(lambda: set(our_threads()) <= before, "threads end")


def on_size(sign: float = 1.0, threshold: float = 0.9) -> Bundle:
    """Return a bundle that decides on `size` alone; with the sign turned, for the other label."""
    return make_bundle([["size"]], costs={"size": 4.0}, weights=[[[-2.0 * sign], [2.0 * sign]]], threshold=threshold)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("background", [True, False])
def test_agreement_and_the_two_ways_to_differ(way: str, background: bool) -> None:
    """The same label, another label, another status: each is counted, with the costs of both."""
    for bundle, item, verdict in (
        (on_size(), CLEAR, "agreed"),
        (on_size(), UNCLEAR, "agreed"),
        (on_size(-1.0), CLEAR, "other_label"),
        (on_size(threshold=0.4), UNCLEAR, "other_status"),
        (on_size(threshold=1.0), CLEAR, "other_status"),
    ):
        shadow = Shadow(bundle, background=background)
        cascade = Cascade(sample_bundle(), RecordingAcquirers(*CLEAR), listener=shadow)
        decision = decide(cascade, way, item)
        assert decision._replace(elapsed_s=0.0) == Cascade(sample_bundle()).decide(item)._replace(elapsed_s=0.0)
        assert shadow.drain(60)
        summary = shadow.summary
        assert [summary.agreed, summary.other_status, summary.other_label].count(1) == 1
        assert getattr(summary, verdict) == summary.compared == 1
        assert (summary.cost, summary.shadow_cost) == (decision.cost, 4.0)
        assert summary.cost_difference == 4.0 - decision.cost
        assert summary.bundle == bundle.manifest.id
        assert (summary.not_comparable, summary.errors, summary.dropped, summary.acquired) == (0, 0, 0, 0)


def test_a_summary_without_items() -> None:
    """Nothing was compared: the mean is NaN."""
    shadow = Shadow(on_size())
    assert shadow.drain()
    assert shadow.summary == ShadowSummary(on_size().manifest.id, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)
    assert math.isnan(shadow.summary.cost_difference)


@pytest.mark.parametrize("way", WAYS)
def test_what_was_not_acquired_is_not_comparable(way: str) -> None:
    """The shadow needs a feature of a stage that the cascade never reached: nothing acquires it."""
    acquirers = RecordingAcquirers(*CLEAR)
    shadow = Shadow(make_bundle([["size"], ["reputation"]], threshold=1.0), acquirers, background=False)
    cascade = Cascade(sample_bundle(), acquirers, listener=shadow)
    decide(cascade, way, CLEAR)
    assert acquirers.asked == [("size",)]
    assert (shadow.summary.not_comparable, shadow.summary.compared) == (1, 0)
    decide(cascade, way, UNCLEAR)
    assert (shadow.summary.not_comparable, shadow.summary.compared) == (1, 1)
    assert shadow.summary.acquired == 0


def test_a_share_of_the_items_may_be_completed() -> None:
    """With share 1 the rest is acquired from the shadow's own acquirers, once per item; with a share, for about that many."""
    bundle = make_bundle([["size"], ["reputation", "links"]], costs={"size": 1.0}, threshold=1.0)
    primary, own = RecordingAcquirers(*CLEAR), RecordingAcquirers("size", ("reputation", "links"))
    shadow = Shadow(bundle, own, share=1, background=False)
    decision = Cascade(sample_bundle(), primary, listener=shadow).decide(CLEAR)
    assert primary.asked == [("size",)]
    assert own.asked == [("reputation", "links")]
    assert (shadow.summary.acquired, shadow.summary.compared, shadow.summary.shadow_cost) == (1, 1, 3.0)
    assert decision.cost == 1.0
    counts = []
    for seed in (1, 1, 2):
        drawn = Shadow(bundle, own, share=0.3, seed=seed, background=False)
        Cascade(sample_bundle(), listener=drawn).decide_many([CLEAR] * 200)
        summary = drawn.summary
        assert summary.compared + summary.not_comparable == 200
        assert summary.compared == summary.acquired
        counts.append(summary.compared)
    assert counts[0] == counts[1]
    assert 30 < counts[0] < 90


def test_async_sources_are_not_called_by_a_shadow() -> None:
    """They belong to the loop of the service: such an item is not comparable."""
    acquirers = RecordingAcquirers("size", "links")

    @acquirers.feature("reputation")
    async def reputation(item: Any) -> float:
        raise AssertionError("called")

    shadow = Shadow(make_bundle([["size"], ["reputation"]], threshold=1.0), acquirers, share=1.0, background=False)
    asyncio.run(Cascade(sample_bundle(), acquirers, listener=shadow).decide_async(CLEAR))
    assert shadow.summary.not_comparable == 1


def test_a_shadow_trips_no_breaker_and_fills_no_cache() -> None:
    """Guards of a shared registry are the cascade's: failures and values of the shadow leave them alone; its timeout holds."""
    breaker, cache = CircuitBreaker(failures=1), AcquirerCache(key=str, ttl_s=60.0)
    source = HangingSource()
    acquirers = RecordingAcquirers("size")
    acquirers.feature("links", breaker=breaker)(lambda item: 1 / 0)
    acquirers.feature("reputation", cache=cache, timeout_s=0.2)(lambda item: source(item) if item is UNCLEAR else 0.1)
    cascade = Cascade(sample_bundle(), acquirers)
    for feature, item, reason in (("links", CLEAR, "exception"), ("reputation", CLEAR, None), ("reputation", UNCLEAR, "timeout")):
        shadow = Shadow(make_bundle([["size"], [feature]], threshold=1.0), acquirers, share=1.0, background=False)
        recorded = RecordedItem(item, {"size": 0.0}, math.inf, {}, frozenset(), cascade.decide(CLEAR))
        found = shadow._decide(recorded)
        assert [failure.kind for failure in found.errors] == ([reason] if reason else [])
    source.release_event.set()
    assert breaker.state == "closed"
    assert cache.counts == (0, 0, 0)


def test_failures_are_recorded_too() -> None:
    """A source failed and the item fell back: the shadow meets the same failure, by its own policy."""
    acquirers = RecordingAcquirers(*CLEAR)
    broken = {**UNCLEAR, "links": OSError("down")}
    for policy, expected in (("default", "agreed"), ("reject", "agreed"), ("raise", "errors")):
        shadow = Shadow(sample_bundle(), on_failure=policy, background=False)  # type: ignore[arg-type]
        cascade = Cascade(sample_bundle(), acquirers, on_failure="default", listener=shadow)
        assert cascade.decide(broken).degraded
        assert getattr(shadow.summary, expected) == 1


def test_a_failure_that_ended_the_item_ends_it_for_the_shadow_too() -> None:
    """What comes after such a failure was not acquired, and the shadow neither needs it nor acquires it."""
    bundle = make_bundle([["a", "b"]])
    for share in (0.0, 1.0):
        own = RecordingAcquirers("a", "b")
        shadow = Shadow(bundle, own, share=share, background=False)
        cascade = Cascade(bundle, RecordingAcquirers("a", "b"), on_failure="reject", listener=shadow)
        assert cascade.decide({"a": OSError("down"), "b": 1.0}).reason == "acquisition_failed"
        assert shadow.summary.agreed == 1
        assert own.calls == []


def test_the_policy_of_the_shadows_own_acquirers() -> None:
    """If it has an acquirer for a feature, that one's policy applies to a recorded failure."""
    own = RecordingAcquirers(*CLEAR, on_failure="default")
    shadow = Shadow(sample_bundle(), own, on_failure="reject", background=False)
    cascade = Cascade(sample_bundle(), RecordingAcquirers(*CLEAR), on_failure="default", listener=shadow)
    cascade.decide({**UNCLEAR, "links": OSError("down")})
    assert (shadow.summary.shadow_cost, shadow.summary.cost) == (28.0, 28.0)


def test_known_values_budgets_and_free_hits_count_for_both() -> None:
    """The shadow is billed as if it had been asked: known and free values are free for it, the budget is the same."""
    acquirers = RecordingAcquirers("size", "links")
    acquirers.feature("reputation", cache=AcquirerCache(key=str, ttl_s=60.0))(lambda item: 0.1)
    shadow = Shadow(sample_bundle(), background=False)
    cascade = Cascade(sample_bundle(), acquirers, listener=shadow)
    costs = [
        cascade.decide(UNCLEAR).cost,
        cascade.decide(UNCLEAR).cost,
        cascade.decide(UNCLEAR, known={"size": 0.0}).cost,
        cascade.decide(UNCLEAR, budget=2.0).cost,
    ]
    assert costs == [28.0, 3.0, 2.0, 1.0]
    assert (shadow.summary.agreed, shadow.summary.cost, shadow.summary.shadow_cost) == (4, 34.0, 34.0)


def test_known_values_that_the_shadow_does_not_know_of() -> None:
    """A known feature that its bundle lacks is left out; a value that it does not allow fails by its policy."""
    shadow = Shadow(on_size(), background=False)
    cascade = Cascade(sample_bundle(), RecordingAcquirers(*CLEAR), listener=shadow)
    cascade.decide(UNCLEAR, known={"links": 0.1})
    assert shadow.summary.agreed == 1
    coloured = [Feature(name="size", kind="categorical", categories=("red", "blue"), cost=1.0)]
    strict = Shadow(make_bundle([["size"]], features=coloured), background=False)
    Cascade(sample_bundle(), RecordingAcquirers(*CLEAR), listener=strict).decide(CLEAR, known={"size": 3.0})
    assert (strict.summary.other_status, strict.summary.shadow_cost) == (1, 0.0)


@pytest.mark.parametrize("way", WAYS)
def test_items_that_ended_at_their_deadline_are_not_comparable(way: str) -> None:
    """The cascade had no time: that says nothing about the bundles."""
    source = HangingSource()
    acquirers = RecordingAcquirers("size", "reputation")
    acquirers.feature("links")(source)
    shadow = Shadow(on_size(), background=False)
    cascade = Cascade(sample_bundle(), acquirers, listener=shadow)
    calls = {
        "decide": lambda: cascade.decide(UNCLEAR, deadline_s=WITHIN),
        "many": lambda: cascade.decide_many([UNCLEAR], deadline_s=WITHIN),
        "async": lambda: asyncio.run(cascade.decide_async(UNCLEAR, deadline_s=WITHIN)),
        "many_async": lambda: asyncio.run(cascade.decide_many_async([UNCLEAR], deadline_s=WITHIN)),
    }
    calls[way]()
    source.release_event.set()
    assert shadow.summary.not_comparable == 1


def test_an_item_that_ends_in_an_error_is_not_recorded() -> None:
    """There is no answer to compare with."""
    shadow = Shadow(on_size(), background=False)
    cascade = Cascade(sample_bundle(), RecordingAcquirers(*CLEAR), listener=shadow)
    with pytest.raises(AcquisitionError):
        cascade.decide({"size": None})
    assert shadow.summary.compared + shadow.summary.not_comparable == 0


def test_a_shadow_that_fails_harms_nobody(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What it raises is counted, and logged once a minute; every item gets its answer."""
    shadow = Shadow(on_size())

    def broken(*_: object) -> Any:
        raise ValueError("mine")

    monkeypatch.setattr(shadow._scorer, "score", broken)
    cascade = Cascade(sample_bundle(), RecordingAcquirers(*CLEAR), listener=shadow)
    assert [cascade.decide(CLEAR).label for _ in range(3)] == ["spam"] * 3
    assert shadow.drain(60)
    assert shadow.summary.errors == 3
    assert len([one for one in caplog.records if one.levelno == logging.ERROR]) == 1
    monkeypatch.setattr(shadow_module, "_LOG_EVERY_S", 0.0)
    cascade.decide(CLEAR)
    assert shadow.drain(60)
    assert len([one for one in caplog.records if one.levelno == logging.ERROR]) == 2


def test_a_shadow_that_hangs_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers come while it hangs; what would wait beyond the limit is dropped and counted."""
    monkeypatch.setattr(shadow_module, "_MAX_WAITING", 2)
    source = HangingSource()
    own = RecordingAcquirers("size")
    own.feature("reputation")(source)
    shadow = Shadow(make_bundle([["size"], ["reputation"]], threshold=1.0), own, share=1.0)
    cascade = Cascade(sample_bundle(), RecordingAcquirers(*CLEAR), listener=shadow)
    cascade.decide(CLEAR)
    wait_until(lambda: source.entered, "the shadow is at work")
    assert [cascade.decide(CLEAR).label for _ in range(5)] == ["spam"] * 5
    assert shadow.summary.dropped == 3
    assert not shadow.drain(0.01)
    source.release_event.set()
    assert shadow.drain(60)
    assert shadow.summary.compared == 3


def test_comparisons_that_wait_for_a_source_run_one_after_the_other() -> None:
    """Sources with a timeout are waited for: still one comparison at a time, in order, and `drain` waits for the last."""
    running = most = 0
    order: list[int] = []
    own = RecordingAcquirers("size")

    @own.feature("reputation", timeout_s=60.0)
    def reputation(item: Any) -> float:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.005)
        order.append(item["number"])
        running -= 1
        return 0.0

    shadow = Shadow(make_bundle([["size"], ["reputation"]], threshold=1.0), own, share=1.0)
    cascade = Cascade(sample_bundle(), RecordingAcquirers(*CLEAR), listener=shadow)
    before = len(our_threads())
    for number in range(20):
        cascade.decide({**CLEAR, "number": number})
    # That of the comparisons, and that of the source.
    assert len(our_threads()) <= before + 2
    assert shadow.drain(60)
    assert shadow.summary.compared == 20
    assert order == list(range(20))
    assert most == 1


def test_a_system_without_threads_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread for the shadow: the item is dropped, and the answer stands."""
    shadow = Shadow(on_size())

    def refuse(*_: object) -> Any:
        raise PoolFull("no thread")

    monkeypatch.setattr(shadow._background, "submit", refuse)
    assert Cascade(sample_bundle(), listener=shadow).decide(CLEAR).label == "spam"
    assert shadow.summary.dropped == 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"share": -0.1}, InputError, "share: expected a number from 0 to 1, got -0.1"),
        ({"share": True}, InputError, "share: expected a number from 0 to 1, got True"),
        ({"share": math.nan}, InputError, "share: expected a number from 0 to 1, got nan"),
        ({"share": 0.5}, InputError, "share: without acquirers nothing can be acquired. Give acquirers, or leave share out"),
        ({"acquirers": {}}, BindError, "acquirers: expected an emsco_runtime.Acquirers, got dict"),
        ({"acquirers": Acquirers()}, BindError, "feature 'size': no acquirer is registered for it. Register one with"),
    ],
)
def test_invalid_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    """Options that could never work raise at once."""
    with pytest.raises(error) as caught:
        Shadow(on_size(), **options)
    assert str(caught.value).startswith(message)


def test_a_shadow_from_a_folder_travels(tmp_path: Path) -> None:
    """It reads a bundle's folder; pickled, it carries bundle and settings, and begins without counts."""
    bundle = on_size()
    write_bundle(tmp_path / "b", bundle.manifest, bundle.models)
    shadow = Shadow(tmp_path / "b", background=False)
    cascade = Cascade(sample_bundle(), listener=shadow)
    cascade.decide(CLEAR)
    copy = pickle.loads(pickle.dumps(cascade))
    copy.decide(CLEAR)
    assert shadow.summary.agreed == 1
    assert copy._state.options.listener.summary.agreed == 1


def test_a_forked_child_counts_for_itself() -> None:
    """Forked while the lock is held, after some items: the child begins at zero, and its shadow works."""
    shadow = Shadow(on_size())
    cascade = Cascade(sample_bundle(), listener=shadow)
    cascade.decide(CLEAR)
    assert shadow.drain(60)
    with shadow._lock:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                cascade.decide(CLEAR)
                cascade.decide(CLEAR)
                status = 0 if shadow.drain(60) and shadow.summary.agreed == 2 else 2
            finally:
                os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert shadow.summary.agreed == 1


def test_a_reloading_cascade_has_its_shadow_too(tmp_path: Path) -> None:
    """The shadow goes on across reloads: it is the candidate, whatever is in service."""
    for bundle in (sample_bundle(), on_size(threshold=1.0)):
        write_bundle(tmp_path / "b", bundle.manifest, bundle.models, force=True)
        if bundle.manifest.id == sample_bundle().manifest.id:
            shadow = Shadow(on_size(), background=False)
            cascade = ReloadingCascade(tmp_path / "b", RecordingAcquirers(*CLEAR), listener=shadow)
        cascade.refresh()
        cascade.decide(CLEAR)
    assert (shadow.summary.agreed, shadow.summary.other_status) == (1, 1)


@pytest.mark.uncounted
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_shadow_of_the_same_bundle_always_agrees(data: st.DataObject) -> None:
    """Any bundle, any item, faults included: the answer is the same as without it, and it comes to the same, at the same cost."""
    bundle = data.draw(bundles(mixed=True))
    rows = data.draw(st.lists(items(bundle, faults=True), min_size=1, max_size=4))
    policy = data.draw(st.sampled_from(["reject", "default"]))
    names = [feature.name for feature in bundle.manifest.features]
    cut = data.draw(st.integers(0, len(names)))
    acquirers = RecordingAcquirers(*((tuple(names[:cut]),) if cut else ()), *names[cut:])
    shadow = Shadow(bundle, on_failure=policy, background=False)
    cascade = Cascade(bundle, acquirers, on_failure=policy, listener=shadow)
    plain = Cascade(bundle, acquirers, on_failure=policy)
    for row in rows:
        assert cascade.decide(row)._replace(elapsed_s=0.0) == plain.decide(row)._replace(elapsed_s=0.0)
    cascade.decide_many(rows)
    asyncio.run(cascade.decide_many_async(rows))
    summary = shadow.summary
    assert (summary.agreed, summary.compared) == (3 * len(rows), 3 * len(rows))
    assert summary.cost == summary.shadow_cost
