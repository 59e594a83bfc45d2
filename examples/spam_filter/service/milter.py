"""`Milter`: the filter inside a mail server's own conversation (Sendmail, Postfix): it sees each message before it is queued.

It adds our headers and takes forged ones away; it never rejects or discards. Until the end of a message it only collects: the
mail server has not yet told its client that it has the message. If we die, hang or fail, the mail server does what it is set to
do in that case (Postfix: `milter_default_action`), and nothing is lost.

Of the packages for Python none is both kept and safe here, so the packets are read by `milter_packets`, some hundred lines. Seen:
kilter.protocol 0.6 fails at a greeting that is not ASCII and at the form in which mail servers write IPv6 addresses, and takes
0.3 s for a header of 1 MB, in the event loop; purepythonmilter has one release, of 2023; pymilter is a C extension that calls
back from its own threads.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from spam_filter.message.mail import Envelope
from spam_filter.service.headers import PREFIX, header_fields
from spam_filter.service.milter_packets import (
    ACCEPT,
    CONTINUE,
    TEMPORARY_FAILURE,
    Packet,
    PacketError,
    change_header,
    client_address,
    insert_header,
    negotiate,
    read_packet,
    strings,
)
from spam_filter.service.verdict import Verdict

if TYPE_CHECKING:
    from spam_filter.service.metrics import ServiceMetrics
    from spam_filter.service.settings import OnError
    from spam_filter.service.verdict_pool import VerdictPool

__all__ = ["Milter", "forged_changes"]

_OURS: Final = PREFIX.lower().encode()
_BARE_BREAK: Final = re.compile(rb"\r(?!\n)")
_LINE_BREAK: Final = re.compile(rb"\r?\n")
# More are not looked at.
_MOST_RECIPIENTS: Final = 1_000
_AT_ONCE: Final = 200
# What a packet means for which the mail server waits, and that needs nothing of us.
_EVENTS: Final = frozenset({b"C", b"H", b"M", b"R", b"T", b"U", b"L", b"N", b"B"})
_log = logging.getLogger("spam_filter")


@dataclass(slots=True)
class _Message:
    """A message as it comes in."""

    sender: str = ""
    recipients: list[str] = field(default_factory=list)
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    size: int = 0
    # Whether something of it was not kept.
    is_cut: bool = False


class Milter:
    """One connection of a mail server.

    Parameters
    ----------
    verdicts
        Decides.
    measures
        Counts.
    max_bytes
        Bytes of a message that are kept to look at.
    on_error
        What becomes of a message that could not be decided: "accept" it, marked ``error``, or let the client try again.
    """

    def __init__(self, verdicts: VerdictPool, measures: ServiceMetrics, max_bytes: int, on_error: OnError) -> None:
        self._verdicts = verdicts
        self._measures = measures
        self._max_bytes = max_bytes
        self._on_error = on_error
        self._silent: frozenset[bytes] = frozenset()
        self._leading_space = False
        self._client, self._helo = "", ""
        self._message = _Message()
        self.idle = asyncio.Event()
        self.idle.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve the connection to its end; an error of ours closes it, and the mail server keeps the message."""
        packets = 0
        try:
            while (packet := await read_packet(reader)) is not None and packet.command != b"Q":
                packets += 1
                if packets % _AT_ONCE == 0:
                    # Thousands of them may have come already, which are read without a pause: others have their turn.
                    await asyncio.sleep(0)
                for answer in await self._answers(packet):
                    writer.write(answer.encode())
                await writer.drain()
        except (PacketError, ConnectionError) as error:
            _log.warning("the mail server's connection is closed: %s", error)
        except Exception:  # noqa: BLE001 - whatever it is, the mail server keeps the message
            _log.exception("a milter conversation failed: the mail server keeps its message")
        finally:
            self.idle.set()
            writer.close()

    async def _answers(self, packet: Packet) -> list[Packet]:
        command, data = packet
        if command == b"O":
            agreement = negotiate(data)
            self._silent, self._leading_space = agreement.silent, agreement.leading_space
            return [agreement.answer]
        if command == b"E":
            self.idle.clear()
            try:
                self._add_body(data)
                return await self._decide()
            finally:
                self.idle.set()
                self._message = _Message()
        self._take(command, data)
        return [CONTINUE] if command in _EVENTS and command not in self._silent else []

    def _take(self, command: bytes, data: bytes) -> None:
        """Take what a packet says of a client or a message."""
        message = self._message
        match command:
            case b"C":
                self._client = client_address(data)
            case b"H":
                self._helo = _text(data)
            case b"M":
                self._message = _Message(sender=_address(data))
            case b"R" if len(message.recipients) < _MOST_RECIPIENTS:
                message.recipients.append(_address(data))
            case b"L":
                name, _, value = data.removesuffix(b"\0").partition(b"\0")
                message.size += len(data)
                # All that could be forged is kept; of the rest, as much as is looked at.
                if message.size <= self._max_bytes or _OURS in data.lower():
                    message.headers.append((name, value))
                else:
                    message.is_cut = True
            case b"B":
                self._add_body(data)
            case b"A":
                self._message = _Message()
            case b"K":
                # The same connection goes on with another client.
                self._message, self._client, self._helo = _Message(), "", ""
            case _:
                # Macros, and what other versions may say.
                pass

    def _add_body(self, data: bytes) -> None:
        room = self._max_bytes - len(self._message.body)
        self._message.body += data[: max(0, room)]
        self._message.is_cut |= room < len(data)
        self._message.size += len(data)

    async def _decide(self) -> list[Packet]:
        started = time.perf_counter()
        message, message_id = self._message, secrets.token_hex(8)
        envelope = Envelope(message.sender, tuple(message.recipients), self._client, self._helo)
        raw = await asyncio.to_thread(self._raw, message)
        verdict = await self._verdicts.verdict(message_id, raw, envelope)
        if message.is_cut and verdict.status == "ham":
            # Spam may be in what was not kept.
            verdict = replace(verdict, status="unsure", unread=True)
        changes = await asyncio.to_thread(lambda: list(forged_changes(message.headers)))
        refused = verdict.status == "error" and self._on_error == "tempfail"
        seconds = time.perf_counter() - started
        self._count(verdict, len(changes), seconds, outcome="deferred" if refused else "delivered")
        what = (message_id, verdict.status, verdict.stage, message.size, 1000 * seconds)
        _log.info("message %s: %s, stage %s, %d bytes, %.1f ms", *what)
        if refused:
            return [TEMPORARY_FAILURE]
        blank = b" " if self._leading_space else b""
        # Each is put before all others, so the last comes first.
        ours = [insert_header(0, name.encode(), blank + value.encode()) for name, value in reversed(header_fields(verdict))]
        return [*changes, *ours, ACCEPT]

    def _raw(self, message: _Message) -> bytes:
        """Return the message as its client sent it, as nearly as the mail server tells."""
        blank = b"" if self._leading_space else b" "
        lines = [b"%b:%b%b\r\n" % (name, blank, _LINE_BREAK.sub(b"\r\n", value)) for name, value in message.headers]
        return b"".join(lines) + b"\r\n" + bytes(message.body)

    def _count(self, verdict: Verdict, forged: int, seconds: float, *, outcome: str) -> None:
        self._measures.messages.labels(verdict.status, outcome).inc()
        self._measures.seconds.observe(seconds)
        self._measures.forged.inc(forged)
        if verdict.status == "error":
            self._measures.errors.labels(verdict.note).inc()


