"""Ctrl-C while threads work, and SIGTERM, which ends a command as Ctrl-C does.

Python raises KeyboardInterrupt between any two lines, those of `concurrent.futures` and `threading` too. There it may leave a
lock taken that a worker then waits for forever, or be dropped with the weak reference that was just cleared: of a hundred
searches, one ignored its Ctrl-C, or never ended. So it is deferred until the threads have ended.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

__all__ = ["defer_interrupts", "terminate_as_interrupt"]

_DEFAULT_HANDLER = signal.default_int_handler


@contextmanager
def defer_interrupts(stop: NDArray[np.int64]) -> Iterator[None]:
    """Defer Ctrl-C until the block has ended, and raise it then; an error of the block itself takes precedence.

    Ctrl-C sets `stop[0]` to 1 at once: threads and compiled code poll it and end early. It is an array since a signal handler
    must not wait for a lock. So does SIGTERM in a block of `terminate_as_interrupt`. Only the main thread gets interrupts, and
    only Python's own handler raises them: in other threads, and where the program has a handler of its own, nothing is changed.

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
    number = _find_interrupt() if threading.current_thread() is threading.main_thread() else None
    if number is None:
        yield
        return
    before = signal.getsignal(number)
    interrupted = False

    def handle_interrupt(_signum: int, _frame: object) -> None:
        nonlocal interrupted
        interrupted = True
        stop[0] = 1

    noticed = {number, signal.SIGTERM} if signal.getsignal(signal.SIGTERM) is _interrupt else {number}
    signal.signal(number, handle_interrupt)
    try:
        with _signals_noticed(stop, noticed):
            yield
    finally:
        # `signal.signal` runs pending handlers first, so an interrupt that has come by now is noted.
        signal.signal(number, before)
    if interrupted:
        raise KeyboardInterrupt


def _find_interrupt() -> signal.Signals | None:
    """Return the signal that would raise KeyboardInterrupt: Ctrl-C, or where it is ignored SIGTERM; None if neither does."""
    if signal.getsignal(signal.SIGINT) is _DEFAULT_HANDLER:
        return signal.SIGINT
    is_terminated = signal.getsignal(signal.SIGTERM) is _interrupt and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return signal.SIGTERM if is_terminated else None


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """Let SIGTERM, by which schedulers and containers end a process, do in this block what Ctrl-C does.

    A search then writes what it has found, and no temporary file is left behind; also where Ctrl-C is ignored, as by a shell's
    background jobs. Nothing is changed in other threads, and where the program handles SIGTERM itself.

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
    if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(_signum: int, _frame: object) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        raise KeyboardInterrupt
    # Not by KeyboardInterrupt itself: a block that defers Ctrl-C defers this, too.
    signal.raise_signal(signal.SIGINT)


@contextmanager
def _signals_noticed(stop: NDArray[np.int64], numbers: Collection[int]) -> Iterator[None]:
    """Set `stop` from a thread as soon as one of these signals comes.

    Python runs its handlers between two lines of the main thread, and so not while that is in compiled code; but it writes the
    number of a signal to a pipe at once.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch_signals, args=(reading, stop, numbers), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)
        watcher.join()
        os.close(reading)


def _watch_signals(pipe: int, stop: NDArray[np.int64], numbers: Collection[int]) -> None:
    while came := os.read(pipe, 64):
        if any(number in came for number in numbers):
            stop[0] = 1
