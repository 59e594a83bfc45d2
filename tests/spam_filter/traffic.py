"""A patient sender: many messages over several connections, each tried again until it is answered 250."""

from __future__ import annotations

import itertools
import smtplib
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.spam_filter.service_under_test import HOST

TIMEOUT_S = 600.0


@dataclass(slots=True)
class Traffic:
    """What was sent, and what was answered.

    Parameters
    ----------
    port
        Of the service.
    messages
        Key -> bytes with CRLF line ends.
    connections
        Senders at the same time.
    pause_s
        How long each waits after a message, so that there is traffic left when trouble comes.
    """

    port: int
    messages: Mapping[str, bytes]
    connections: int = 8
    pause_s: float = 0.0
    answered: set[str] = field(default_factory=set)
    replies: Counter[str] = field(default_factory=Counter)
    attempts: int = 0
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Begin to send, in threads."""
        todo = iter(self.messages)
        guard = threading.Lock()

        def take() -> str | None:
            with guard:
                return next(todo, None)

        self._threads = [threading.Thread(target=self._send_all, args=(take,)) for _ in range(self.connections)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait until every message was answered 250, or given up."""
        for thread in self._threads:
            thread.join()

    @property
    def running(self) -> bool:
        """Return whether somebody still sends."""
        return any(thread.is_alive() for thread in self._threads)

    def _send_all(self, take: Callable[[], str | None]) -> None:
        client: smtplib.SMTP | None = None
        limit = time.monotonic() + TIMEOUT_S
        for key in iter(take, None):
            for attempt in itertools.count():
                client, code = self._attempt(client, key)
                with self._lock:
                    self.attempts += 1
                    self.replies[code] += 1
                    if code == "250":
                        self.answered.add(key)
                if code == "250" or time.monotonic() > limit:
                    time.sleep(self.pause_s)
                    break
                time.sleep(min(0.02 * 2**attempt, 0.5))
        if client is not None:
            client.close()

    def _attempt(self, client: smtplib.SMTP | None, key: str) -> tuple[smtplib.SMTP | None, str]:
        """Try once; return the connection, if it is still good, and what was answered.

        After a refusal the next attempt connects again, as that of a mail server does: Postfix gives a milter up for a session.
        """
        try:
            if client is None:
                client = smtplib.SMTP(HOST, self.port, timeout=60)
            client.sendmail(f"{key}@sender.example", [f"{key}@example.org"], self.messages[key])
        except smtplib.SMTPResponseException as error:
            code = str(error.smtp_code)
        except smtplib.SMTPRecipientsRefused as error:
            code = str(next(iter(error.recipients.values()))[0])
        except OSError:  # that the other side is gone is one, too
            code = "no answer"
        else:
            return client, "250"
        if client is not None:
            client.close()
        return None, code
