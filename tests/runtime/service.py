"""A small service that decides over HTTP, for the tests of servers: plain for gunicorn, async for uvicorn.

POST /decide takes ``{"item": {...}}`` and answers with the decision; GET /metrics adds up all processes. The bundle's folder
comes from the environment. A value of an item that is the text "raise" makes its source raise.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from emsco_runtime import Acquirers
from emsco_runtime.serving.reloading import ReloadingCascade
from emsco_runtime.sources.breaker import CircuitBreaker
from emsco_runtime.sources.pool import AcquirerPool

FOLDER = "SERVICE_BUNDLE"
# Long enough that several workers are busy at the same time.
_WAIT_S = 0.003


def _read(item: Mapping[str, Any], name: str) -> Any:
    if item[name] == "raise":
        raise ConnectionError(f"{name} does not answer")
    return item[name]


def _size(item: Mapping[str, Any]) -> Any:
    return _read(item, "size")


def _links(item: Mapping[str, Any]) -> Any:
    time.sleep(_WAIT_S)
    return _read(item, "links")


def _reputation(item: Mapping[str, Any]) -> Any:
    time.sleep(_WAIT_S)
    return _read(item, "reputation")


async def _reputation_async(item: Mapping[str, Any]) -> Any:
    await asyncio.sleep(_WAIT_S)
    return _read(item, "reputation")


def acquirers(*, asynchronous: bool) -> Acquirers:
    """Return the registry: a value at hand, one from a thread with a timeout, and a remote one with a breaker."""
    made = Acquirers()
    made.feature("size", on_failure="reject")(_size)
    made.feature("links", on_failure="default", timeout_s=20.0)(_links)
    # This many failures in a row do not come: a breaker that opens would make answers depend on what went before.
    breaker = CircuitBreaker(failures=1000)
    made.feature("reputation", on_failure="reject", breaker=breaker)(_reputation_async if asynchronous else _reputation)
    return made


def _cascade(*, asynchronous: bool) -> ReloadingCascade:
    from emsco_runtime.observing.prometheus import Metrics

    return ReloadingCascade(
        os.environ[FOLDER],
        acquirers(asynchronous=asynchronous),
        pool=AcquirerPool(8),
        observers=[Metrics()],
        period_s=0.05,
    )


def _metrics() -> bytes:
    """Return the metrics of all processes, whichever is asked."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector

    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry)


def wsgi() -> Callable[[Mapping[str, Any], Callable[..., Any]], Iterable[bytes]]:
    """Make the plain service; with ``--preload`` that happens before the workers are forked."""
    cascade = _cascade(asynchronous=False)

    def application(environ: Mapping[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/metrics":
            body = _metrics()
        else:
            asked = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            body = cascade.decide(asked["item"]).to_json().encode()
        start("200 OK", [("Content-Length", str(len(body))), ("X-Worker", str(os.getpid()))])
        return [body]

    return application


def asgi() -> Callable[..., Awaitable[None]]:
    """Make the async service."""
    cascade = _cascade(asynchronous=True)

    async def application(scope: Mapping[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["path"] == "/metrics":
            body = _metrics()
        else:
            asked = json.loads(await _body(receive))
            body = (await cascade.decide_async(asked["item"])).to_json().encode()
        headers = [(b"content-length", str(len(body)).encode()), (b"x-worker", str(os.getpid()).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return application


async def _live(receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _body(receive: Callable[..., Any]) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message["body"])
        if not message.get("more_body"):
            return b"".join(parts)
