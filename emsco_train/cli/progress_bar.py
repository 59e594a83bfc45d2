"""How far a count is: a bar on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Self, TextIO

__all__ = ["ProgressBar"]


class ProgressBar:
    """Shows how many things are done; unlike `emsco_train.search.progress`, it loads nothing of a search.

    Writes to standard error unless a stream is given. `every_s` is the time between plain lines, in seconds.

    Examples
    --------
    >>> with ProgressBar("items", sys.stdout, every_s=0.0, clock=lambda: 0.0) as bar:
    ...     bar.show(50, 200)
    25 % of 200 items
    """

    def __init__(
        self, what: str, stream: TextIO | None = None, *, every_s: float = 2.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what, self._stream = what, sys.stderr if stream is None else stream
        self._every_s, self._clock = every_s, clock
        self._last_shown_s = clock()
        self._bar: Any = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the bar on the screen as it is."""
        if self._bar is not None:
            self._bar.close()

    def show(self, done: int, total: int) -> None:
        """Show how many things of how many are done."""
        if self._stream.isatty():
            self._bar = self._bar or _make_bar(self._what, total, self._stream)
            self._bar.update(done - self._bar.n)
            return
        now = self._clock()
        if now - self._last_shown_s >= self._every_s:
            self._last_shown_s = now
            print(f"{100 * done // total} % of {total:,} {self._what}", file=self._stream, flush=True)


def _make_bar(what: str, total: int, stream: TextIO) -> Any:
    from tqdm import tqdm  # noqa: PLC0415 - only terminals need it

    class Bar(tqdm):  # type: ignore[misc,type-arg,unused-ignore] # has no types
        # Its thread that watches for slow bars would be counted as CPU time of what is measured.
        monitor_interval = 0

    return Bar(total=total, file=stream, unit=f" {what}", dynamic_ncols=True)
