r"""`Connection`: one client's SMTP conversation.

A protocol of asyncio, without a coroutine that reads line by line: that would be half as much work as to decide a message.

- Commands that came together are answered together, in one step, and so is each piece of a message taken.
- Lines of any length are taken, within the size of the message, and memory stays bounded while a message comes in.
- The end of a message is ``\r\n.\r\n`` and nothing else.
- A client that keeps the line busy without sending a message gets 421: what counts is the time from one message to the next, and
  the number of commands, as in other mail servers.
- When the service stops, a message that is under way is finished; then the client gets 421.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from spam_filter.service.dialogue import LONGEST_LINE, Answer, Dialogue, Limits
from spam_filter.service.message_text import MessageText

if TYPE_CHECKING:
    from spam_filter.service.handler import Handler
    from spam_filter.service.refusals import RefusalReason, Refusals
    from spam_filter.service.settings import Settings
    from spam_filter.service.verdict_pool import PendingVerdict

__all__ = ["Connection", "Connections", "RefusedConnection"]

# Bytes of commands that wait for their turn, before the client has to wait, too.
_MOST_INPUT: Final = 65_536
_AT_ONCE: Final = 100
_STOPPING: Final = "421 4.3.2 the service is stopping, try again"
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


class Connection(asyncio.Protocol):
    """One client.

    Parameters
    ----------
    handler
        Answers messages.
    settings
        Limits, and how we call ourselves.
    connections
        Where it is noted while it is open.
    refusals
        Answers it 421.
    """

    def __init__(self, handler: Handler, settings: Settings, connections: Connections, refusals: Refusals) -> None:
        self._handler = handler
        self._limits = Limits(settings.max_bytes, handler.max_recipients, settings.hostname)
        # A decision, and some answers of the next hop.
        self._reply_timeout_s = settings.deadline_s + 10 * settings.hop_s
        self._connections = connections
        self._refusals = refusals
        self._idle_s = settings.idle_s
        self._loop = asyncio.get_running_loop()
        # What came and is not read yet, and answers that go out together (RFC 2920).
        self._input = bytearray()
        self._output = bytearray()
        # The text of a message while it comes, then the work on our answer to it.
        self._text: MessageText | None = None
        self._answering: PendingVerdict | asyncio.Task[None] | None = None
        # Commands that are here have to wait for it.
        self._next_turn: asyncio.Handle | None = None
        self._has_begun = self._has_ended = False
        self._is_refused = self._is_writing_paused = False
        # Now, and not when the conversation begins: many may be accepted before the first of them begins.
        connections.add(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the client."""
        self._transport = cast("asyncio.Transport", transport)
        self._has_begun = True
        self._peer = transport.get_extra_info("peername")
        self._dialogue = Dialogue(self._peer, self._limits)
        self._time_limit = self._loop.time() + self._idle_s
        self._timer = self._loop.call_later(self._idle_s, self._look_at_time)
        self._answer(f"220 {self._limits.hostname} emsco spam filter")
        self._flush()
        if self._connections.stopping:
            self.stop()

    def connection_lost(self, _: Exception | None) -> None:
        """Forget the client; a message that is being decided is dropped, since it was not answered."""
        self._connections.remove(self)
        self._timer.cancel()
        if self._answering is not None:
            self._answering.cancel()
            self._answering = None

    def eof_received(self) -> bool:
        """Hang up on a client that sends nothing more, but not before all that it has sent is answered."""
        self._has_ended = True
        self._proceed()
        # The other direction stays open until then.
        return True

    def pause_writing(self) -> None:
        """Answer nothing more to a client that does not read our answers."""
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        """Go on."""
        self._is_writing_paused = False
        self._proceed()

    def data_received(self, data: bytes) -> None:
        """Take a piece of the conversation."""
        if self._text is None:
            self._input += data
        else:
            self._take_text(data)
        self._proceed()

    def stop(self) -> None:
        """Hang up, unless a message is under way: that one is finished first."""
        if self._has_begun and self._text is None and self._answering is None:
            self._hang_up(_STOPPING)

    def _proceed(self) -> None:
        """Answer the commands that are here, as far as that can be done now."""
        if self._next_turn is None:
            self._answer_commands()
        self._flush()
        if self._has_ended and self._answering is None and self._next_turn is None and not self._is_writing_paused:
            self._transport.close()
        elif len(self._input) > _MOST_INPUT:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _answer_commands(self) -> None:
        for _ in range(_AT_ONCE):
            if self._is_writing_paused or self._answering is not None or self._transport.is_closing():
                break
            end = self._input.find(b"\n") + 1
            if not end:
                # Of a line that is too long, no more is kept than shows that it is.
                del self._input[LONGEST_LINE + 1 :]
                break
            line = bytes(self._input[:end])
            del self._input[:end]
            self._respond(self._dialogue.answer(line))
        else:
            # Thousands may have come at once: others have their turn.
            self._next_turn = self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._next_turn = None
        self._proceed()

    def _respond(self, answer: Answer) -> None:
        """Answer a command, and do what comes next."""
        if answer.then == "refused":
            self._refuse("commands")
        elif answer.then == "end":
            self._hang_up(answer.text)
        else:
            self._answer(answer.text)
            if answer.then == "message":
                self._flush()
                self._limit_time(self._idle_s)
                self._text = MessageText(self._limits.max_bytes)
                # What came along with the command.
                came, self._input = bytes(self._input), bytearray()
                self._take_text(came)

    def _take_text(self, piece: bytes) -> None:
        """Take a piece of a message; where it ends, begin to work on the answer."""
        if self._text is None or (rest := self._text.feed(piece)) is None:
            return
        self._input += rest
        content, self._text = self._text.content, None
        # The time that a client may take is not the time that we take.
        self._limit_time(self._reply_timeout_s)
        if content is None:
            self._end_message(self._handler.refuse_oversized(self._limits.max_bytes))
        else:
            self._answering = self._handler.begin(content, self._dialogue, self._end_answering)

    def _end_answering(self, reply: str) -> None:
        self._answering = None
        self._end_message(reply)
        self._proceed()

    def _end_message(self, reply: str) -> None:
        self._limit_time(self._idle_s)
        self._dialogue.end_message()
        self._answer(reply)
        if self._connections.stopping:
            self.stop()

    def _answer(self, text: str) -> None:
        self._output += text.encode()
        self._output += b"\r\n"

    def _flush(self) -> None:
        if self._output and not self._transport.is_closing():
            self._transport.write(bytes(self._output))
        self._output.clear()

    def _hang_up(self, last_word: str) -> None:
        self._answer(last_word)
        self._flush()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(_LAST_WORD_S, self._transport.abort)

    def _refuse(self, reason: RefusalReason) -> None:
        """Answer 421 and hang up, once."""
        if not self._is_refused:
            self._is_refused = True
            self._hang_up(self._refusals.reply(reason, self._peer))

    def _limit_time(self, seconds: float) -> None:
        # The timer goes on, and looks at this when it rings: a new one for each message would cost more.
        self._time_limit = self._loop.time() + seconds

    def _look_at_time(self) -> None:
        left = self._time_limit - self._loop.time()
        if left <= 0:
            self._refuse("time")
        else:
            # The limit may be nearer by then: a client has less time than our answer.
            self._timer = self._loop.call_later(min(left, self._idle_s), self._look_at_time)


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
            transport.write(f"{self._refusals.reply('connections', transport.get_extra_info('peername'))}\r\n".encode())
        transport.close()
