"""`Dialogue`: what a client says of itself and of its messages, command by command (RFC 5321), and our answers.

A command in, an answer out, and nothing else: `Connection` reads lines and writes answers, and takes the text of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from spam_filter.service.smtp_path import address_error, read_parameters, read_path
from spam_filter.service.xforward import KEYWORD, Client, client_of, is_trusted, read_attributes

__all__ = ["LONGEST_LINE", "Answer", "Dialogue", "Limits", "Transaction"]

# The standard's 512 bytes, and what SIZE and SMTPUTF8 add to MAIL.
LONGEST_LINE: Final = 548
# Commands without a message, RCPT left out: a message may have many recipients. Postfix has the same number.
_MOST_COMMANDS: Final = 100
_UNCOUNTED: Final = frozenset({b"RCPT", b"DATA", b"QUIT"})
_MOST_UNKNOWN: Final = 5
_SYNTAX: Final = {
    "DATA": "DATA",
    "EHLO": "EHLO hostname",
    "HELO": "HELO hostname",
    "HELP": "HELP [command]",
    "MAIL": "MAIL FROM: <address> [SP <mail-parameters>]",
    "NOOP": "NOOP [ignored]",
    "QUIT": "QUIT",
    "RCPT": "RCPT TO: <address>",
    "RSET": "RSET",
    "VRFY": "VRFY <address>",
}


class Limits(NamedTuple):
    """How many bytes and recipients a message may have, and how we call ourselves."""

    max_bytes: int
    max_recipients: int
    hostname: str


class Answer(NamedTuple):
    """An answer to a command, and what comes next: another command, the text of a message, or the end.

    "refused": it was one command too many, and has no answer of its own.
    """

    text: str
    then: Literal["command", "message", "end", "refused"] = "command"


@dataclass(slots=True)
class Transaction:
    """What was said of one message before its text.

    Parameters
    ----------
    sender
        MAIL FROM, empty for a bounce; None before it was said.
    utf8
        The client said SMTPUTF8.
    recipients
        RCPT TO.
    forwarded
        Attributes of XFORWARD.
    """

    sender: str | None = None
    utf8: bool = False
    recipients: list[str] = field(default_factory=list)
    forwarded: dict[str, str] = field(default_factory=dict)


class Dialogue:
    """The commands of one client.

    Parameters
    ----------
    peer
        Its address, as a socket has it.
    limits
        What messages may have.

    Examples
    --------
    >>> dialogue = Dialogue(("192.0.2.7", 1), Limits(1000, 10, "mx.example"))
    >>> lines = b"HELO a", b"MAIL FROM:<>", b"RCPT TO:<b@x.org>", b"DATA"
    >>> [(answer.text[:3], answer.then) for answer in map(dialogue.answer, lines)]
    [('250', 'command'), ('250', 'command'), ('250', 'command'), ('354', 'message')]
    """

    def __init__(self, peer: object, limits: Limits) -> None:
        self._peer = peer
        self._limits = limits
        self._host_name = ""
        self._extended = False
        self._commands = self._unknown = 0
        self.transaction = Transaction()

    @property
    def client(self) -> Client:
        """Return who sends the message."""
        return client_of(self._peer, self._host_name, self.transaction.forwarded)

    def end_message(self) -> None:
        """Start over, after a message."""
        self._commands = 0
        self.transaction = Transaction()

    def answer(self, line: bytes) -> Answer:
        """Return the answer to a command.

        Parameters
        ----------
        line
            Any bytes, with or without their line end.
        """
        line = line.rstrip(b"\r\n")
        if not line or len(line) > LONGEST_LINE:
            return Answer("500 5.5.2 Error: command line too long" if line else "500 5.5.2 Error: bad syntax")
        name, _, argument = line.partition(b" ")
        name = name.upper()
        method = _METHODS.get(name)
        if method is None:
            self._unknown += 1
            if self._unknown >= _MOST_UNKNOWN:
                return Answer("502 5.5.1 too many unrecognized commands, goodbye", "end")
            return Answer("500 5.5.2 Error: command not recognized")
        if name not in _UNCOUNTED:
            self._commands += 1
            if self._commands > _MOST_COMMANDS:
                return Answer("", "refused")
        # Bytes that are not text stay what they are: an address that has any is refused.
        return method(self, argument.strip().decode("utf-8", "surrogateescape"))

    def _helo(self, argument: str) -> Answer:
        return self._greet("HELO", argument, [])

    def _ehlo(self, argument: str) -> Answer:
        # PIPELINING: commands are read one by one, however many come at once.
        offers = ["PIPELINING", KEYWORD, f"SIZE {self._limits.max_bytes}", "8BITMIME", "SMTPUTF8", "HELP"]
        return self._greet("EHLO", argument, offers)

    def _greet(self, command: str, argument: str, offers: list[str]) -> Answer:
        if not argument:
            return _syntax_error(command)
        self.transaction = Transaction()
        self._host_name = argument
        self._extended = bool(offers)
        lines = [self._limits.hostname, *offers]
        return Answer("\r\n".join([*(f"250-{line}" for line in lines[:-1]), f"250 {lines[-1]}"]))

    def _mail(self, argument: str) -> Answer:
        if not self._host_name:
            return _NO_GREETING
        if self.transaction.sender is not None:
            return Answer("503 5.5.1 Error: nested MAIL command")
        found = self._read_address("MAIL", "FROM:", argument)
        if isinstance(found, Answer):
            return found
        address, parameters = found
        utf8 = "SMTPUTF8" in parameters
        refusal = self._parameter_error(parameters) or (address_error(address, utf8=utf8) if address else None)
        if refusal:
            return Answer(refusal)
        self.transaction.sender, self.transaction.utf8 = address, utf8
        return Answer("250 2.1.0 OK")

    def _rcpt(self, argument: str) -> Answer:
        if not self._host_name:
            return _NO_GREETING
        transaction = self.transaction
        if transaction.sender is None:
            return Answer("503 5.5.1 Error: need MAIL command")
        found = self._read_address("RCPT", "TO:", argument)
        if isinstance(found, Answer):
            return found
        address, parameters = found
        if parameters:
            return Answer("555 5.5.4 RCPT TO parameters not recognized or not implemented")
        if not address:
            return Answer("553 5.1.3 Error: no recipient")
        if refusal := address_error(address, utf8=transaction.utf8):
            return Answer(refusal)
        if len(transaction.recipients) >= self._limits.max_recipients:
            return Answer("452 4.5.3 too many recipients, send the others separately")
        transaction.recipients.append(address)
        return Answer("250 2.1.5 OK")

    def _read_address(self, command: str, keyword: str, argument: str) -> tuple[str, dict[str, str]] | Answer:
        """Return the address of MAIL or RCPT and its parameters, or the answer to what is none."""
        if argument[: len(keyword)].upper() != keyword:
            return _syntax_error(command)
        path = read_path(argument[len(keyword) :])
        if path is None:
            return Answer("553 5.1.3 Error: malformed address")
        address, text = path
        parameters = read_parameters(text) if text else {}
        # They came with EHLO.
        if parameters is None or (parameters and not self._extended):
            return _syntax_error(command)
        return address, parameters

    def _parameter_error(self, parameters: Mapping[str, str]) -> str | None:
        """Return the answer to parameters of MAIL that we do not take."""
        if parameters.keys() - {"BODY", "SIZE", "SMTPUTF8"}:
            return "555 5.5.4 MAIL FROM parameters not recognized or not implemented"
        if parameters.get("BODY", "7BIT") not in ("7BIT", "8BITMIME"):
            return "501 5.5.4 Error: BODY can only be one of 7BIT, 8BITMIME"
        if parameters.get("SMTPUTF8"):
            return "501 5.5.4 Error: SMTPUTF8 takes no arguments"
        size = parameters.get("SIZE", "0")
        if not (size.isascii() and size.isdigit()):
            return "501 5.5.4 Error: SIZE takes a number"
        return "552 5.3.4 Error: message size exceeds fixed maximum message size" if int(size) > self._limits.max_bytes else None

    def _data(self, argument: str) -> Answer:
        if not self._host_name:
            return _NO_GREETING
        if not self.transaction.recipients:
            return Answer("503 5.5.1 RCPT must come first")
        if argument:
            return Answer("501 5.5.4 DATA takes no argument")
        return Answer("354 End data with <CR><LF>.<CR><LF>", "message")

    def _xforward(self, argument: str) -> Answer:
        """Take the client's address from a mail server on this machine; it holds for one message."""
        attributes = read_attributes(argument)
        if not is_trusted(self._peer):
            return Answer("550 5.7.0 XFORWARD is for mail servers on this machine")
        if attributes is None:
            return Answer("501 5.5.4 syntax: XFORWARD NAME=value ...")
        # Postfix may need more than one line.
        self.transaction.forwarded.update(attributes)
        return Answer("250 2.0.0 OK")

    def _rset(self, argument: str) -> Answer:
        if argument:
            return _syntax_error("RSET")
        self.transaction = Transaction()
        return Answer("250 OK")

    def _noop(self, _argument: str) -> Answer:
        return Answer("250 OK")

    def _quit(self, argument: str) -> Answer:
        return _syntax_error("QUIT") if argument else Answer("221 Bye", "end")

    def _vrfy(self, argument: str) -> Answer:
        if not argument:
            return _syntax_error("VRFY")
        return Answer("252 Cannot VRFY user, but will accept message and attempt delivery")

    def _help(self, argument: str) -> Answer:
        if syntax := _SYNTAX.get(argument.upper()):
            return Answer(f"250 Syntax: {syntax}")
        return Answer(f"{501 if argument else 250} Supported commands: {' '.join(_SYNTAX)}")


def _syntax_error(command: str) -> Answer:
    return Answer(f"501 Syntax: {_SYNTAX[command]}")


_NO_GREETING: Final = Answer("503 Error: send HELO first")
_Method: TypeAlias = Callable[[Dialogue, str], Answer]
_METHODS: Final[Mapping[bytes, _Method]] = {
    name.encode(): getattr(Dialogue, f"_{name.lower()}") for name in (*_SYNTAX, "XFORWARD")
}
