"""What the commands share: one clear line when something cannot be done."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence

__all__ = ["columns", "describe_failure", "run_command"]


def run_command(name: str, work: Callable[[], None]) -> int:
    """Run a command's work and return its exit status: 0 done, 1 it cannot be done, 130 interrupted.

    SIGTERM, by which systemd ends a command, does what Ctrl-C does: working folders are removed.

    Parameters
    ----------
    name
        The command, for the message.
    work
        Does everything after the arguments were parsed.
    """
    from emsco_runtime import EmscoError  # noqa: PLC0415 - after the arguments: --help must answer at once
    from emsco_runtime.support.interrupts import terminate_as_interrupt  # noqa: PLC0415

    # A name that the terminal cannot show must not end in a traceback.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with terminate_as_interrupt():
            work()
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has gone. Python's own flush at the end must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (EmscoError, OSError) as error:
        print(f"{name}: {describe_failure(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    return 0


def describe_failure(error: Exception) -> str:
    """Return what ended a command: of an error of the system the file and what is wrong, without its number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lay out text in columns: the first flush left, the others flush right.

    Examples
    --------
    >>> columns([["", "spam"], ["in truth ham", "1"]])
    ['              spam', 'in truth ham     1']
    """
    first, *others = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join([line[0].ljust(first), *(text.rjust(width) for text, width in zip(line[1:], others, strict=True))])
        for line in lines
    ]
