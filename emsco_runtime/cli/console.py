"""What the commands share: one clear line for an error, tables, progress."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

__all__ = ["CommandError", "RowProgress", "number", "run_command", "table"]


class CommandError(Exception):
    """The command cannot do what was asked; its text is the line the user reads."""


def run_command(name: str, action: Callable[[], None]) -> int:
    """Run a command's work and return its exit status: 0 done, 1 it cannot be done.

    Parameters
    ----------
    name
        The command, for the message.
    action
        Does everything after the arguments were parsed.
    """
    from emsco_runtime.errors import EmscoError  # noqa: PLC0415 - after the arguments: --help must answer at once

    # A name that the terminal cannot show must not end in a traceback. Python has no stdout at all where it was closed.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        action()
        if sys.stdout is not None:
            sys.stdout.flush()
    except (EmscoError, CommandError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader (head, less) has gone: not an error of ours. Python's own flush at exit must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"{name}: {place}{error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    return 0


def number(value: float) -> str:
    """Return a cost as people write it: whole numbers without a point, others with up to six digits.

    Examples
    --------
    >>> number(28.0), number(12.3456789)
    ('28', '12.3457')
    """
    return f"{value:.6g}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out text in columns; columns of figures are set flush right.

    Examples
    --------
    >>> print(table(["stage", "cost"], [["one", "1"], ["two", "12.5"]]))
    stage  cost
    -----  ----
    one       1
    two    12.5
    """
    widths = [max(len(line[column]) for line in (header, *rows)) for column in range(len(header))]
    right_aligned = [
        all(line[column][:1].isdigit() or line[column] in ("", "-") for line in rows) for column in range(len(header))
    ]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, right_aligned, strict=True)
        ).rstrip()
        for line in lines
    )


class RowProgress:
    """Rows done so far: a line that renews itself on a terminal, a plain line now and then elsewhere.

    Parameters
    ----------
    stream
        Where to write; standard error by default.
    every_s
        Seconds between plain lines.
    """

    def __init__(self, stream: TextIO | None = None, every_s: float = 10.0) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._every_s = 0.1 if self._terminal else every_s
        self._started = self._last = time.monotonic()

    def show(self, rows_done: int) -> None:
        """Tell how many rows are done, at most every so often."""
        now = time.monotonic()
        if now - self._last < self._every_s:
            return
        self._last = now
        rate = f"{rows_done:,} rows, {rows_done / (now - self._started):,.0f} rows/s"
        if self._terminal:
            print(f"\r{rate} ", end="", file=self._stream, flush=True)
        else:
            print(rate, file=self._stream, flush=True)

    def close(self) -> None:
        """Wipe the renewing line."""
        if self._terminal:
            print("\r\x1b[K", end="", file=self._stream, flush=True)
