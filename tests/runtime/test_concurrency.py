"""Threads, forked and spawned children, pickled copies: all decide as one thread does."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from emsco_runtime import Acquirers, Cascade
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.support.fork import Process
from emsco_runtime.testing import make_bundle, sample_bundle

pytestmark = pytest.mark.uncounted

NAMES = [f"f{index}" for index in range(15)]
Outcome = tuple[object, ...]


def first(item: list[float]) -> float:
    """Return one feature of an item; at the top level of the module, so that it can be pickled."""
    return item[0]


def rest(item: list[float]) -> list[float]:
    """Return the other features."""
    return item[1:]


def cascade() -> Cascade:
    """Make a cascade of three stages with acquirers that can be pickled."""
    acquirers = Acquirers()
    acquirers.feature(NAMES[0])(first)
    acquirers.features(*NAMES[1:])(rest)
    return Cascade(make_bundle([NAMES[:4], NAMES[4:9], NAMES[9:]], threshold=0.85, seed=3), acquirers)


def item_rows(count: int) -> list[list[float]]:
    """Return items that leave at different stages."""
    rows: list[list[float]] = np.random.default_rng(5).normal(size=(count, 15)).tolist()
    return rows


def decide_all(subject: Cascade, rows: list[list[float]]) -> list[Outcome]:
    """Decide all rows and return everything of the decisions but the time they took."""
    decisions = [subject.decide(row) for row in rows]
    return [(one.status, one.reason, one.label, one.confidence, one.stages, one.cost, one.trace) for one in decisions]


def test_eight_threads_decide_as_one() -> None:
    """Eight threads with 2,000 decisions each on one cascade, at the same time: every one equal to the single-thread one."""
    subject, rows = cascade(), item_rows(1000)
    reference = decide_all(subject, rows)
    assert {stages for _, _, _, _, stages, _, _ in reference} == {1, 2, 3}
    start = threading.Barrier(8)

    def work(thread: int) -> int:
        start.wait()
        shift = thread * 125
        order = rows[shift:] + rows[:shift]
        expected = reference[shift:] + reference[:shift]
        return sum(decide_all(subject, order) != expected for _ in range(2))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [0] * 8


def _child(subject: Cascade, rows: list[list[float]], queue: multiprocessing.Queue[list[Outcome]]) -> None:
    queue.put(decide_all(subject, rows))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_a_child_process_decides_as_its_parent(method: str) -> None:
    """A cascade used before the fork, or pickled into a spawned child, decides there as it does here."""
    subject, rows = cascade(), item_rows(200)
    reference = decide_all(subject, rows)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_child, args=(subject, rows, queue))
    child.start()
    assert queue.get(timeout=60) == reference
    child.join(60)
    assert child.exitcode == 0
    assert decide_all(subject, rows) == reference


def test_a_forked_child_makes_sessions_of_its_own() -> None:
    """Sessions carry the process that made them: the child does not touch the parent's."""
    subject = cascade()
    decide_all(subject, item_rows(3))
    scorer = subject._scorer
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            before = dict(scorer._sessions)
            decide_all(subject, item_rows(3))
            fresh = set(scorer._sessions) - set(before)
            os.write(write, b"own" if [process for process, _ in fresh] == [os.getpid()] else b"shared")
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b"own"
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [process for process, _ in scorer._sessions] == [os.getpid()]


def test_a_fork_renews_the_id_of_the_process() -> None:
    """The fork hook asks the kernel again and counts: a child never takes an inherited session for its own."""
    process = Process()
    before = process.id
    process._update_id()
    assert before == (os.getpid(), 0)
    assert process.id == (os.getpid(), 1)


def test_a_fork_while_other_threads_decide() -> None:
    """A child forked in the middle of the work of other threads neither hangs nor errs."""
    subject, rows = cascade(), item_rows(100)
    reference = decide_all(subject, rows)
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            decide_all(subject, rows)

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    status = 0 if decide_all(subject, rows) == reference else 2
                finally:
                    os._exit(status)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_pickled_copy_decides_the_same() -> None:
    """Pickling keeps bundle, acquirers and policy; the copy checks everything again when it is made."""
    subject, rows = cascade(), item_rows(200)
    copy = pickle.loads(pickle.dumps(subject))
    assert decide_all(copy, rows) == decide_all(subject, rows)
    assert copy.manifest == subject.manifest


def test_a_pickled_copy_without_acquirers_reads_mappings() -> None:
    """A cascade for mappings can be pickled too, with its policy."""
    copy = pickle.loads(pickle.dumps(Cascade(sample_bundle(), on_failure="reject")))
    assert copy.decide({}).reason == "acquisition_failed"


def test_batch_scores_of_one_thread_do_not_disturb_another() -> None:
    """`score` and `score_rows` from many threads at once give the single-thread numbers."""
    bundle = make_bundle([NAMES], seed=1)
    scorer = Scorer.from_bundle(bundle)
    matrix = np.random.default_rng(0).normal(size=(64, 15))
    alone = [scorer.score(0, row) for row in matrix.tolist()]
    batch = scorer.score_rows(0, matrix)

    def work(thread: int) -> bool:
        same = all(scorer.score(0, row) == expected for row, expected in zip(matrix.tolist(), alone, strict=True))
        return same and bool((scorer.score_rows(0, matrix) == batch).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(64)))
