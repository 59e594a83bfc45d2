"""Reloading: new bundles are taken up at once, bad ones leave the old one in service, no decision mixes two."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import os
import pickle
import random
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emsco_runtime import (
    Acquirers,
    BindError,
    Bundle,
    BundleError,
    ClosedError,
    Decision,
    DriftMonitor,
    InputError,
    Manifest,
    write_bundle,
)
from emsco_runtime.bundle.manifest import StageExits
from emsco_runtime.drift import DriftStatus
from emsco_runtime.serving import reloading as reload_module
from emsco_runtime.serving.reloading import Reload, ReloadingCascade
from emsco_runtime.sources import pool as pool_module
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.testing import RecordingAcquirers, make_bundle
from tests.runtime.damage import damage
from tests.runtime.reporting import report
from tests.runtime.waiting import HangingSource, our_threads, wait_until

ITEM = {"a": 0.1, "b": 0.1}


@pytest.fixture(autouse=True)
def _no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let idle threads end at once, and check that all have ended after each test; those of earlier tests may idle on."""
    monkeypatch.setattr(pool_module, "_IDLE_S", 0.05)
    before = set(our_threads())
    yield
    if not set(our_threads()) <= before:
        gc.collect()
        wait_until(lambda: set(our_threads()) <= before, "threads end")


def watcher_threads() -> list[threading.Thread]:
    """Return the threads that look for new bundles."""
    return [thread for thread in our_threads() if thread.name == "emsco-reload"]


@functools.cache
def version(number: int) -> Bundle:
    """Return the bundle of a number: its two stages cost 1 and that number, so that a cost shows which bundle decided."""
    return make_bundle([["a"], ["b"]], costs={"a": 1.0, "b": float(number)}, threshold=1.0, name=f"version {number}")


def write_version(folder: Path, bundle: Bundle) -> str:
    """Write a bundle over what is there; return its id."""
    return write_bundle(folder, bundle.manifest, bundle.models, force=True).manifest.id


@pytest.fixture(scope="module")
def first_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with version 1, to be copied."""
    folder = tmp_path_factory.mktemp("first") / "bundle"
    write_version(folder, version(1))
    return folder


@pytest.fixture
def folder(tmp_path: Path, first_version: Path) -> Path:
    """Return a folder with version 1."""
    return Path(shutil.copytree(first_version, tmp_path / "bundle"))


def test_a_new_bundle_is_taken_up_when_asked(folder: Path) -> None:
    """`refresh` returns what it did; decisions before it are the old bundle's, those after it the new one's."""
    reloads: list[Reload] = []
    cascade = ReloadingCascade(folder, RecordingAcquirers("a", "b"), on_reload=reloads.append)
    old = cascade.manifest.id
    assert cascade.last is None
    assert cascade.decide(ITEM).bundle == old
    new = write_version(folder, version(2))
    assert cascade.decide(ITEM).bundle == old
    record = cascade.refresh()
    assert (record.outcome, record.before, record.after, record.error) == ("changed", old, new, None)
    assert record.when.tzinfo is not None
    assert cascade.last is record
    assert reloads == [record]
    assert (cascade.decide(ITEM).bundle, cascade.decide(ITEM).cost) == (new, 3.0)
    assert cascade.current.manifest.id == new
    assert repr(cascade) == f"<ReloadingCascade {str(folder)!r}: {cascade.current!r}>"


def test_every_way_of_deciding_is_there(folder: Path) -> None:
    """All five, with their options, as the cascade in service has them."""
    cascade = ReloadingCascade(folder)
    plain = cascade.current
    budget = 1.5
    expected = plain.decide(ITEM, budget=budget, known={"a": 0.2})._replace(elapsed_s=0.0)
    assert expected.cost == 1.0
    many = cascade.decide_many([ITEM], budget=budget, known=[{"a": 0.2}], deadline_s=600.0)
    found = [
        cascade.decide(ITEM, budget=budget, known={"a": 0.2}, deadline_s=600.0),
        asyncio.run(cascade.decide_async(ITEM, budget=budget, known={"a": 0.2}, deadline_s=600.0)),
        asyncio.run(cascade.decide_many_async([ITEM], concurrency=1, budget=budget, known=[{"a": 0.2}], deadline_s=600.0))[0],
    ]
    assert [one._replace(elapsed_s=0.0) for one in found] == [expected] * 3
    assert (many[0].reason, many[0].cost) == (expected.reason, expected.cost)
    assert cascade.decide_columns({"a": [0.1], "b": [0.1]}, budget=budget).reason.tolist() == ["budget"]


def test_nothing_new_costs_one_look_at_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same file: not read. A file with new marks and the same id: its manifest is read, its models are not."""
    reloads: list[Reload] = []
    cascade = ReloadingCascade(folder, on_reload=reloads.append)
    before = cascade.current

    def refuse(path: object) -> Any:
        raise AssertionError(f"{path} was read")

    monkeypatch.setattr(reload_module, "read_bundle", refuse)
    with monkeypatch.context() as inner:
        inner.setattr(reload_module, "read_manifest", refuse)
        assert cascade.refresh().outcome == "unchanged"
    os.utime(folder / "manifest.json", (1, 1))
    assert cascade.refresh().outcome == "unchanged"
    monkeypatch.setattr(reload_module, "read_manifest", refuse)
    assert cascade.refresh().outcome == "unchanged"
    assert cascade.current is before
    assert reloads == []


