"""What the training commands share: errors and warnings in one line each, which call arguments by the command's options."""

from __future__ import annotations

import argparse
import gc
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from emsco_runtime.cli.console import OneLineParser, run_command
from emsco_train.cli.option_names import OptionNames
from emsco_train.errors import DesignError

__all__ = ["TrainingParser", "infrequent_collections", "print_warnings", "run_training_command"]

# New objects before the collector looks for garbage; Python's own number is 700.
_COLLECTION_THRESHOLD = 100_000


class TrainingParser(OneLineParser):
    """The argument parser of a training command."""

    @contextmanager
    def usage_errors(self, options: argparse.Namespace) -> Iterator[None]:
        """Exit with status 2 on a `DesignError`: for checks of the options alone, which no data could make right."""
        try:
            yield
        except DesignError as error:
            self.error(OptionNames(options).translate(str(error)))


def run_training_command(name: str, options: argparse.Namespace, action: Callable[[], None], *, own_process: bool = False) -> int:
    """Run a command after its arguments were parsed, and return its exit status.

    Where the process is the command's own and ends with it, the garbage collector is tuned for that.
    """
    names = OptionNames(options)

    def translated_action() -> None:
        with names.translate_errors(), print_warnings(name, names):
            action()

    with infrequent_collections(enabled=own_process):
        return run_command(name, translated_action)


@contextmanager
def print_warnings(command: str, options: OptionNames) -> Iterator[None]:
    """Write each warning once to standard error, as one line that begins with the command's name."""
    seen: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        text = options.translate(" ".join(str(message).split()))
        if text not in seen:
            seen.add(text)
            print(f"{command}: warning: {text}", file=sys.stderr, flush=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        # Python hides these from users, too: they are for the authors of the libraries below us.
        for ignored in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", ignored)
        warnings.showwarning = show
        yield


@contextmanager
def infrequent_collections(*, enabled: bool) -> Iterator[None]:
    """Collect garbage rarely, and not at all as the process ends.

    Our dependencies load some hundred thousand objects that stay. A full collection of them takes a tenth of a second, and the
    last one, as the process ends, three tenths.
    """
    if enabled:
        gc.set_threshold(_COLLECTION_THRESHOLD, *gc.get_threshold()[1:])
    try:
        yield
    finally:
        if enabled:
            gc.freeze()
