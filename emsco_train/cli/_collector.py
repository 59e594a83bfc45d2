"""Python's garbage collector in a command, whose process is its own.

Our dependencies load some hundred thousand objects that stay. A full collection of them takes a tenth of a second, and the last
one, as the process ends, three tenths.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["rare_collections"]

# New objects before the collector looks for garbage; Python's own number is 700.
_OBJECTS = 100_000


@contextmanager
def rare_collections(*, wanted: bool) -> Iterator[None]:
    """Collect garbage rarely, and not at all as the process ends.

    Parameters
    ----------
    wanted
        Whether this process runs one command and ends; where it goes on, as in a test, nothing changes.
    """
    if wanted:
        gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    try:
        yield
    finally:
        if wanted:
            gc.freeze()
