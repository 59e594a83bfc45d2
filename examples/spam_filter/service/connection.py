r"""`Connection`: one client's SMTP conversation, with what aiosmtpd leaves open.

- Addresses are passed on unchanged.
- Lines of any length are taken, within the size of the message, and memory stays bounded while a message comes in.
- The end of a message is ``\r\n.\r\n`` and nothing else.
- A client that keeps the line busy without sending a message gets 421: what counts is the time from one message to the next, and
  the number of commands, as in other mail servers.
- When the service stops, a message that is under way is finished; then the client gets 421.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from aiosmtpd.smtp import Envelope

from spam_filter.service.message_text import MessageText
from spam_filter.service.smtp_path import read_path
from spam_filter.service.xforward import ForwardedClient

if TYPE_CHECKING:
    from spam_filter.service.refusals import RefusalReason, Refusals
    from spam_filter.service.settings import Settings

__all__ = ["Connection", "Connections", "RefusedConnection"]

# It stops the transport at twice its limit, and one piece from the network is at most 256 kB.
_MORE_THAN_THE_READER_HOLDS: Final = 1 << 24
_STOPPING: Final = b"421 4.3.2 the service is stopping, try again\r\n"
# Commands without a message, RCPT left out: a message may have many recipients. Postfix has the same number.
_MOST_COMMANDS: Final = 100
_UNCOUNTED: Final = frozenset({"RCPT", "DATA", "QUIT"})
# Time for a client to read our last word: one that reads nothing must not keep its place.
_LAST_WORD_S: Final = 5.0


class Connections:
    """The clients that are connected.

    Parameters
    ----------
    on_change
        Called with their number when it changes.
    """

    def __init__(self, on_change: Callable[[float], None]) -> None:
        self.stopping = False
        self._on_change = on_change
        self._open: set[Connection] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._open)

    def add(self, connection: Connection) -> None:
        """Note a client."""
        self._open.add(connection)
        self._on_change(len(self._open))
        self._empty.clear()

    def remove(self, connection: Connection) -> None:
        """Forget a client."""
        self._open.discard(connection)
        self._on_change(len(self._open))
        if not self._open:
            self._empty.set()

    async def stop(self, seconds: float) -> int:
        """Close the idle ones, wait for the others; return how many are left after `seconds` seconds."""
        self.stopping = True
        for connection in tuple(self._open):
            connection.stop()
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            pass
        return len(self._open)


class Connection(ForwardedClient):
    """One client.

    Parameters
    ----------
    handler
        Answers MAIL, RCPT and DATA.
    settings
        Limits, and how we call ourselves.
    connections
        Where it is noted while it is open.
    refusals
        Answers it 421.
    """

    # The longest command; also, how much of a message waits in the reader.
    line_length_limit = 65536

    def __init__(self, handler: Any, settings: Settings, connections: Connections, refusals: Refusals) -> None:
        self._max_bytes = settings.max_bytes
        # A decision, and some answers of the next hop.
        self._reply_timeout_s = settings.deadline_s + 10 * settings.hop_s
        self._connections = connections
        self._refusals = refusals
        self._idle_s = settings.idle_s
        self._busy = False
        self._answering = False
        self._has_ended = False
        self._refused = False
        self._commands = 0
        self._time_limit = 0.0
        self._replies = b""
        super().__init__(
            handler,
            data_size_limit=settings.max_bytes,
            enable_SMTPUTF8=True,
            hostname=settings.hostname,
            ident="emsco spam filter",
            timeout=settings.idle_s,
            loop=asyncio.get_running_loop(),
        )
        self._smtp_methods = {
            name: method if name in _UNCOUNTED else self._counted(method) for name, method in self._smtp_methods.items()
        }
        # Now, and not when the conversation begins: many may be accepted before the first of them begins.
        connections.add(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the conversation."""
        super().connection_made(transport)
        if self._connections.stopping:
            self.stop()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the client."""
        self._connections.remove(self)
        super().connection_lost(error)

    def eof_received(self) -> bool | None:
        """Hang up on a client that sends nothing more, but not before it has the answer to a message."""
        if self._answering:
            self._has_ended = True
            # The other direction stays open.
            return True
        return super().eof_received()

    def stop(self) -> None:
        """Hang up, unless a message is under way: that one is finished first."""
        if not self._busy and self.transport is not None:
            self._write(_STOPPING)
            self.transport.close()

    async def push(self, status: str | bytes) -> None:
        """Answer a command; answers to commands that came together go together (RFC 2920)."""
        reply = (status.encode() if isinstance(status, str) else status) + b"\r\n"
        # Only those after which the conversation goes on, and only while the next command is here already: none is kept back.
        if reply.startswith(b"250") and b"\n" in self._reader._buffer:  # type: ignore[attr-defined]  # noqa: SLF001
            self._replies += reply
            return
        self._write(reply)
        await self._writer.drain()

    def _write(self, reply: bytes) -> None:
        self._writer.write(self._replies + reply)
        self._replies = b""

    def _refuse(self, reason: RefusalReason) -> None:
        """Answer 421 and hang up, once."""
        if self._refused or self.transport is None:
            return
        self._refused = True
        peer = self.transport.get_extra_info("peername")
        self._write(self._refusals.reply(reason, peer))
        self.transport.close()
        self.loop.call_later(_LAST_WORD_S, self.transport.abort)  # type: ignore[attr-defined]

    def _counted(self, method: Callable[[str], Awaitable[None]]) -> Callable[[str], Awaitable[None]]:
        # With what HELP says of it.
        @functools.wraps(method)
        async def call(arg: str) -> None:
            self._commands += 1
            if self._commands > _MOST_COMMANDS:
                self._refuse("commands")
            else:
                await method(arg)

        return call

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Begin to count time; aiosmtpd does it again at each command, and a client that says NOOP would stay for ever."""
        if self._timeout_handle is None:
            super()._reset_timeout(duration)
        if duration is not None:
            # The timer goes on, and looks at this when it rings: a new one for each message would cost more.
            self._time_limit = self.loop.time() + duration

    def _timeout_cb(self) -> None:
        left = self._time_limit - self.loop.time()
        if left <= 0:
            self._refuse("time")
        else:
            self._timeout_handle = self.loop.call_later(left, self._timeout_cb)

    def _getaddr(self, arg: str) -> tuple[str | None, str | None]:
        """Return an address unchanged."""
        return read_path(arg)

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802 - aiosmtpd's name
        """Take a message, instead of aiosmtpd's own method, which refuses long lines."""
        if await self.check_helo_needed():
            return
        envelope = self.envelope
        if envelope is None or not envelope.rcpt_tos:
            await self.push("503 5.5.1 RCPT must come first")
            return
        if arg:
            await self.push("501 5.5.4 DATA takes no argument")
            return
        self._busy = True
        self._reset_timeout(self._idle_s)
        try:
            await self.push("354 End data with <CR><LF>.<CR><LF>")
            await self.push(await self._answer(envelope))
        finally:
            self._busy = False
            if self._connections.stopping:
                self.stop()
            if self._has_ended and self._handler_coroutine is not None:
                # As soon as it waits for more: what came before the end, such as QUIT, is still answered.
                self._handler_coroutine.cancel()

    async def _answer(self, envelope: Envelope) -> str:
        content = await self._message()
        # The time that a client may take is not the time that we take.
        self._reset_timeout(self._reply_timeout_s)
        self._answering = True
        try:
            if content is None:
                return str(self.event_handler.refuse_oversized(self._max_bytes))
            envelope.content = envelope.original_content = content
            return str(await self._call_handler_hook("DATA"))
        finally:
            self._answering = False
            self._commands = 0
            self._reset_timeout(self._idle_s)
            self._set_post_data_state()  # type: ignore[no-untyped-call]

    async def _message(self) -> bytes | None:
        """Read to the end of the message; None if it is too large."""
        text = MessageText(self._max_bytes)
        rest: bytes | None = None
        while rest is None:
            rest = text.feed(await self._read_piece())
        if rest:
            # Commands that the client sent without waiting. The reader was emptied, so they are its first bytes again.
            self._reader.feed_data(rest)
        return text.content

    async def _read_piece(self) -> bytes:
        """Return all that has come."""
        piece = await self._reader.read(_MORE_THAN_THE_READER_HOLDS)
        if not piece:
            raise ConnectionResetError("the client hung up before the end of the message")
        return piece


class RefusedConnection(asyncio.Protocol):
    """A client that is one too many: it gets an answer, and the connection is closed.

    Parameters
    ----------
    refusals
        Answers it 421.
    """

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Answer 421 instead of a greeting."""
        if isinstance(transport, asyncio.WriteTransport):
            transport.write(self._refusals.reply("connections", transport.get_extra_info("peername")))
        transport.close()
