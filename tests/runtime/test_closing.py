"""Closing a cascade: what it owns is released, what it was handed stays, and what is under way finishes."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from emsco_runtime import (
    AcquirerPool,
    Acquirers,
    Cascade,
    ClosedError,
    Decider,
    Decision,
    Manifest,
    ReloadingCascade,
    write_bundle,
)
from emsco_runtime.serving import reloading as reload_module
from emsco_runtime.sources import pool as pool_module
from emsco_runtime.testing import make_bundle, sample_bundle
from tests.runtime.waiting import HangingSource, our_threads, wait_until

ITEM = {"size": 2.0, "links": 0.0, "reputation": 0.0}
USES: dict[str, Callable[[Decider], Any]] = {
    "decide": lambda decider: decider.decide(ITEM),
    "decide, deadline": lambda decider: decider.decide(ITEM, deadline_s=60),
    "decide_async": lambda decider: asyncio.run(decider.decide_async(ITEM)),
    "decide_many": lambda decider: decider.decide_many([ITEM]),
    "decide_many_async": lambda decider: asyncio.run(decider.decide_many_async([ITEM])),
    "decide_columns": lambda decider: decider.decide_columns({name: [value] for name, value in ITEM.items()}),
}


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """See that closing ended every thread that the test's cascades had, without waiting until they are idle for long."""
    before = our_threads()
    yield
    wait_until(lambda: all(thread in before for thread in our_threads()), "threads end", seconds=20)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the sample bundle."""
    bundle = sample_bundle()
    write_bundle(tmp_path / "bundle", bundle.manifest, bundle.models)
    return tmp_path / "bundle"


@pytest.fixture(params=["cascade", "reloading"])
def decider(request: pytest.FixtureRequest, folder: Path) -> Decider:
    """Return both that can be closed."""
    return Cascade.load(folder) if request.param == "cascade" else ReloadingCascade(folder, period_s=600.0)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_closed_cascade_refuses_to_decide(decider: Decider, use: Callable[[Decider], Any]) -> None:
    """Every way to decide works inside `with`, and raises an error that says what to do after it; manifests stay."""
    with decider as entered:
        assert entered is decider
        use(decider)
    with pytest.raises(ClosedError, match=r"is closed and decides no more\. Load another one") as caught:
        use(decider)
    assert isinstance(caught.value, RuntimeError)
    assert decider.manifest.name == "sample"


def test_async_with_closes(decider: Decider) -> None:
    """`async with` does the same in an event loop."""

    async def main() -> Decision:
        async with decider as entered:
            assert entered is decider
            return await entered.decide_async(ITEM)

    assert asyncio.run(main()).label == "spam"
    with pytest.raises(ClosedError):
        decider.decide(ITEM)


def test_closing_twice_is_closing_once(decider: Decider) -> None:
    """Both ways to close may come again, in any order."""
    decider.close()
    decider.close()
    asyncio.run(decider.aclose())
    with pytest.raises(ClosedError):
        decider.decide(ITEM)


def test_an_error_closes_too(decider: Decider) -> None:
    """What is raised inside `with` closes the cascade and goes on its way."""
    with pytest.raises(ZeroDivisionError), decider:
        _ = 1 / 0
    with pytest.raises(ClosedError):
        decider.decide(ITEM)


def test_nothing_is_acquired_by_a_closed_cascade() -> None:
    """It refuses before an acquirer is called."""
    asked: list[Any] = []
    acquirers = Acquirers()
    for name in ITEM:
        acquirers.feature(name)(lambda item, name=name: asked.append(item) or item[name])
    cascade = Cascade(sample_bundle(), acquirers)
    cascade.close()
    for use in USES.values():
        with pytest.raises(ClosedError):
            use(cascade)
    assert asked == []


def test_sessions_are_released() -> None:
    """The models' sessions go with `close`, though the cascade itself is still held."""
    cascade = Cascade(sample_bundle())
    cascade.decide(ITEM)
    scorer = weakref.ref(cascade._scorer)
    cascade.close()
    gc.collect()
    assert scorer() is None


def test_decisions_under_way_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision that waits for its source in a thread of the cascade's own pool ends as if the cascade were still open."""
    # Its later calls start a thread after the pool was closed, which goes like any other when it was idle for long.
    monkeypatch.setattr(pool_module, "_IDLE_S", 0.05)
    source = HangingSource(0.0)
    acquirers = Acquirers()
    acquirers.feature("size", timeout_s=60)(source)
    acquirers.feature("links", timeout_s=60)(lambda item: 0.0)
    acquirers.feature("reputation", timeout_s=60)(lambda item: 0.0)
    cascade = Cascade(sample_bundle(), acquirers)
    found: list[Decision] = []
    thread = threading.Thread(target=lambda: found.append(cascade.decide(ITEM)))
    thread.start()
    wait_until(lambda: source.entered, "the source is asked")
    cascade.close()
    with pytest.raises(ClosedError):
        cascade.decide(ITEM)
    source.release_event.set()
    thread.join(60)
    assert (found[0].reason, found[0].stages) == ("inconclusive", 3)


