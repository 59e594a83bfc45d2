"""`StopFlag`: ends fits early, those in compiled code too, at Ctrl-C or when time is over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.interrupts import defer_interrupts

__all__ = ["FitStopped", "StopFlag"]


class FitStopped(Exception):
    """Time was over before a fit was done; nothing of it is kept."""


class StopFlag:
    """A number that compiled code looks at many times a second; not 0: end at once.

    Examples
    --------
    >>> flag = StopFlag()
    >>> with flag.set_after(0.0):
    ...     while not flag.array[0]:
    ...         pass
    ...     try:
    ...         with flag.stoppable():
    ...             pass
    ...     except FitStopped:
    ...         print("time was over")
    time was over
    >>> int(flag.array[0])
    0
    """

    def __init__(self) -> None:
        self.array: NDArray[np.int64] = np.zeros(1, dtype=np.int64)

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """Do work that looks at the flag: Ctrl-C sets it, and is raised after the work; `FitStopped` where time was over."""
        try:
            with defer_interrupts(self.array):
                yield
        except KeyboardInterrupt:
            # What follows, such as figures of the front so far, is fitted again.
            self.array[0] = 0
            raise
        if self.array[0]:
            raise FitStopped

    @contextmanager
    def set_after(self, seconds: float | None) -> Iterator[None]:
        """Set the flag after `seconds` seconds, unless the block has ended before; None: never."""
        if seconds is None:
            yield
            return
        timer = threading.Timer(seconds, self._set)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            self.array[0] = 0

    def _set(self) -> None:
        self.array[0] = 1