@pytest.mark.parametrize("what", ["manifest", "model", "gone", "no folder"])
def test_a_bad_bundle_leaves_the_old_one_in_service(folder: Path, what: str, caplog: pytest.LogCaptureFixture) -> None:
    """Damaged, incomplete or missing: reported in the result, to `on_reload` and in the log; a good one is loaded after it."""
    reloads: list[Reload] = []
    cascade = ReloadingCascade(folder, on_reload=reloads.append)
    old = cascade.manifest.id
    write_version(folder, version(2))
    if what == "manifest":
        path = folder / "manifest.json"
        path.write_bytes(path.read_bytes().replace(b'"version 2"', b'"version 3"'))
    elif what == "model":
        path = min((folder / "stages").iterdir())
        path.write_bytes(path.read_bytes()[:-1] + b"\0")
    elif what == "gone":
        (folder / "manifest.json").unlink()
    else:
        shutil.rmtree(folder)
    for _ in range(2):
        record = cascade.refresh()
        assert (record.outcome, record.before, record.after) == ("failed", old, old)
        assert isinstance(record.error, BundleError)
        assert cascade.decide(ITEM).bundle == old
    assert [one.outcome for one in reloads] == ["failed", "failed"]
    # Logged once: the second failure came within a minute.
    (line,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert f"not reloaded, bundle {old[:12]} stays: " in line.getMessage()
    if what == "gone":
        (folder / "stages").rename(folder.parent / "stages")
        folder.rmdir()
    new = write_version(folder, version(4))
    assert cascade.refresh().after == new
    assert cascade.decide(ITEM).cost == 5.0


def test_models_that_come_after_their_manifest(folder: Path) -> None:
    """A copy that is not complete fails; once the models are there it is taken up, although the manifest is the same file."""
    cascade = ReloadingCascade(folder)
    new = write_version(folder, version(2))
    stages, aside = folder / "stages", folder.parent / "aside"
    stages.rename(aside)
    assert cascade.refresh().outcome == "failed"
    aside.rename(stages)
    assert cascade.refresh().after == new


def test_a_bundle_that_does_not_fit_the_acquirers(folder: Path) -> None:
    """A feature without an acquirer: the old bundle stays; once one is registered the new bundle is taken up."""
    acquirers = RecordingAcquirers("a", "b")
    cascade = ReloadingCascade(folder, acquirers)
    new = write_version(folder, make_bundle([["a"], ["c"]]))
    record = cascade.refresh()
    assert isinstance(record.error, BindError)
    acquirers.feature("c")(lambda item: 0.3)
    assert cascade.refresh().after == new
    assert cascade.decide(ITEM).bundle == new


def test_the_first_bundle_must_be_good(tmp_path: Path) -> None:
    """There is nothing to fall back to: the constructor raises, as `Cascade.load` does."""
    with pytest.raises(BundleError, match="does not exist"):
        ReloadingCascade(tmp_path / "none", period_s=0.001)
    assert watcher_threads() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"period_s": 0}, "period_s: expected a number of seconds above 0, got 0"),
        ({"period_s": True}, "period_s: expected a number of seconds above 0, got True"),
        ({"on_reload": 3}, "on_reload: expected a function of a Reload, got 3"),
    ],
)
def test_invalid_options(folder: Path, options: dict[str, Any], message: str) -> None:
    """Options that could never work raise at once."""
    with pytest.raises(InputError) as caught:
        ReloadingCascade(folder, **options)
    assert str(caught.value) == message


