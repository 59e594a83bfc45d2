"""One client's conversation, without a network."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from spam_filter.service.connection import Connection, Connections
from spam_filter.service.settings import Settings


class FakeTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1)})
        self.written = b""

    def write(self, data: Any) -> None:
        """Keep it."""
        self.written += data

    def is_closing(self) -> bool:
        """Return False: it stays open."""
        return False

    def pause_reading(self) -> None:
        """Do nothing: the test says what comes when."""

    def resume_reading(self) -> None:
        """Do nothing."""


def test_however_its_commands_come_a_client_has_one_turn_at_a_time(tmp_path: Path) -> None:
    """Thousands of commands come in many pieces: from one turn of the others to the next, no more are answered each time."""

    async def converse() -> list[int]:
        connections, transport = Connections(lambda _: None), FakeTransport()
        handler = cast("Any", SimpleNamespace(max_recipients=1))
        client = Connection(handler, Settings(tmp_path, maildir=tmp_path), connections, cast("Any", None))
        client.connection_made(transport)
        answered = []
        for _ in range(10):
            before = transport.written.count(b"503 ")
            client.data_received(b"RCPT\r\n" * 1000)
            await asyncio.sleep(0)
            answered.append(transport.written.count(b"503 ") - before)
        client.connection_lost(None)
        return answered

    assert set(asyncio.run(converse())[1:]) == {100}
