"""Warnings as one line each on standard error, as users of a command expect them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from emsco_train.cli.option_names import OptionNames

__all__ = ["print_warnings"]


@contextmanager
def print_warnings(command: str, options: OptionNames) -> Iterator[None]:
    """Write each warning once, as one line that begins with the command's name.

    Parameters
    ----------
    command
        Its name.
    options
        Its options, by which it calls the arguments of the library.
    """
    seen: set[str] = set()

    def show(
        message: Warning | str,
        category: type[Warning],  # noqa: ARG001 - Python's signature; the words are enough for users of a command
        filename: str,  # noqa: ARG001
        lineno: int,  # noqa: ARG001
        file: TextIO | None = None,  # noqa: ARG001
        line: str | None = None,  # noqa: ARG001
    ) -> None:
        text = options.translate(" ".join(str(message).split()))
        if text not in seen:
            seen.add(text)
            print(f"{command}: warning: {text}", file=sys.stderr, flush=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        # What Python, too, keeps from users: these are for the authors of the libraries below us.
        for ignored in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", ignored)
        warnings.showwarning = show
        yield
