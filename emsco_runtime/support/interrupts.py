"""Ctrl-C while threads work, and SIGTERM, which ends a command as Ctrl-C does.

Python raises KeyboardInterrupt between any two lines, those of `concurrent.futures` and `threading` too. There it may leave a
lock taken that a worker then waits for forever, or be dropped with the weak reference that was just cleared: of a hundred
searches, one ignored its Ctrl-C, or never ended. So it is deferred until the threads have ended.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

__all__ = ["defer_interrupts", "terminate_as_interrupt"]

_DEFAULT_HANDLER = signal.default_int_handler


@contextmanager
def defer_interrupts(stop: NDArray[np.int64]) -> Iterator[None]:
    """Defer Ctrl-C until the block has ended, and raise it then; an error of the block itself takes precedence.

    Ctrl-C sets `stop[0]` to 1 at once: threads and compiled code poll it and end early. It is an array since a signal handler
    must not wait for a lock. Only the main thread gets interrupts, and only Python's own handler raises them: in other threads,
    and where the program has a handler of its own, nothing is changed.

    Examples
    --------
    >>> before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    >>> stop = np.zeros(1, dtype=np.int64)
    >>> try:
    ...     with defer_interrupts(stop):
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("the block ends first, and can see it:", stop[0])
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    the block ends first, and can see it: 1
    interrupted
    >>> _ = signal.signal(signal.SIGINT, before)
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not _DEFAULT_HANDLER:
        yield
        return
    interrupted = False

    def handle_interrupt(_signum: int, _frame: object) -> None:
        nonlocal interrupted
        interrupted = True
        stop[0] = 1

    signal.signal(signal.SIGINT, handle_interrupt)
    try:
        with _signals_noticed(stop):
            yield
    finally:
        # `signal.signal` runs pending handlers first, so an interrupt that has come by now is noted.
        signal.signal(signal.SIGINT, _DEFAULT_HANDLER)
    if interrupted:
        raise KeyboardInterrupt


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """Let SIGTERM, by which schedulers and containers end a process, do in this block what Ctrl-C does.

    A search then writes what it has found, and no temporary file is left behind. Nothing is changed in other threads, where the
    program handles SIGTERM itself, and where Ctrl-C is ignored, as by a shell's background jobs.

    Examples
    --------
    >>> before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    >>> try:
    ...     with terminate_as_interrupt():
    ...         signal.raise_signal(signal.SIGTERM)
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    interrupted
    >>> _ = signal.signal(signal.SIGINT, before)
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    is_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if not in_main_thread or not is_default:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(_signum: int, _frame: object) -> None:
    # Not by KeyboardInterrupt itself: a block that defers Ctrl-C defers this, too.
    signal.raise_signal(signal.SIGINT)


@contextmanager
def _signals_noticed(stop: NDArray[np.int64]) -> Iterator[None]:
    """Set `stop` from a thread as soon as an interrupt comes.

    Python runs its handlers between two lines of the main thread, and so not while that is in compiled code; but it writes the
    number of a signal to a pipe at once.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch_signals, args=(reading, stop), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)
        watcher.join()
        os.close(reading)


def _watch_signals(pipe: int, stop: NDArray[np.int64]) -> None:
    while numbers := os.read(pipe, 64):
        if signal.SIGINT in numbers or (signal.SIGTERM in numbers and signal.getsignal(signal.SIGTERM) is _interrupt):
            stop[0] = 1
