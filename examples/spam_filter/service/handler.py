"""`Handler`: what happens to a message between its last byte and our answer.

1. It is decided, in a thread and within the deadline; a failure gives the status ``error``.
2. That thread passes it on to another one, where forged headers are removed, ours are added, and it is handed on, logged and
   counted. Only then the client is answered 250.

The event loop itself looks at no byte of the message: a hostile one takes its own client's time.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from emsco_runtime.pool import AcquirerPool, PoolCall, PoolFull
from spam_filter.message.mail import Envelope
from spam_filter.service.headers import mark_message
from spam_filter.service.outgoing import Delivery, DeliveryResult, OutgoingMessage
from spam_filter.service.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from spam_filter.service.dialogue import Dialogue
    from spam_filter.service.metrics import ServiceMetrics
    from spam_filter.service.verdict_pool import PendingVerdict, VerdictPool

__all__ = ["Handler"]

_log = logging.getLogger("spam_filter")
_CODES: Final = re.compile(r"\d{3}(?: \d\.\d{1,3}\.\d{1,3})?")


def _describe(receipt: DeliveryResult) -> str:
    """Return what became of a message, and why, for the log, which has no addresses: of another server's reply, the codes."""
    if receipt.outcome == "delivered":
        return receipt.outcome
    reason = f"{_CODES.findall(receipt.reply)[0]} of the next hop" if receipt.quoted else receipt.reply
    return f"{receipt.outcome} ({reason})"


class _DecidedMessage(NamedTuple):
    message_id: str
    message: OutgoingMessage
    verdict: Verdict
    started: float


class Handler:
    """Answers messages.

    Parameters
    ----------
    verdicts
        Decides.
    delivery
        Takes the messages.
    deliverers
        Threads to wait for the delivery.
    measures
        Counts.
    """

    def __init__(self, verdicts: VerdictPool, delivery: Delivery, deliverers: AcquirerPool, measures: ServiceMetrics) -> None:
        self._verdicts = verdicts
        self._delivery = delivery
        self._deliverers = deliverers
        self._measures = measures
        self._under_way: set[PoolCall] = set()

    @property
    def max_recipients(self) -> int:
        """Return how many recipients one message may have."""
        return self._delivery.max_recipients

    def begin(self, raw: bytes, dialogue: Dialogue, reply: Callable[[str], None]) -> PendingVerdict | asyncio.Task[None]:
        """Begin to decide a message, mark it and hand it on; `reply` is called with our answer, in the event loop.

        What is returned can be cancelled: a message that is being decided is then not delivered. A delivery that has begun goes
        on, and is logged and counted, though the client has gone.
        """
        started = time.perf_counter()
        message_id = secrets.token_hex(8)
        said, client = dialogue.transaction, dialogue.client
        message = OutgoingMessage(raw, said.sender or "", tuple(said.recipients), said.utf8)
        loop = asyncio.get_running_loop()

        def answer(text: str) -> None:
            # The loop is closed when a delivery outlives the service.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(reply, text)

        def pass_on(verdict: Verdict) -> None:
            decided = _DecidedMessage(message_id, message, verdict, started)
            try:
                delivering = self._deliverers.submit(lambda decided: answer(self._deliver(decided)), decided)
            except PoolFull:
                answer(self._end(decided, DeliveryResult("deferred", "451 4.3.2 no thread is free, try again"), 0))
                return
            self._under_way.add(delivering)
            delivering.add_done_callback(self._under_way.discard)

        envelope = Envelope(message.sender, message.recipients, client.address, client.helo)
        return self._verdicts.begin(message_id, raw, envelope, pass_on)

    def refuse_oversized(self, max_bytes: int) -> str:
        """Log and count a message that is too large; return our answer."""
        self._measures.oversized.inc()
        _log.info("a message was larger than %d bytes: refused", max_bytes)
        return f"552 5.3.4 the message is larger than {max_bytes} bytes"

    async def finish(self, seconds: float) -> int:
        """Wait for deliveries whose clients have gone; return how many are left after `seconds` seconds."""
        if waits := [asyncio.ensure_future(call.add_event().wait()) for call in tuple(self._under_way)]:
            await asyncio.wait(waits, timeout=seconds)
        return len(self._under_way)

    def _deliver(self, decided: _DecidedMessage) -> str:
        """Mark a message and hand it on, log and count it; return our answer."""
        try:
            marked = mark_message(decided.message.content, decided.verdict)
            receipt = self._delivery.deliver(replace(decided.message, content=marked.content))
            return self._end(decided, receipt, marked.forged)
        except Exception as error:  # noqa: BLE001 - of a client that has gone, nobody else asks how it went
            _log.error("a message could not be delivered: %s", type(error).__name__)
            return "451 4.3.0 internal error, try again"

    def _end(self, decided: _DecidedMessage, receipt: DeliveryResult, forged: int) -> str:
        message_id, message, verdict, started = decided
        seconds = time.perf_counter() - started
        self._count(verdict, receipt, forged, seconds)
        _log.info(
            "message %s: %s%s%s, stage %s, cost %s, %d bytes, %s, %.1f ms",
            message_id,
            verdict.status,
            f" ({verdict.note})" if verdict.note else "",
            f" (degraded: {', '.join(verdict.failed_sources)})" if verdict.degraded else "",
            verdict.stage,
            verdict.cost,
            len(message.content),
            _describe(receipt),
            1000 * seconds,
        )
        return f"{receipt.reply} ({message_id})"

    def _count(self, verdict: Verdict, receipt: DeliveryResult, forged: int, seconds: float) -> None:
        measures = self._measures
        measures.messages.labels(verdict.status, receipt.outcome).inc()
        measures.seconds.observe(seconds)
        measures.forged.inc(forged)
        if verdict.status == "error":
            measures.errors.labels(verdict.note).inc()
