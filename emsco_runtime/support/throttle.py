"""`Throttle`: the same trouble is reported once in a while, not every time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

__all__ = ["Throttle"]


class Throttle:
    """Limits how often each kind of report is made; callers in several threads hold a lock of their own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._allowed_at: dict[str, float] = {}

    def allows(self, kind: str, every_s: float) -> bool:
        """Return whether the last report of this kind was at least `every_s` seconds ago; if so, this is the last one now."""
        now = self._clock()
        if now - self._allowed_at.get(kind, -math.inf) < every_s:
            return False
        self._allowed_at[kind] = now
        return True