def test_a_link_that_is_moved_is_followed(tmp_path: Path) -> None:
    """Bundles in folders of their own, and a link to the one in force: moving the link is enough."""
    first, second = write_version(tmp_path / "1", version(1)), write_version(tmp_path / "2", version(2))
    link = tmp_path / "current"
    link.symlink_to(tmp_path / "1")
    cascade = ReloadingCascade(link)
    assert cascade.manifest.id == first
    (tmp_path / "next").symlink_to(tmp_path / "2")
    (tmp_path / "next").replace(link)
    assert cascade.refresh().after == second


def test_a_relative_path_survives_a_change_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that becomes a daemon changes to the root; its bundle is still found."""
    write_version(tmp_path / "bundle", version(1))
    monkeypatch.chdir(tmp_path)
    cascade = ReloadingCascade("bundle")
    monkeypatch.chdir("/")
    second = write_version(tmp_path / "bundle", version(2))
    assert cascade.refresh().after == second


def test_running_decisions_finish_on_the_old_bundle(folder: Path) -> None:
    """A decision between its stages while the bundle is replaced: its id, cost and second stage are the old one's."""
    source = HangingSource(0.1)
    acquirers = RecordingAcquirers("a")
    acquirers.feature("b")(source)
    cascade = ReloadingCascade(folder, acquirers)
    old = cascade.manifest.id
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(cascade.decide(ITEM)))
    thread.start()
    wait_until(lambda: source.entered, "the second stage begins")
    write_version(folder, version(7))
    new = cascade.refresh().after
    source.release_event.set()
    assert cascade.decide(ITEM).bundle == new
    thread.join(60)
    assert (found[0].bundle, found[0].cost) == (old, 2.0)


def test_threads_and_options_outlive_a_bundle(folder: Path) -> None:
    """Pool (its count of abandoned calls, too), policy and observers stay what they are."""
    received: list[str] = []
    pool = AcquirerPool(1)
    cascade = ReloadingCascade(
        folder, RecordingAcquirers("a", "b"), on_failure="reject", pool=pool, observers=[lambda one: received.append(one.bundle)]
    )
    new = write_version(folder, version(2))
    cascade.refresh()
    assert cascade.decide({"a": None}).reason == "acquisition_failed"
    assert cascade.current._pool is pool
    assert received == [new]
    own = ReloadingCascade(folder)
    before = own.current._pool
    write_version(folder, version(3))
    own.refresh()
    assert own.current._pool is before


