"""`ModelWatch`: notices that the files of the model in service were changed, which alone changes no decision.

The model is held in memory. What lies in its folder takes effect when the service is asked to reload, or started again; an
administrator should know before that the two differ.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from prometheus_client import Gauge

__all__ = ["ModelWatch", "WatchedModel"]

_PERIOD_S: Final = 2.0
_log = logging.getLogger("spam_filter")


class WatchedModel(Protocol):
    """What is needed of a model."""

    def find_change(self) -> str | None:
        """Return the name of a file that is not the one in service; None if there is none."""


class ModelWatch:
    """Looks at the files of a model now and then.

    Parameters
    ----------
    model
        The model in service.
    changed
        Set to 1 while the files differ from what is in service.
    period_s
        Time between two looks.
    """

    def __init__(self, model: WatchedModel, changed: Gauge, period_s: float = _PERIOD_S) -> None:
        self._model = model
        self._changed = changed
        self._period_s = period_s
        self._known: str | None = None
        changed.set(0)

    async def run(self) -> None:
        """Look until it is cancelled."""
        while True:
            await asyncio.sleep(self._period_s)
            await self.look()

    async def look(self) -> None:
        """Look once: log a change when it is first seen."""
        found = await asyncio.to_thread(self._model.find_change)
        if found is not None and found != self._known:
            _log.warning("%s was changed on the disk: the model in memory stays in service until a reload (SIGHUP)", found)
        self._known = found
        self._changed.set(found is not None)
