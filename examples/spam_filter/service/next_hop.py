r"""`NextHop`: delivery to the one SMTP server that the administrator named.

A message counts as delivered when that server has answered 2xx to the whole of it. What it refuses (5xx) is refused with its own
words; whatever else happens, the sender keeps the message (4xx).

Each message has its own connection: no answer can be taken for that of another message.

**Line ends.** A message may hold a bare ``\r`` or ``\n``, and they are passed on as they are. One case is dangerous: a dot alone
between such line ends, which a careless server takes for the end of the message, and what follows for commands (known as SMTP
smuggling). Where the next hop offers CHUNKING, the length is announced and no byte can end the message early; else such a message
is refused.
"""

from __future__ import annotations

import re
import smtplib
from contextlib import suppress
from typing import Final

from spam_filter.service.endpoint import Endpoint
from spam_filter.service.outgoing import DeliveryResult, OutgoingMessage, one_line

__all__ = ["NextHop", "can_be_smuggled", "stuff_dots"]

_FALSE_END: Final = re.compile(rb"(?:(?<!\r)\n|\r)\.[\r\n]")
_WINDOW: Final = 8_192
_CLOSING: Final = 421


class _NegativeReply(Exception):
    """The next hop refused."""

    def __init__(self, code: int, text: bytes) -> None:
        self.code = code
        self.text = text
        super().__init__(code, text)


class NextHop:
    """An SMTP server that takes all our mail; thread-safe.

    Parameters
    ----------
    endpoint
        Where it is.
    hostname
        How we call ourselves there.
    timeout_s
        Time for each of its answers.
    """

    # One answer is all that a message gets. With several recipients, of whom some are refused, any answer would be wrong for
    # one of them; so the sender is asked to send one message for each, as every mail server can.
    max_recipients: Final = 1

    def __init__(self, endpoint: Endpoint, hostname: str, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._hostname = hostname
        self._timeout_s = timeout_s

    def deliver(self, message: OutgoingMessage) -> DeliveryResult:
        """Hand a message on."""
        try:
            return self._deliver(message)
        except _NegativeReply as answer:
            return _result_of_answer(answer)
        except smtplib.SMTPResponseException as error:
            # Not about this message: it does not take our connection, or its answer is no answer. Its text may hold addresses.
            kind = type(error).__name__
            return DeliveryResult("deferred", f"451 4.4.1 the next hop does not talk to us: {kind}, code {error.smtp_code}")
        except (OSError, smtplib.SMTPException) as error:
            return DeliveryResult("deferred", f"451 4.4.1 the next hop does not answer: {type(error).__name__}")

    def _deliver(self, message: OutgoingMessage) -> DeliveryResult:
        hop = smtplib.SMTP(local_hostname=self._hostname, timeout=self._timeout_s)
        try:
            _connect(hop, self._endpoint)
            return _hand_over(hop, message)
        finally:
            _quit(hop)


def _hand_over(hop: smtplib.SMTP, message: OutgoingMessage) -> DeliveryResult:
    if message.utf8 and not hop.has_extn("smtputf8"):
        return DeliveryResult("refused", "550 5.6.7 the next hop does not take SMTPUTF8")
    if not hop.has_extn("chunking") and can_be_smuggled(message.content):
        return DeliveryResult("refused", "554 5.6.0 the message holds line ends that could be taken for its end")
    # Addresses were checked when they came: valid text with SMTPUTF8, else ASCII.
    hop.command_encoding = "utf-8"
    _expect(hop.docmd("MAIL", f"FROM:<{message.sender}>{_options(hop, message)}"))
    for recipient in message.recipients:
        _expect(hop.docmd("RCPT", f"TO:<{recipient}>"))
    text = _send(hop, message.content)
    return DeliveryResult("delivered", f"250 2.0.0 passed on: {one_line(text.decode('ascii', 'replace'))}")


def _quit(hop: smtplib.SMTP) -> None:
    """Say goodbye and hang up. The message has had its answer: nothing that happens here may change it."""
    with suppress(OSError, smtplib.SMTPException):
        hop.putcmd("QUIT")
    hop.close()


def _connect(hop: smtplib.SMTP, endpoint: Endpoint) -> None:
    """Connect and say EHLO; a server that does not greet us is not a reason to refuse a message for good."""
    code, _ = hop.connect(endpoint.host, endpoint.port)
    if code != 220:
        raise smtplib.SMTPConnectError(code, "no greeting")
    hop.ehlo_or_helo_if_needed()


def _options(hop: smtplib.SMTP, message: OutgoingMessage) -> str:
    """Return the parameters of MAIL, as far as the server knows them."""
    options = ""
    if hop.has_extn("size"):
        options += f" SIZE={len(message.content)}"
    if hop.has_extn("8bitmime") and not message.content.isascii():
        options += " BODY=8BITMIME"
    if message.utf8:
        options += " SMTPUTF8"
    return options


def _send(hop: smtplib.SMTP, content: bytes) -> bytes:
    """Send the text of the message, and return the answer to it."""
    if hop.has_extn("chunking"):
        hop.send(b"BDAT %d LAST\r\n" % len(content) + content)
    else:
        _expect(hop.docmd("DATA"), 354)
        hop.send(stuff_dots(content))
    return _expect(hop.getreply())


def _expect(reply: tuple[int, bytes], expected: int = 250) -> bytes:
    code, text = reply
    # 251: "will forward" is as good.
    if code // 10 != expected // 10:
        raise _NegativeReply(code, text)
    return text


def _result_of_answer(answer: _NegativeReply) -> DeliveryResult:
    text = one_line(answer.text.decode("ascii", "replace"))
    if 500 <= answer.code <= 599:
        return DeliveryResult("refused", f"{answer.code} {text}", quoted=True)
    # 421 would say that we close the connection; and any other answer is not a reason to lose a message.
    code = answer.code if 400 <= answer.code <= 499 and answer.code != _CLOSING else 451
    return DeliveryResult("deferred", f"{code} {text}", quoted=True)


def stuff_dots(content: bytes) -> bytes:
    r"""Return the text of a message for DATA, its end included.

    Examples
    --------
    >>> stuff_dots(b".a\r\n..\r\nb\n.c\r\n")
    b'..a\r\n...\r\nb\n.c\r\n.\r\n'
    """
    # The end needs a line break before it; a message that came over SMTP has one.
    end = b".\r\n" if content.endswith(b"\r\n") or not content else b"\r\n.\r\n"
    first = b"." if content.startswith(b".") else b""
    return first + content.replace(b"\r\n.", b"\r\n..") + end


def can_be_smuggled(content: bytes) -> bool:
    r"""Return whether a careless server could see the end of the message inside it.

    Examples
    --------
    >>> [can_be_smuggled(text) for text in (b"a\r\n.\r\nb", b"a\n.\r\nMAIL FROM:<x>\r\n", b"a\r.\rb", b"a\n.b\r\n")]
    [False, True, True, False]
    """
    # In windows that overlap by one mark less a byte: a search holds Python's lock to its end, and other threads run in between.
    return any(_FALSE_END.search(content, at, at + _WINDOW + 2) for at in range(0, len(content), _WINDOW))