class ReloadObserver:
    """An observer that records reloads; at the top level, so that it can be pickled."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str]] = []
        self.failed: list[tuple[str, str]] = []

    def __call__(self, decision: Decision) -> None:
        """Ignore a decision."""

    def on_reload(self, before: Manifest, after: Manifest) -> None:
        """Keep the names."""
        self.received.append((before.name, after.name))

    def on_reload_failure(self, error: Exception, bundle: str) -> None:
        """Keep the kind of the error."""
        self.failed.append((type(error).__name__, bundle))


def test_observers_are_notified_of_reloads(folder: Path) -> None:
    """Each change with both manifests, once it is in service; each reload that fails, with the bundle that stays."""
    follower = ReloadObserver()
    cascade = ReloadingCascade(folder, observers=[follower])
    cascade.refresh()
    write_version(folder, version(2))
    cascade.refresh()
    (folder / "manifest.json").write_bytes(b"{}")
    cascade.refresh()
    cascade.refresh()
    assert follower.received == [("version 1", "version 2")]
    assert follower.failed == [("BundleError", cascade.manifest.id)] * 2


def test_an_observer_may_reload_itself(folder: Path) -> None:
    """Observers are notified in the order of the changes, under the lock of the reload: one of theirs does not hang."""
    seen: list[str] = []

    class Curious(ReloadObserver):
        def on_reload(self, before: Manifest, after: Manifest) -> None:
            seen.append(cascade.refresh().outcome)

    cascade = ReloadingCascade(folder, observers=[Curious()])
    write_version(folder, version(2))
    thread = threading.Thread(target=cascade.refresh, daemon=True)
    thread.start()
    thread.join(60)
    assert seen == ["unchanged"]


def with_expected_rejects(bundle: Bundle, rejected: int) -> Bundle:
    """Return a bundle that is expected to reject `rejected` of 1,000 items, and to accept the others at its last stage."""
    stages = (
        *(StageExits(accepted=0, right=0) for _ in bundle.manifest.stages[1:]),
        StageExits(accepted=1000 - rejected, right=0),
    )
    expected = bundle.manifest.expected.model_copy(
        update={"rows": 1000, "accepted": 1000 - rejected, "right": 0, "stages": stages}
    )
    return Bundle(bundle.manifest.model_copy(update={"expected": expected}).with_id(), bundle.models, bundle.path)


def test_a_drift_monitor_follows_the_bundle(folder: Path) -> None:
    """After a reload the new bundle's decisions are counted against its own figures, from the first one on."""
    changes: list[DriftStatus] = []
    old, new = with_expected_rejects(version(1), 10), with_expected_rejects(version(2), 990)
    write_version(folder, old)
    monitor = DriftMonitor(old.manifest, on_change=changes.append)
    cascade = ReloadingCascade(folder, observers=[monitor])
    # Everything is rejected, which the first bundle does not expect.
    for _ in range(50):
        cascade.decide(ITEM)
    assert (monitor.state, monitor.status.items, monitor.status.reloads) == ("alarm", 50, 0)
    old_decision = cascade.decide(ITEM)
    write_version(folder, new)
    cascade.refresh()
    status = monitor.status
    assert (status.state, status.items, status.outside.foreign, status.reloads) == ("ok", 0, 0, 1)
    assert status.bundle == monitor.manifest.id == cascade.manifest.id
    assert [change.state for change in changes][-2:] == ["alarm", "ok"]
    for _ in range(100):
        cascade.decide(ITEM)
    # One of the old bundle that was still under way, and its label.
    monitor(old_decision)
    monitor.feedback(old_decision._replace(label="spam", status="accepted"), "ham")
    status = monitor.status
    assert (status.state, status.items, status.labelled, status.outside.foreign) == ("ok", 100, 0, 1)
    assert {one.name: one.expected for one in status.figures}["reject"] == 0.99
    assert status.to_dict()["bundle"] == new.manifest.id


def test_a_drift_monitor_of_another_bundle_is_not_changed(folder: Path) -> None:
    """Monitors of several cascades are often passed to all of them: one follows the bundle that it is about, and no other."""
    mine, other = DriftMonitor(version(1).manifest), DriftMonitor(version(5).manifest)
    cascade = ReloadingCascade(folder, observers=[mine, other])
    new = write_version(folder, version(2))
    cascade.refresh()
    assert mine.manifest.id == new
    assert other.manifest.id == version(5).manifest.id
    assert (mine.status.reloads, other.status.reloads) == (1, 0)


def test_a_pickled_cascade_notifies_its_observers_of_a_bundle_that_changed_meanwhile(folder: Path) -> None:
    """A copy reads the folder itself: a new bundle there is reported as a reload, so that a monitor follows it."""
    cascade = ReloadingCascade(folder, observers=[ReloadObserver(), DriftMonitor(version(1).manifest)])
    content = pickle.dumps(cascade)
    new = write_version(folder, version(2))
    copy = pickle.loads(content)
    follower, monitor = copy.current._state.options.observers
    assert follower.received == [("version 1", "version 2")]
    copy.decide(ITEM)
    assert (monitor.status.items, monitor.status.bundle) == (1, new)


# Known values

GONE = {"a": 0.2, "b": 0.3}
TYPO = {"a": 0.2, "bb": 0.3}


def without_b() -> Bundle:
    """Return a bundle that has no feature b."""
    return make_bundle([["a"]], threshold=1.0, name="without b")