def test_an_async_decision_under_way_finishes() -> None:
    """The same for a coroutine: it was started, so it ends with its decision, and so do all items of a batch."""

    async def main() -> tuple[Decision, list[Decision]]:
        asked, release_event = asyncio.Event(), asyncio.Event()
        acquirers = Acquirers()

        @acquirers.feature("size")
        async def size(item: Any) -> float:
            asked.set()
            await release_event.wait()
            return float(item["size"])

        acquirers.features("links", "reputation")(lambda item: item)
        cascade = Cascade(sample_bundle(), acquirers)
        one = asyncio.create_task(cascade.decide_async(ITEM))
        # Of these, the second begins only when the first has ended.
        many = asyncio.create_task(cascade.decide_many_async([ITEM, ITEM], concurrency=1))
        await asked.wait()
        await asyncio.sleep(0)
        await cascade.aclose()
        release_event.set()
        return await one, await many

    one, many = asyncio.run(main())
    assert [decision.label for decision in (one, *many)] == ["spam"] * 3


def test_what_was_handed_in_stays_open() -> None:
    """A pool of the user's keeps its threads, and serves others; the cascade's own has none left."""
    pool = AcquirerPool(1)
    with Cascade(sample_bundle(), pool=pool) as cascade:
        cascade.decide(ITEM)
    assert pool.counts.threads == 1
    assert Cascade(sample_bundle(), pool=pool).decide(ITEM).label == "spam"
    with Cascade(sample_bundle()) as owning:
        owning.decide(ITEM, deadline_s=60)
    wait_until(lambda: owning._pool.counts.threads == 0, "its own threads end")
    pool.close()


def test_a_cascade_that_shares_a_pool_lives_on(folder: Path) -> None:
    """One made by `with_bundle` shares the threads; closing the older one only ends those that are idle."""
    old = Cascade.load(folder)
    old.decide(ITEM, deadline_s=60)
    new = old.with_bundle(sample_bundle())
    old.close()
    assert new.decide(ITEM, deadline_s=60).label == "spam"
    new.close()


def test_a_closed_pool_makes_the_calls_that_wait() -> None:
    """Closing takes no call back; a thread from before ends when nothing waits, and a later call gets a new one."""
    pool, source = AcquirerPool(1), HangingSource(1.0)
    running = pool.submit(source, None)
    wait_until(lambda: source.entered, "the call runs")
    waiting = pool.submit(len, "waits")
    pool.close()
    source.release_event.set()
    assert (running.result(60), waiting.result(60)) == (1.0, 5)
    wait_until(lambda: pool.counts.threads == 0, "the thread ends")
    assert pool.submit(len, "again").result(60) == 5
    pool.close()


def test_a_copy_of_a_closed_cascade_is_open() -> None:
    """A pickle holds what makes a cascade, not its state: another process opens its own."""
    cascade = Cascade(sample_bundle())
    cascade.close()
    with pickle.loads(pickle.dumps(cascade)) as copy:
        assert copy.decide(ITEM).label == "spam"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_closes_for_itself(folder: Path) -> None:
    """A worker that closes what it inherited ends well, and its parent goes on deciding."""
    with ReloadingCascade(folder, period_s=600.0) as cascade:
        cascade.decide(ITEM)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                cascade.decide(ITEM)
                cascade.close()
                try:
                    cascade.decide(ITEM)
                except ClosedError:
                    status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert cascade.decide(ITEM).label == "spam"


def test_nothing_is_put_in_service_after_closing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refresh that is under way when the cascade is closed ends first, and what it took up is closed too."""
    cascade = ReloadingCascade(folder)
    reading, release_event = threading.Event(), threading.Event()
    read = reload_module.read_bundle

    def slow(path: Any, *, verify: Any = None) -> Any:
        reading.set()
        assert release_event.wait(60)
        return read(path, verify=verify)

    monkeypatch.setattr(reload_module, "read_bundle", slow)
    new = make_bundle([["size"]])
    write_bundle(folder, new.manifest, new.models, force=True)
    refreshing = threading.Thread(target=cascade.refresh)
    refreshing.start()
    assert reading.wait(60)
    closing = threading.Thread(target=cascade.close)
    closing.start()
    release_event.set()
    refreshing.join(60)
    closing.join(60)
    assert cascade.manifest.id == new.manifest.id
    with pytest.raises(ClosedError):
        cascade.decide(ITEM)


def test_an_observer_may_close_while_the_watching_thread_looks(folder: Path) -> None:
    """A reload that was asked for notifies an observer, which closes: the watching thread does not wait for it meanwhile."""

    class Closing:
        def __call__(self, decision: Decision) -> None: ...

        def on_reload(self, before: Manifest, after: Manifest) -> None:
            # Long enough for several looks of the watching thread.
            time.sleep(0.2)
            cascade.close()

    def reload() -> None:
        # Written under the lock, so that it is this thread that takes it up.
        with cascade._refresh_lock:
            write_bundle(folder, new.manifest, new.models, force=True)
            cascade.refresh()
        ended.set()

    ended = threading.Event()
    cascade = ReloadingCascade(folder, observers=[Closing()], period_s=0.01)
    new = make_bundle([["size"]])
    threading.Thread(target=reload, daemon=True).start()
    assert ended.wait(20)
    with pytest.raises(ClosedError):
        cascade.decide(ITEM)


def test_what_is_taken_up_while_its_own_thread_closes_is_closed(folder: Path) -> None:
    """A reload during which its own thread closes, as a signal handler or an observer does, puts nothing in service."""

    class Closing:
        def __call__(self, decision: Decision) -> None: ...

        def on_bind(self, manifest: Manifest) -> None:
            if manifest.id == new.manifest.id:
                cascade.close()

    new = make_bundle([["size"]])
    cascade = ReloadingCascade(folder, observers=[Closing()])
    write_bundle(folder, new.manifest, new.models, force=True)
    cascade.refresh()
    with pytest.raises(ClosedError):
        cascade.decide(ITEM)
    with pytest.raises(ClosedError):
        cascade.refresh()
