"""Python's garbage collector in a command, whose process is its own.

Our dependencies load some hundred thousand objects that stay. A full collection of them takes a tenth of a second, and the last
one, as the process ends, three tenths.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["infrequent_collections"]

# New objects before the collector looks for garbage; Python's own number is 700.
_COLLECTION_THRESHOLD = 100_000


@contextmanager
def infrequent_collections(*, enabled: bool) -> Iterator[None]:
    """Collect garbage rarely, and not at all as the process ends.

    Parameters
    ----------
    enabled
        Whether this process runs one command and ends; where it goes on, as in a test, nothing changes.
    """
    if enabled:
        gc.set_threshold(_COLLECTION_THRESHOLD, *gc.get_threshold()[1:])
    try:
        yield
    finally:
        if enabled:
            gc.freeze()
