"""A parser of arguments whose errors are one line, as all errors of the commands are."""

from __future__ import annotations

import argparse
from typing import NoReturn

__all__ = ["OneLineParser"]


class OneLineParser(argparse.ArgumentParser):
    """An argument parser that does not print its whole usage before an error: with forty options, that buries the error."""

    def error(self, message: str) -> NoReturn:
        """Say in one line what is wrong, and end with status 2."""
        self.exit(2, f"{self.prog}: {' '.join(message.split())}. See {self.prog} --help\n")
