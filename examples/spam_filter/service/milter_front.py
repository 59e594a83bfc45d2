"""`MilterFront`: the service as mail servers see it that ask it within their own conversations, by the milter protocol."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from emsco_runtime.pool import AcquirerPool
from spam_filter.service.metrics import ServiceMetrics
from spam_filter.service.milter import Milter
from spam_filter.service.settings import MilterSettings
from spam_filter.service.verdict_pool import VerdictPool

__all__ = ["MilterFront"]

_log = logging.getLogger("spam_filter")


class MilterFront:
    """Serves connections of mail servers.

    Parameters
    ----------
    settings
        Checked settings.
    verdicts
        Decides.
    measures
        Counts.
    """

    def __init__(self, settings: MilterSettings, verdicts: VerdictPool, measures: ServiceMetrics) -> None:
        self._settings = settings
        self._verdicts = verdicts
        self._measures = measures
        self._open: dict[asyncio.Task[None], Milter] = {}
        self.pools: Mapping[str, AcquirerPool] = {}

    def __len__(self) -> int:
        """Return how many mail servers are connected."""
        return len(self._open)

    def protocol(self) -> asyncio.BaseProtocol:
        """Return what serves one more connection."""
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._serve)

    async def stop(self, seconds: float) -> int:
        """Answer messages whose end has come, close all connections; return how many were not answered in `seconds` seconds."""
        busy = [milter for milter in self._open.values() if not milter.idle.is_set()]
        if busy:
            await asyncio.wait([asyncio.ensure_future(milter.idle.wait()) for milter in busy], timeout=seconds)
        left = sum(not milter.idle.is_set() for milter in busy)
        for task in tuple(self._open):
            task.cancel()
        if self._open:
            await asyncio.wait(tuple(self._open), timeout=1.0)
        return left

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._open) >= self._settings.max_connections:
            # The mail server does what it is set to do when we are away.
            _log.warning("a connection of the mail server is closed: %d are open", len(self._open))
            self._measures.refused.labels("connections").inc()
            writer.close()
            return
        milter = Milter(self._verdicts, self._measures, self._settings.max_bytes, self._settings.on_error)
        self._open[task] = milter
        self._measures.connections.set(len(self._open))
        try:
            await milter.serve(reader, writer)
        except asyncio.CancelledError:
            # We stop: the mail server sees that the connection is closed, and keeps what it has.
            writer.close()
        finally:
            del self._open[task]
            self._measures.connections.set(len(self._open))
