"""`SmtpFront`: the service as mail servers see it that hand over their mail by SMTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from emsco_runtime.pool import AcquirerPool
from spam_filter.service.connection import Connection, Connections, RefusedConnection
from spam_filter.service.delivery import make_delivery
from spam_filter.service.handler import Handler
from spam_filter.service.metrics import ServiceMetrics
from spam_filter.service.refusals import Refusals
from spam_filter.service.settings import Settings
from spam_filter.service.verdict_pool import VerdictPool

__all__ = ["SmtpFront"]


class SmtpFront:
    """Accepts messages by SMTP, and hands them on.

    Parameters
    ----------
    settings
        Checked settings.
    verdicts
        Decides.
    measures
        Counts.

    Raises
    ------
    SettingsError
        If the Maildir cannot be used.
    """

    def __init__(self, settings: Settings, verdicts: VerdictPool, measures: ServiceMetrics) -> None:
        self._settings = settings
        self._connections = Connections(measures.connections.set)
        self._refusals = Refusals(measures.refused)
        # One for each client: all of them may wait for the disk or the next hop.
        deliverers = AcquirerPool(settings.max_connections)
        self.pools: Mapping[str, AcquirerPool] = {"delivery": deliverers}
        self._handler = Handler(verdicts, make_delivery(settings), deliverers, measures)

    def __len__(self) -> int:
        """Return how many clients are connected."""
        return len(self._connections)

    def protocol(self) -> asyncio.Protocol:
        """Return what serves one more client, or refuses it."""
        if len(self._connections) >= self._settings.max_connections:
            return RefusedConnection(self._refusals)
        return Connection(self._handler, self._settings, self._connections, self._refusals)

    async def stop(self, seconds: float) -> int:
        """Close idle connections, wait for the others and for deliveries; return how many are left after `seconds` seconds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        await self._connections.stop(seconds)
        deliveries = await self._handler.finish(max(0.0, end - loop.time()))
        return max(len(self._connections), deliveries)