def forged_changes(headers: list[tuple[bytes, bytes]]) -> Iterator[Packet]:
    r"""Yield the packets that take away headers which only we may write.

    One may hide behind a bare ``\r`` in the value of another header, where some readers end a line: it becomes a blank.

    Examples
    --------
    >>> [packet.data for packet in forged_changes([(b"X-Emsco-Status", b" ham"), (b"A", b"1"), (b"x-emsco-STATUS", b" spam")])]
    [b'\x00\x00\x00\x02x-emsco-STATUS\x00\x00', b'\x00\x00\x00\x01X-Emsco-Status\x00\x00']
    >>> [packet.data for packet in forged_changes([(b"A", b" 1\rX-Emsco-Status: ham")])]
    [b'\x00\x00\x00\x01A\x00 1 X-Emsco-Status: ham\x00']
    """
    seen: Counter[bytes] = Counter()
    removals: list[Packet] = []
    for name, value in headers:
        # A name may have blanks before its colon.
        key = name.lower()
        seen[key] += 1
        if key.startswith(_OURS):
            removals.append(change_header(seen[key], name, b""))
        elif _OURS in value.lower() and _BARE_BREAK.search(value):
            yield change_header(seen[key], name, _BARE_BREAK.sub(b" ", value))
    # From the last to the first: those before keep their numbers.
    yield from reversed(removals)


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "replace")


def _address(data: bytes) -> str:
    """Return the address of MAIL or RCPT without its brackets."""
    found = strings(data)
    return found[0].decode("utf-8", "replace").strip("<>") if found else ""
