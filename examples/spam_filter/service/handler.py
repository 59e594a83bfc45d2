"""`Handler`: what happens to a message between its last byte and our answer.

1. It is decided, in a thread and within the deadline; a failure gives the status ``error``.
2. In another thread, forged headers are removed, ours are added, and it is handed on. Only then the client is answered 250.

The event loop itself looks at no byte of the message: a hostile one takes its own client's time.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from emsco_runtime.pool import AcquirerPool, PoolFull
from spam_filter.message.mail import Envelope
from spam_filter.service.headers import mark_message
from spam_filter.service.outgoing import Delivery, DeliveryResult, OutgoingMessage
from spam_filter.service.smtp_path import NOBODY
from spam_filter.service.verdict import Verdict
from spam_filter.service.xforward import KEYWORD, client_of

if TYPE_CHECKING:
    from aiosmtpd.smtp import Envelope as SmtpEnvelope, Session

    from spam_filter.service.metrics import ServiceMetrics
    from spam_filter.service.verdict_pool import VerdictPool

__all__ = ["Handler", "address_error"]

_log = logging.getLogger("spam_filter")
_CODES: Final = re.compile(r"\d{3}(?: \d\.\d{1,3}\.\d{1,3})?")


def address_error(address: str, *, utf8: bool) -> str | None:
    r"""Return the SMTP reply to an address that cannot be passed on unchanged; None for all others.

    Examples
    --------
    >>> address_error("a@x.org", utf8=False), address_error("jürgen@x.org", utf8=True)
    (None, None)
    >>> address_error("jürgen@x.org", utf8=False), address_error('"a\rRCPT TO:<b>"@x.org', utf8=True)
    ('553 5.6.7 an address that is not ASCII needs SMTPUTF8', '553 5.1.3 the address holds control characters or angle brackets')
    """
    if any(character < " " or character in "<>\x7f" for character in address):
        return "553 5.1.3 the address holds control characters or angle brackets"
    try:
        address.encode("utf-8" if utf8 else "ascii")
    except UnicodeEncodeError:
        return "553 5.6.7 the address is not valid UTF-8" if utf8 else "553 5.6.7 an address that is not ASCII needs SMTPUTF8"
    return None


def _describe(receipt: DeliveryResult) -> str:
    """Return what became of a message, and why, for the log, which has no addresses: of another server's reply, the codes."""
    if receipt.outcome == "delivered":
        return receipt.outcome
    reason = f"{_CODES.findall(receipt.reply)[0]} of the next hop" if receipt.quoted else receipt.reply
    return f"{receipt.outcome} ({reason})"


class Handler:
    """The hooks that aiosmtpd calls.

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
        self._under_way: set[asyncio.Future[str]] = set()

    async def handle_EHLO(  # noqa: N802 - aiosmtpd's name
        self, _server: Any, session: Session, _envelope: SmtpEnvelope, hostname: str, replies: list[str]
    ) -> list[str]:
        """Offer PIPELINING too: commands are read one by one, however many come at once; and XFORWARD."""
        session.host_name = hostname
        return [replies[0], "250-PIPELINING", f"250-{KEYWORD}", *replies[1:]]

    async def handle_MAIL(  # noqa: N802
        self, _server: Any, _session: Session, envelope: SmtpEnvelope, address: str, options: list[str]
    ) -> str:
        """Take a sender."""
        if address != NOBODY and (refusal := address_error(address, utf8=envelope.smtp_utf8)):
            return refusal
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 2.1.0 OK"

    async def handle_RCPT(  # noqa: N802
        self, _server: Any, _session: Session, envelope: SmtpEnvelope, address: str, options: list[str]
    ) -> str:
        """Take a recipient."""
        if refusal := address_error(address, utf8=envelope.smtp_utf8):
            return refusal
        if len(envelope.rcpt_tos) >= self._delivery.max_recipients:
            return "452 4.5.3 too many recipients, send the others separately"
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 2.1.5 OK"

    async def handle_DATA(self, _server: Any, session: Session, envelope: SmtpEnvelope) -> str:  # noqa: N802
        """Decide a message, mark it, hand it on; return our answer."""
        started = time.perf_counter()
        message_id = secrets.token_hex(8)
        raw = envelope.content if isinstance(envelope.content, bytes) else b""
        sender = "" if envelope.mail_from in (None, NOBODY) else str(envelope.mail_from)
        recipients = tuple(envelope.rcpt_tos)
        client = client_of(session, envelope)
        verdict = await self._verdicts.verdict(message_id, raw, Envelope(sender, recipients, client.address, client.helo))
        message = OutgoingMessage(raw, sender, recipients, envelope.smtp_utf8)
        delivering = asyncio.ensure_future(self._finish(message_id, message, verdict, started))
        self._under_way.add(delivering)
        delivering.add_done_callback(self._end_delivery)
        # A client that hangs up from now on does not end it: what is delivered is logged and counted.
        return await asyncio.shield(delivering)

    def _end_delivery(self, delivering: asyncio.Future[str]) -> None:
        self._under_way.discard(delivering)
        # Of a client that has gone, nobody else asks how it went.
        if not delivering.cancelled() and (error := delivering.exception()) is not None:
            _log.error("a delivery failed: %s", type(error).__name__)

    async def _finish(self, message_id: str, message: OutgoingMessage, verdict: Verdict, started: float) -> str:
        """Mark a message and hand it on, log and count it; return our answer."""
        receipt, forged = await self._mark_and_deliver(message, verdict)
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

    def refuse_oversized(self, max_bytes: int) -> str:
        """Log and count a message that is too large; return our answer."""
        self._measures.oversized.inc()
        _log.info("a message was larger than %d bytes: refused", max_bytes)
        return f"552 5.3.4 the message is larger than {max_bytes} bytes"

    async def finish(self, seconds: float) -> int:
        """Wait for deliveries whose clients have gone; return how many are left after `seconds` seconds."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=seconds)
        return len(self._under_way)

    async def handle_exception(self, error: Exception) -> str:
        """Answer an error of ours: the sender keeps the message. aiosmtpd would refuse it for good."""
        _log.error("a conversation failed: %s", type(error).__name__)
        return "451 4.3.0 internal error, try again"

    async def _mark_and_deliver(self, message: OutgoingMessage, verdict: Verdict) -> tuple[DeliveryResult, int]:
        """Return what became of a message, and how many forged headers it had."""

        def work(unmarked: OutgoingMessage) -> tuple[DeliveryResult, int]:
            marked = mark_message(unmarked.content, verdict)
            return self._delivery.deliver(replace(unmarked, content=marked.content)), marked.forged

        try:
            return await asyncio.wrap_future(self._deliverers.submit(work, message))
        except PoolFull:
            return DeliveryResult("deferred", "451 4.3.2 no thread is free, try again"), 0

    def _count(self, verdict: Verdict, receipt: DeliveryResult, forged: int, seconds: float) -> None:
        measures = self._measures
        measures.messages.labels(verdict.status, receipt.outcome).inc()
        measures.seconds.observe(seconds)
        measures.forged.inc(forged)
        if verdict.status == "error":
            measures.errors.labels(verdict.note).inc()
