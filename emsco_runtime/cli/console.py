"""What the commands share: one clear line for an error, tables, progress."""

from __future__ import annotations

import argparse
import csv
import io
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TextIO

from emsco_runtime.errors import EmscoError
from emsco_runtime.support.formatting import escape_controls

if TYPE_CHECKING:
    from emsco_runtime.bundle.manifest import CostSummary

__all__ = ["OneLineParser", "RowProgress", "add_verify_option", "format_costs", "format_number", "format_table", "run_command"]

_LONGEST_FIELD = 2**31 - 1


class OneLineParser(argparse.ArgumentParser):
    """An argument parser that does not print its usage before an error: with many options, that buries the error."""

    def error(self, message: str) -> NoReturn:
        """Print in one line what is wrong, and exit with status 2."""
        option = re.match(r"argument (--[\w-]+): expected one argument", message)
        if option is not None:
            # What begins so is taken for an option, unless it is one number.
            message += f"; one that begins with a dash is given as {option[1]}=VALUE"
        self.exit(2, f"{self.prog}: {' '.join(message.split())}. See {self.prog} --help\n")


def run_command(name: str, action: Callable[[], None]) -> int:
    """Run what a command does after its arguments were parsed, and return its exit status: 0 on success, 1 on an error.

    An error is printed in one line that starts with the name of the command.
    """
    # A name that the terminal cannot show must not end in a traceback. Python has no stdout at all where it was closed.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    # Text may be long, as it may where pyarrow reads it; the csv module stops at 131,072 characters.
    csv.field_size_limit(_LONGEST_FIELD)
    from emsco_runtime.support.interrupts import terminate_as_interrupt  # noqa: PLC0415 - heavy, and --help does not need it

    try:
        with terminate_as_interrupt():
            action()
        if sys.stdout is not None:
            sys.stdout.flush()
    except EmscoError as error:
        # Some messages are lists, in several lines.
        print("\n".join(map(escape_controls, f"{name}: {error}".split("\n"))), file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader (head, less) has gone, which is not our error. Python's own flush at exit must not complain either.
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


def add_verify_option(parser: argparse.ArgumentParser) -> None:
    """Add `--verify`, which all commands that read a bundle have."""
    parser.add_argument(
        "--verify",
        metavar="KEY",
        help="refuse the bundle unless it is signed with the private key of this public key, a PEM file (see emsco-sign)",
    )


def format_number(value: float) -> str:
    """Return a cost as people write it: whole numbers without a point, others with up to six digits.

    Examples
    --------
    >>> format_number(28.0), format_number(12.3456789)
    ('28', '12.3457')
    """
    return f"{value:.6g}"


def format_costs(cost: CostSummary) -> str:
    """Return the quantiles of costs per item."""
    return f"p50 {format_number(cost.p50)}, p95 {format_number(cost.p95)}, max {format_number(cost.max)}"


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out text in columns; columns of numbers are right-aligned. Each row is one line, whatever is in its texts.

    Examples
    --------
    >>> print(format_table(["stage", "cost"], [["one", "1"], ["two", "12.5"]]))
    stage  cost
    -----  ----
    one       1
    two    12.5
    """
    columns = [list(map(escape_controls, column)) for column in zip(header, *rows, strict=True)]
    for column in columns:
        width = max(map(len, column))
        is_numeric = all(text[:1].isdigit() or text in ("", "-") for text in column[1:])
        column.insert(1, "-" * width)
        column[:] = [text.rjust(width) if is_numeric else text.ljust(width) for text in column]
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


class RowProgress:
    """Rows done so far: one line that is overwritten on a terminal, a plain line every `every_s` seconds elsewhere."""

    def __init__(self, stream: TextIO | None = None, every_s: float = 2.0) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._every_s = 0.1 if self._terminal else every_s
        self._started = self._last = time.monotonic()

    def show(self, rows_done: int) -> None:
        """Print how many rows are done, unless that was printed a moment ago."""
        now = time.monotonic()
        if now - self._last < self._every_s:
            return
        self._last = now
        rate = f"{rows_done:,} rows, {rows_done / (now - self._started):,.0f} rows/s"
        print(f"\r{rate} " if self._terminal else rate, end="" if self._terminal else "\n", file=self._stream, flush=True)

    def close(self) -> None:
        """Clear the line on a terminal."""
        if self._terminal:
            print("\r\x1b[K", end="", file=self._stream, flush=True)
