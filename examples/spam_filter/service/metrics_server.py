"""Answers Prometheus, in a thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server

from spam_filter.service.endpoint import Endpoint
from spam_filter.service.listeners import print_line
from spam_filter.service.settings import SettingsError

__all__ = ["metrics_server"]


@contextmanager
def metrics_server(where: Endpoint | None, registry: CollectorRegistry) -> Iterator[None]:
    """Answer while the block runs; nowhere if there is no endpoint.

    Raises
    ------
    SettingsError
        If the address cannot be used.
    """
    if where is None:
        yield
        return
    try:
        server, _ = start_http_server(where.port, where.host, registry)
    except OSError as error:
        raise SettingsError(f"metrics: {where} cannot be used: {error.strerror}; choose another") from error
    print_line(f"metrics on {Endpoint(where.host, server.server_port)}")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