def decide_each_way(cascade: ReloadingCascade, known: dict[str, object]) -> list[Decision]:
    """Decide an item in every way that takes known values."""
    return [
        cascade.decide(ITEM, known=known),
        cascade.decide(ITEM, known=known, deadline_s=600.0),
        *cascade.decide_many([ITEM], known=[known]),
        asyncio.run(cascade.decide_async(ITEM, known=known)),
        *asyncio.run(cascade.decide_many_async([ITEM], known=[known])),
    ]


@pytest.mark.parametrize("acquirers", [None, RecordingAcquirers("a")], ids=["mappings", "acquirers"])
def test_known_values_of_an_earlier_bundle_are_not_used(folder: Path, acquirers: Acquirers | None) -> None:
    """The caller cannot know which bundle is in service: a feature that only the one before has is taken, and ignored."""
    if acquirers is not None:
        acquirers.feature("b")(lambda item: 0.1)
    cascade = ReloadingCascade(folder, acquirers)
    write_version(folder, without_b())
    cascade.refresh()
    for decision in decide_each_way(cascade, GONE):
        assert (decision.bundle, decision.cost) == (cascade.manifest.id, 0.0)
        assert [record.known for record in decision.trace] == [("a",)]
    # After one more change, too.
    write_version(folder, make_bundle([["a"]], threshold=1.0, name="another without b"))
    assert cascade.refresh().outcome == "changed"
    assert len(decide_each_way(cascade, GONE)) == 5
    with pytest.raises(InputError, match="known: the bundle has no feature 'bb'; did you mean 'b'"):
        decide_each_way(cascade, TYPO)


def test_known_values_of_a_copy(folder: Path) -> None:
    """A copy in another process takes the names that the original took, although it has seen the last bundle alone."""
    cascade = ReloadingCascade(folder)
    write_version(folder, without_b())
    cascade.refresh()
    for copy in (pickle.loads(pickle.dumps(cascade)), pickle.loads(pickle.dumps(cascade.current))):
        assert copy.decide(ITEM, known=GONE).bundle == cascade.manifest.id
        with pytest.raises(InputError, match="no feature 'bb'"):
            copy.decide(ITEM, known=TYPO)


def test_known_values_of_acquirers_that_no_stage_needs(folder: Path) -> None:
    """A name with an acquirer is not a mistake in spelling, nor is it in a plain cascade: the next bundle may need it."""
    acquirers = RecordingAcquirers("a", "b", "later")
    cascade = ReloadingCascade(folder, acquirers)
    assert [decision.cost for decision in decide_each_way(cascade, {"later": "whatever"})] == [2.0] * 5
    with pytest.raises(InputError, match="no feature 'latter'; did you mean 'later'"):
        cascade.decide(ITEM, known={"latter": 1.0})


# The period


def test_a_period_takes_up_new_bundles_by_itself(folder: Path) -> None:
    """Nobody asks: the new bundle is in service soon; closing ends the thread, decisions and reloads."""
    reloads: list[Reload] = []
    with ReloadingCascade(folder, period_s=0.005, on_reload=reloads.append) as cascade:
        new = write_version(folder, version(2))
        wait_until(lambda: cascade.manifest.id == new, "the new bundle is taken up")
        wait_until(lambda: reloads, "it is reported")
        assert watcher_threads() != []
    assert watcher_threads() == []
    cascade.close()
    write_version(folder, version(3))
    with pytest.raises(ClosedError, match="is closed and decides no more"):
        cascade.decide(ITEM)
    with pytest.raises(ClosedError, match="is closed and cannot reload"):
        cascade.refresh()
    # A reload of the thread that started while it was being closed: it finds it closed, and ends.
    cascade._poll_once()
    assert [one.outcome for one in reloads] == ["changed"]
    assert cascade.manifest.id == new


