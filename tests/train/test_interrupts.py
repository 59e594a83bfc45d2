"""Ctrl-C while threads work: it is never lost, nothing hangs, and no thread continues."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from emsco_runtime.support.interrupts import defer_interrupts, terminate_as_interrupt

pytestmark = pytest.mark.uncounted

# Interrupts a work in threads at random moments. If one is lost, the process ends after a while and prints where each thread is.
COUNT = """
import faulthandler, signal, threading
import numpy as np
{work}
rng = np.random.default_rng(1)
# Where the tests themselves run in the background, interrupts are ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
faulthandler.dump_traceback_later(100, exit=True)
work()
for _ in range({times}):
    try:
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, {seconds}))
        while True:
            work()
    except KeyboardInterrupt:
        assert threading.active_count() == 1, threading.enumerate()
print("all came out")
"""
FITS = """
from emsco_train.models.logistic.regression import LogisticProblem
rows = np.random.default_rng(0).normal(size=(30, 4))
problem = LogisticProblem(rows, (rows[:, 0] + rows[::-1, 1] > 0).astype(np.intp), 2)
sets = np.arange(32)[:, None] >> np.arange(4) & 1 > 0
work = lambda: problem.fit(sets, workers=2)
"""
FRONT = """
from emsco_train.search.exact.set_bits import SetBits
from emsco_train.search.exact.exact_front import enumerate_front
sure, hit = np.random.default_rng(0).integers(0, 2**64, (2, 2**7, 1), dtype=np.uint64)
bits = SetBits(sure, sure & hit, np.array([mask.bit_count() for mask in range(2**7)]), rows=64)
work = lambda: enumerate_front(bits, 7, max_stages=4, jobs=2)
"""


@pytest.fixture
def handler() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt, however the tests were started."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("work", "seconds"), [(FITS, 3e-3), (FRONT, 1e-2)], ids=["fits", "exact front"])
def test_every_interrupt_comes_out(work: str, seconds: float) -> None:
    """Two hundred at random moments: without deferring, one of them is lost, or waits for a lock forever."""
    script = COUNT.format(work=work, times=200, seconds=seconds)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200, check=False)
    assert (ended.returncode, ended.stdout) == (0, "all came out\n"), ended.stderr
    assert ended.stderr == ""


@pytest.mark.usefixtures("handler")
def test_many_are_one() -> None:
    """Pressing Ctrl-C again and again interrupts once, when the block has ended."""
    stop, done = np.zeros(1, dtype=np.int64), []

    def block() -> None:
        with defer_interrupts(stop):
            for number in range(3):
                signal.raise_signal(signal.SIGINT)
                done.append(number)

    with pytest.raises(KeyboardInterrupt):
        block()
    assert done == [0, 1, 2]
    assert stop[0] == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("handler")
def test_an_error_goes_first() -> None:
    """The block's own error is raised, and the next Ctrl-C works as before."""

    def block() -> None:
        with defer_interrupts(np.zeros(1, dtype=np.int64)):
            signal.raise_signal(signal.SIGINT)
            raise ValueError("the block's own")

    with pytest.raises(ValueError, match="the block's own"):
        block()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("handler")
def test_a_program_with_its_own_handler() -> None:
    """A service that does something else on Ctrl-C does so at once, and the work continues: nothing is cut short silently."""
    received: list[int] = []
    own = signal.signal(signal.SIGINT, lambda signum, _: received.append(signum))
    stop = np.zeros(1, dtype=np.int64)
    with defer_interrupts(stop):
        signal.raise_signal(signal.SIGINT)
        assert received == [signal.SIGINT]
    assert stop[0] == 0
    signal.signal(signal.SIGINT, own)


@pytest.mark.usefixtures("handler")
def test_another_thread_than_the_main_one() -> None:
    """There, where Python allows no handlers, the block runs as it would without."""
    ran: list[bool] = []

    def block() -> None:
        with defer_interrupts(np.zeros(1, dtype=np.int64)):
            ran.append(signal.getsignal(signal.SIGINT) is signal.default_int_handler)

    thread = threading.Thread(target=block)
    thread.start()
    thread.join()
    assert ran == [True]


# SIGTERM


@pytest.mark.usefixtures("handler")
def test_sigterm_is_deferred_as_ctrl_c_is() -> None:
    """SIGTERM during work in threads: the work is told to end, and is interrupted when its block has ended."""
    stop, done = np.zeros(1, dtype=np.int64), []

    def command() -> None:
        with terminate_as_interrupt():
            with defer_interrupts(stop):
                signal.raise_signal(signal.SIGTERM)
                done.append(int(stop[0]))
            done.append(-1)

    with pytest.raises(KeyboardInterrupt):
        command()
    assert done == [1]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures("handler")
def test_sigterm_of_a_background_job_is_deferred_too() -> None:
    """Where a shell lets a job ignore Ctrl-C, SIGTERM alone interrupts it, and not before its threads have ended."""
    stop, done = np.zeros(1, dtype=np.int64), []
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def command() -> None:
        with terminate_as_interrupt():
            with defer_interrupts(stop):
                signal.raise_signal(signal.SIGINT)
                done.append(int(stop[0]))
                signal.raise_signal(signal.SIGTERM)
                done.append(int(stop[0]))
            done.append(-1)

    with pytest.raises(KeyboardInterrupt):
        command()
    signal.signal(signal.SIGINT, before)
    assert done == [0, 1]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures("handler")
def test_a_program_with_its_own_handler_of_sigterm() -> None:
    """A service that ends in its own way on SIGTERM does so; a search in it is not cut short."""
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda signum, _: received.append(signum))
    stop = np.zeros(1, dtype=np.int64)
    with terminate_as_interrupt(), defer_interrupts(stop):
        signal.raise_signal(signal.SIGTERM)
    assert (received, stop[0]) == ([signal.SIGTERM], 0)
    signal.signal(signal.SIGTERM, before)
