"""What people see during long work: a bar on a terminal, plain lines now and then elsewhere, and one line about the end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from emsco_runtime.bundle.summary import pluralize
from emsco_train.search.genetic.evolution import Generation
from emsco_train.search.pace import Step
from emsco_train.search.searches import Outcome

__all__ = ["Progress", "ProgressStream"]

# Seconds between two updates of a bar, at least.
_REDRAW_S = 0.1
# The size of a terminal that does not report one.
_COLUMNS, _ROWS = 120, 24
_PHASES = {
    "seeds": ("greedy paths", "steps"),
    "first": ("first generation", "designs evaluated"),
    "polish": ("polish", "designs at most"),
    "upgrade": ("upgrade", "designs fitted again"),
    "fits": ("exact search", "feature sets fitted"),
    "designs": ("exact search", "designs visited"),
}


class ProgressStream(Protocol):
    """What progress is written to: standard error, or what stands for it."""

    def write(self, text: str, /) -> int:
        """Write some text."""

    def flush(self) -> None:
        """Bring it to the reader."""

    def isatty(self) -> bool:
        """Return whether it is a terminal."""

    def fileno(self) -> int:
        """Return the number of the open file."""


class _Update(NamedTuple):
    """How much of which phase is done, and the text to show."""

    phase: str
    done: int
    total: int
    text: str


class Progress:
    """Shows how far a search is.

    Pass its methods to `run_search` as `on_generation` and `on_progress`. On a terminal it updates a bar; elsewhere it writes a
    plain line every few seconds, and the last one in any case.

    Parameters
    ----------
    stream
        Where to write; standard error unless given.
    what
        Put before every line, such as the threshold that is searched at.
    time_limit
        Seconds that the search may take, if they are limited: the time left is never shown as longer.
    every_s
        Seconds between plain lines.
    clock
        Returns seconds.

    Examples
    --------
    >>> with Progress(sys.stdout, what="0.9", every_s=0.0, clock=lambda: 0.0) as progress:
    ...     progress.on_progress(Step("fits", 10, 40))
    ...     progress.on_progress(Step("designs", 100, 400, front=3))
    0.9: exact search, 25 % of 40 feature sets fitted
    0.9: exact search, 25 % of 400 designs visited, 3 designs on the front
    """

    def __init__(
        self,
        stream: ProgressStream | None = None,
        *,
        what: str = "",
        time_limit: float | None = None,
        every_s: float = 1.5,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._prefix = f"{what}: " if what else ""
        self._clock = clock
        self._bar: Any = None
        self._terminal = self._stream.isatty()
        self._every_s = _REDRAW_S if self._terminal else every_s
        self._started = self._shown_at = clock()
        self._deadline = None if time_limit is None else self._started + time_limit
        self._phase_started, self._phase_start_done = self._started, 0
        self._latest: _Update | None = None
        self._shown: _Update | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Show the last state, whatever ended the work."""
        self.close()

    def on_generation(self, generation: Generation) -> None:
        """Show a generation: its number, the size of its front and its best fitness.

        Parameters
        ----------
        generation
            As `run_search` reports it. The fitness shown is E, which can be compared between generations of similar cost.
        """
        summary = f"generation {generation.number} of {generation.most}, {_front_text(generation.front)}"
        self._update("generations", generation.number, generation.most, f"{summary}, best fitness {generation.performance:.4f}")

    def on_progress(self, step: Step) -> None:
        """Show a step: fits and designs of the exact search, designs of the first generation and of the polish.

        Parameters
        ----------
        step
            As `run_search` reports it.
        """
        name, things = _PHASES[step.phase]
        share = 100 * step.done // max(step.total, 1)
        front = "" if step.front is None else f", {_front_text(step.front)}"
        self._update(step.phase, step.done, step.total, f"{name}, {share} % of {step.total:,} {things}{front}")

    def ended(self, outcome: Outcome) -> None:
        """Write one line about how the search ended, and what it found.

        Parameters
        ----------
        outcome
            What `run_search` returned.
        """
        self.close()
        seconds = _duration(self._clock() - self._started)
        fits = pluralize(outcome.fits, "feature set")
        genes, features = outcome.genes.n, len(outcome.genes.of_feature)
        units = "" if genes == features else f" ({features} features in {pluralize(genes, 'unit')})"
        found = f"{_front_text(len(outcome.front))}, {outcome.designs:,} evaluated, {fits} fitted{units}, {seconds}"
        self._write(f"{_describe_end(outcome)}: {found}")

    def close(self) -> None:
        """Show the last state if it is not shown yet; a bar stays on the screen as it is."""
        if self._latest is not None and self._latest is not self._shown:
            self._show(self._latest)
        self._latest = None
        self._close_bar()

    def _update(self, phase: str, done: int, total: int, text: str) -> None:
        now = self._clock()
        if self._latest is None or phase != self._latest.phase:
            self._change_phase(now, done)
        self._latest = _Update(phase, done, total, text + self._time_left(now, done, total))
        if now - self._shown_at >= self._every_s:
            self._show(self._latest)

    def _change_phase(self, now: float, done: int) -> None:
        # A phase that was shown is shown to its end; one that was over in no time is not worth a line.
        last = self._latest
        if last is not None and self._shown is not None and self._shown.phase == last.phase and self._shown is not last:
            self._show(last)
        self._close_bar()
        self._phase_started, self._phase_start_done = now, done

    def _time_left(self, now: float, done: int, total: int) -> str:
        """Return the text for the time left; empty before there is a rate to estimate it by, and at the end."""
        if done >= total:
            return ""
        estimates = [] if self._deadline is None else [max(0.0, self._deadline - now)]
        elapsed, more = now - self._phase_started, done - self._phase_start_done
        if elapsed > 0 and more > 0:
            estimates.append(elapsed / more * (total - done))
        return f", about {_duration(min(estimates))} left" if estimates else ""

    def _show(self, update: _Update) -> None:
        self._shown, self._shown_at = update, self._clock()
        if not self._terminal:
            self._write(update.text)
            return
        if self._bar is None:
            self._bar = _bar(self._stream, self._prefix, update)
        self._bar.n, self._bar.total = min(update.done, update.total), update.total
        self._bar.ncols = _terminal_width(self._stream)
        self._bar.set_description_str(update.text, refresh=True)

    def _write(self, text: str) -> None:
        self._stream.write(f"{self._prefix}{text}\n")
        self._stream.flush()

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _bar(stream: ProgressStream, what: str, update: _Update) -> Any:
    """Return a new bar; the text is ours, the drawing is tqdm's."""
    from tqdm import tqdm  # noqa: PLC0415 - only terminals need it

    class Bar(tqdm):  # type: ignore[misc,type-arg,unused-ignore] # has no types
        # We draw on updates; tqdm's thread that watches for slow bars is not needed.
        monitor_interval = 0

    return Bar(
        total=update.total,
        file=stream,
        ncols=_terminal_width(stream),
        nrows=_ROWS,
        bar_format=f"{what.replace('{', '{{').replace('}', '}}')}{{percentage:3.0f}}%|{{bar:20}}| {{desc}}",
    )


def _terminal_width(stream: ProgressStream) -> int:
    """Return how many columns a terminal has; some report 0, or nothing."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _COLUMNS
    except OSError:
        return _COLUMNS


def _front_text(count: int) -> str:
    return f"{pluralize(count, 'design')} on the front"


def _duration(seconds: float) -> str:
    """Return a duration as people write it.

    Examples
    --------
    >>> _duration(0.04), _duration(8.26), _duration(75), _duration(7300)
    ('0.0 s', '8.3 s', '1 min 15 s', '2 h 01 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _describe_end(outcome: Outcome) -> str:
    """Return why a search ended, and whether the polish was cut short."""
    if outcome.polished in ("interrupted", "time") and outcome.stopped in ("interrupted", "time"):
        where = " during the polish"
    elif outcome.polished == "skipped":
        where = " before the polish"
    else:
        where = ""
    if outcome.stopped == "interrupted":
        return f"interrupted{where}, the front so far is kept"
    if outcome.stopped == "time":
        return f"time limit reached{where}, the front so far is kept"
    return "done"
