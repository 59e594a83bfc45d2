"""A next hop for tests, on bare sockets: it answers as configured, can vanish and come back, and keeps the bytes it was sent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tests.spam_filter.service_under_test import HOST, free_port


class FakeNextHop:
    """An SMTP server that is strict about line ends; a context manager.

    Parameters
    ----------
    extensions
        What it offers after EHLO.
    answers
        Command -> answer, where it is not the friendly one; "." is the end of a message, "connect" the greeting. An empty answer
        hangs up.
    """

    def __init__(self, *extensions: str, answers: Mapping[str, str] | None = None) -> None:
        self.port = free_port()
        self.extensions = extensions
        self.answers = dict(answers or {})
        # While it is not set, the answer to a message waits.
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.commands: list[str] = []
        self.messages: list[bytes] = []
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Listen, on the same port each time."""
        self._listener = socket.create_server((HOST, self.port), backlog=50)
        self._start_thread(self._accept, self._listener)

    def stop(self) -> None:
        """Vanish: nothing listens, and open conversations break off."""
        if self._listener is not None:
            # A thread that waits in accept() is woken by this, and not by closing.
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        for connection in tuple(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads:
            thread.join(60)
        self._threads.clear()

    def __enter__(self) -> Self:
        """Listen."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Vanish."""
        self.stop()

    def _start_thread(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._open.add(connection)
            self._start_thread(self._serve_connection, connection)

    def _serve_connection(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as stream:
                if self._answer(connection, "connect", "220 hop"):
                    while self._command(connection, stream):
                        pass
        except OSError:
            return
        finally:
            self._open.discard(connection)

    def _command(self, connection: socket.socket, stream: object) -> bool:
        line = stream.readline()  # type: ignore[attr-defined]
        if not line:
            return False
        assert line.endswith(b"\r\n"), f"a command that ends otherwise: {line!r}"
        self.commands.append(line[:-2].decode())
        word = line.split()[0].decode().upper()
        if word == "EHLO":
            offered = "".join(f"250-{extension}\r\n" for extension in self.extensions)
            return self._answer(connection, word, f"250-hop\r\n{offered}250 HELP")
        if word == "BDAT":
            return self._accept_message(connection, stream.read(int(line.split()[1])))  # type: ignore[attr-defined]
        if word == "DATA":
            go_on = self._answer(connection, word, "354 go on")
            return self._accept_message(connection, _read_data(stream)) if go_on and "DATA" not in self.answers else go_on
        if word == "QUIT":
            return False
        return self._answer(connection, word, "250 OK")

    def _accept_message(self, connection: socket.socket, content: bytes) -> bool:
        if "." not in self.answers:
            self.messages.append(content)
        self.may_answer.wait(60)
        return self._answer(connection, ".", "250 taken")

    def _answer(self, connection: socket.socket, word: str, friendly: str) -> bool:
        text = self.answers.get(word, friendly)
        if text:
            connection.sendall(text.encode() + b"\r\n")
        return bool(text)


def _read_data(stream: object) -> bytes:
    r"""Read to ``\r\n.\r\n`` and take the stuffed dots out, as RFC 5321 says and no more."""
    content = b""
    line_begins = True
    while True:
        line = stream.readline()  # type: ignore[attr-defined]
        if not line:
            raise OSError("broke off")
        if line_begins and line == b".\r\n":
            return content
        content += line[1:] if line_begins and line.startswith(b".") else line
        line_begins = content.endswith(b"\r\n")