def test_a_failure_that_lasts_is_reported_once_a_minute(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged bundle at every reload: one line and one call, until a minute is over."""
    reloads: list[Reload] = []
    cascade = ReloadingCascade(folder, period_s=0.002, on_reload=reloads.append)
    (folder / "manifest.json").write_bytes(b"{}")
    wait_until(lambda: reloads, "it is reported")
    looked = cascade.last
    wait_until(lambda: cascade.last is not looked and cascade.last is not reloads[0], "it looks again")
    assert len(reloads) == 1
    assert len([one for one in caplog.records if one.levelno == logging.ERROR]) == 1
    monkeypatch.setattr(reload_module, "_REPORT_EVERY_S", 0.0)
    wait_until(lambda: len(reloads) > 2, "it is reported again")
    cascade.close()
    assert {one.outcome for one in reloads} == {"failed"}
    assert len([one for one in caplog.records if one.levelno == logging.ERROR]) > 1


def test_a_callback_that_raises_stops_nothing(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What `on_reload` raises is logged; the bundle is in service, and the thread goes on looking."""

    def broken(received: Reload) -> None:
        raise ValueError("mine")

    with ReloadingCascade(folder, period_s=0.002, on_reload=broken) as cascade:
        for number in (2, 3):
            new = write_version(folder, version(number))
            wait_until(lambda new=new: cascade.manifest.id == new, "the new bundle is taken up")
        write_version(folder, version(4))
        assert cascade.refresh().error is None
    assert "on_reload raised" in caplog.text


def test_closing_from_the_callback(folder: Path) -> None:
    """The watching thread may end itself: "after the first change, stop"."""
    made: list[ReloadingCascade] = []
    made.append(ReloadingCascade(folder, period_s=0.002, on_reload=lambda _: made[0].close()))
    new = write_version(folder, version(2))
    wait_until(lambda: not watcher_threads(), "the thread ends")
    assert made[0].manifest.id == new


def test_a_forgotten_cascade_ends_its_thread(folder: Path) -> None:
    """The thread does not keep the cascade alive, and ends with it."""
    cascade = ReloadingCascade(folder, period_s=600.0)
    (thread,) = watcher_threads()
    del cascade
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


def test_a_watcher_whose_cascade_is_gone_looks_at_nothing() -> None:
    """Between the last reference and the stop there may be one more turn."""

    class Stop:
        """Stops at the second turn."""

        turns = iter([False, True])

        def wait(self, seconds: float) -> bool:
            """Return whether to stop."""
            assert seconds == 5.0
            return next(self.turns)

    reload_module._watch_folder(lambda: None, Stop(), 5.0)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_watches_for_itself(folder: Path) -> None:
    """Forked while the lock is held: the child has a watching thread of its own and takes up the new bundle."""
    cascade = ReloadingCascade(folder, RecordingAcquirers("a", "b"), period_s=0.005)
    read, write = os.pipe()
    with cascade._refresh_lock:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                old = cascade.decide(ITEM).bundle
                os.write(write, b"ready")
                wait_until(lambda: cascade.decide(ITEM).bundle != old, "the child takes up the new bundle")
                status = 0 if cascade.decide(ITEM).cost == 3.0 and len(watcher_threads()) == 1 else 2
            finally:
                os._exit(status)
    assert os.read(read, 5) == b"ready"
    write_version(folder, version(2))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(read)
    os.close(write)
    cascade.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_a_child_that_is_forked_while_observers_are_notified_notifies_its_own(folder: Path) -> None:
    """The new bundle is in service, but the drift monitor was still to be notified: in the child it is, at the next look."""
    notifying, release_event = threading.Event(), threading.Event()

    class Slow:
        def __call__(self, decision: Decision) -> None: ...

        def on_reload(self, before: Manifest, after: Manifest) -> None:
            notifying.set()
            assert release_event.wait(60)

    monitor = DriftMonitor(version(1).manifest)
    cascade = ReloadingCascade(folder, RecordingAcquirers("a", "b"), observers=[Slow(), monitor])
    new = write_version(folder, version(2))
    reloading = threading.Thread(target=cascade.refresh)
    reloading.start()
    assert notifying.wait(60)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            release_event.set()
            manifest = folder / "manifest.json"
            content = manifest.read_bytes()
            manifest.write_bytes(b"{")
            failed = cascade.refresh()
            manifest.write_bytes(content)
            result, again = cascade.refresh(), cascade.refresh()
            cascade.decide(ITEM)
            outcomes = failed.outcome, failed.before == new, result.outcome, again.outcome
            seen = monitor.manifest.id == new, monitor.status.items, monitor.status.outside.foreign
            status = 0 if (outcomes, seen) == (("failed", True, "changed", "unchanged"), (True, 1, 0)) else 2
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    release_event.set()
    reloading.join(60)
    assert status == 0
    assert monitor.manifest.id == new
    assert cascade.refresh().outcome == "unchanged"


def a(item: Any) -> float:
    """Return a value; at the top level, so that it can be pickled."""
    return float(item["a"])


def b(item: Any) -> float:
    """Return a value; at the top level, so that it can be pickled."""
    return float(item["b"])


def test_a_pickled_copy_reads_the_folder_again(folder: Path) -> None:
    """Settings are pickled; the copy loads what is in the folder then, and has a thread of its own."""
    acquirers = Acquirers()
    acquirers.feature("a")(a)
    acquirers.feature("b")(b)
    with ReloadingCascade(folder, acquirers, period_s=600.0) as cascade:
        text = pickle.dumps(cascade)
        new = write_version(folder, version(2))
        with pickle.loads(text) as copy:
            assert copy.decide(ITEM).bundle == new
            assert len(watcher_threads()) == 2
        assert cascade.decide(ITEM).bundle != new


# Under load


def under_load(folder: Path, reloads: int, seed: int) -> int:
    """Replace the bundle many times, every tenth time by a damaged one, while threads and a loop decide without a pause.

    Every decision is seen to be of a bundle that was in service between its beginning and its end. Returns how many there were.
    """
    rng = random.Random(seed)
    acquirers = Acquirers()
    # They take a while: more decisions are running when the bundle is replaced, and the thread that does so gets its turn.
    acquirers.feature("a")(lambda item: (time.sleep(0.001), 0.1)[1])
    acquirers.feature("b")(lambda item: (time.sleep(0.001), 0.1)[1])
    cascade = ReloadingCascade(folder, acquirers)
    # Position in service -> id, and what its decisions cost. Grows before a bundle may be seen: never out of date.
    numbers = {cascade.manifest.id: 1}
    service = [1, 1]  # at least this one, at most that one
    stop = threading.Event()
    faults: list[str] = []
    made = [0] * 5

    def check(least: int, decision: Any, most: int) -> None:
        number = numbers[decision.bundle]
        if not least <= number <= most or decision.cost != 1.0 + number or decision.stages != 2 or decision.errors:
            faults.append(f"between {least} and {most}: {decision}")

    def work(place: int) -> None:
        try:
            while not stop.is_set():
                least = service[0]
                decisions = [cascade.decide(ITEM)] if place % 2 else cascade.decide_many([ITEM, ITEM])
                for decision in decisions:
                    check(least, decision, service[1])
                made[place] += len(decisions)
        except BaseException as error:  # noqa: BLE001 - reported by the test
            faults.append(repr(error))

    async def loop() -> None:
        while not stop.is_set():
            least = service[0]
            check(least, await cascade.decide_async(ITEM), service[1])
            made[4] += 1

    def work_async() -> None:
        try:
            asyncio.run(loop())
        except BaseException as error:  # noqa: BLE001 - reported by the test
            faults.append(repr(error))

    bundles = {number: version(number) for number in range(2, reloads + 2)}
    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)] + [threading.Thread(target=work_async)]
    for thread in threads:
        thread.start()
    try:
        for number, bundle in bundles.items():
            numbers[bundle.manifest.id] = number
            if number % 10 == 0:
                write_version(folder, bundle)
                damage(folder, rng)
                record = cascade.refresh()
                assert record.outcome == "failed", record
                assert numbers[cascade.manifest.id] == number - 1
                continue
            write_version(folder, bundle)
            service[1] = number
            assert cascade.refresh().after == bundle.manifest.id
            service[0] = number
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert faults == []
    assert min(made) > 0
    return sum(made)


@pytest.mark.uncounted
def test_thirty_reloads_under_load(folder: Path) -> None:
    """Every tenth bundle is damaged: no decision fails, and each one is wholly of a bundle that was in service meanwhile."""
    under_load(folder, 30, seed=1)


@pytest.mark.proof
def test_a_thousand_reloads_under_load(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same with 1,000 reloads."""
    decisions = under_load(folder, 1000, seed=2)
    report(capsys, f"reload: {decisions} decisions during 1,000 reloads, none failed, each with the right bundle's id")
