"""`PhaseProgress`: shows what a command is doing whenever nothing else was shown for a moment: no command is silent for long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from emsco_train.support.phases import Phase

__all__ = ["PhaseProgress", "WatchedStream"]

# Seconds of silence until the phase is shown: on a terminal, where one line is written over, and elsewhere.
_TERMINAL_S, _PLAIN_S = 0.5, 1.75
_LOOK_EVERY_S = 0.2


class WatchedStream:
    """A stream of text that knows when it was last written to; a bar or a search writes its own progress to it."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self.last_written = clock()

    def write(self, text: str) -> int:
        """Write some text."""
        self.last_written = self._clock()
        return self._stream.write(text)

    def flush(self) -> None:
        """Bring it to the reader."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the number of the open file."""
        return self._stream.fileno()


class PhaseProgress:
    """A context in which phases are shown from a thread: a line every two seconds, or one that is overwritten on a terminal.

    Examples
    --------
    >>> with PhaseProgress(sys.stdout, clock=lambda: 3.0) as shown:
    ...     shown.on_phase(Phase("reading t.csv", 1, 4))
    ...     shown.show_if_silent(since=0.0)
    reading t.csv: 25 % of 4, 0 s
    """

    def __init__(self, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream = WatchedStream(sys.stderr if stream is None else stream, clock)
        self._clock = clock
        self._terminal = self.stream.isatty()
        self._phase: Phase | None = None
        self._since = clock()
        self._ended = threading.Event()
        self._overwritten = False
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        """Start to look."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop looking, and clear the line on a terminal."""
        self._ended.set()
        self._thread.join()
        if self._overwritten:
            self.stream.write("\r\x1b[K")
            self.stream.flush()

    def on_phase(self, phase: Phase) -> None:
        """Note what is being done; it is shown when nothing was for a while."""
        if self._phase is None or self._phase.name != phase.name:
            self._since = self._clock()
        self._phase = phase

    def show_if_silent(self, since: float | None = None) -> None:
        """Show the phase if nothing was written for a while; `since` says since when, if not since the last text."""
        phase, last = self._phase, self.stream.last_written if since is None else since
        if phase is None or self._clock() - last < (_TERMINAL_S if self._terminal else _PLAIN_S):
            return
        share = f": {100 * phase.done // phase.total} % of {phase.total:,}" if phase.total else ""
        text = f"{phase.name}{share}, {self._clock() - self._since:.0f} s"
        self._overwritten = self._terminal
        self.stream.write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")
        self.stream.flush()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            self.show_if_silent()
