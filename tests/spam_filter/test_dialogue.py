"""Commands of SMTP and our answers, without a connection."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from spam_filter.service.dialogue import LONGEST_LINE, Dialogue, Limits

WORDS = [
    b"MAIL",
    b"FROM:",
    b"RCPT",
    b"TO:",
    b"<a@x.org>",
    b"<>",
    b"<",
    b"SIZE=",
    b"SIZE=9",
    b"SMTPUTF8",
    b"BODY=7BIT",
    b"=",
    b"\xff",
]
MORE = [b"HELO", b"EHLO", b"DATA", b"RSET", b"VRFY", b"HELP", b"XFORWARD", b"ADDR=192.0.2.7", b"\r", b"\0", b"x" * 600]


def say(*lines: str, extended: bool = True) -> tuple[str, Dialogue]:
    """Say HELO or EHLO and these lines; return the last answer, and the dialogue."""
    dialogue = Dialogue(("192.0.2.1", 1), Limits(1000, 2, "mx.example"))
    dialogue.answer(b"EHLO us.example" if extended else b"HELO us.example")
    return [dialogue.answer(line.encode("utf-8", "surrogateescape")).text for line in lines][-1], dialogue


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["MAIL FROM:<a@x.org> SIZE=1000 BODY=8BITMIME SMTPUTF8"], "250"),
        (["mail from: <a@x.org>"], "250"),
        (["MAIL FROM:<>"], "250"),
        (["MAIL"], "501"),
        (["MAIL TO:<a@x.org>"], "501"),
        (["MAIL FROM:"], "553"),
        (["MAIL FROM:<a@x.org> SIZE=1001"], "552"),
        (["MAIL FROM:<a@x.org> SIZE=many"], "501"),
        (["MAIL FROM:<a@x.org> SIZE=\u00b2"], "501"),
        (["MAIL FROM:<a@x.org> SIZE"], "501"),
        (["MAIL FROM:<a@x.org> BODY=BINARYMIME"], "501"),
        (["MAIL FROM:<a@x.org> SMTPUTF8=yes"], "501"),
        (["MAIL FROM:<a@x.org> RET=FULL"], "555"),
        (["MAIL FROM:<a@x.org> =1"], "501"),
        (["MAIL FROM:<a@x.org>", "MAIL FROM:<a@x.org>"], "503"),
        (["RCPT TO:<b@x.org>"], "503"),
        (["MAIL FROM:<>", "RCPT TO:<b@x.org>"], "250"),
        (["MAIL FROM:<>", "RCPT TO:<>"], "553"),
        (["MAIL FROM:<>", "RCPT TO:b@x.org"], "553"),
        (["MAIL FROM:<>", "RCPT TO:<b@x.org> NOTIFY=NEVER"], "555"),
        (["MAIL FROM:<>", *["RCPT TO:<b@x.org>"] * 3], "452"),
        (["MAIL FROM:<>", "DATA"], "503"),
        (["MAIL FROM:<>", "RCPT TO:<b@x.org>", "DATA now"], "501"),
        (["MAIL FROM:<>", "RCPT TO:<b@x.org>", "DATA"], "354"),
        (["MAIL FROM:<>", "RSET", "RCPT TO:<b@x.org>"], "503"),
        (["MAIL FROM:<>", "EHLO again", "RCPT TO:<b@x.org>"], "503"),
        (["RSET now"], "501"),
        (["NOOP whatever"], "250"),
        (["VRFY a@x.org"], "252"),
        (["VRFY"], "501"),
        (["HELO"], "501"),
        (["HELP"], "250"),
        (["HELP quit"], "250 Syntax: QUIT"),
        (["HELP me"], "501"),
        (["QUIT now"], "501"),
        (["QUIT"], "221"),
        (["STARTTLS"], "500"),
        ([""], "500"),
        (["NOOP " + "x" * LONGEST_LINE], "500"),
    ],
)
def test_commands_have_the_answers_of_the_standard(lines: list[str], code: str) -> None:
    """After EHLO: what is taken, out of order, malformed, too much, or unknown."""
    assert say(*lines)[0].startswith(code)


def test_parameters_need_ehlo_and_all_else_a_greeting() -> None:
    """HELO is for clients that know no parameters; nobody gets far without either."""
    assert say("MAIL FROM:<a@x.org> SIZE=9", extended=False)[0].startswith("501")
    assert say("MAIL FROM:<a@x.org>", extended=False)[0].startswith("250")
    for line in (b"MAIL FROM:<a@x.org>", b"RCPT TO:<a@x.org>", b"DATA"):
        assert Dialogue(None, Limits(1, 1, "")).answer(line).text == "503 Error: send HELO first"


def test_what_was_said_is_what_the_message_gets() -> None:
    """Addresses as they stand, SMTPUTF8 where it was said, and nothing of it for the next message."""
    _, dialogue = say("MAIL FROM:<jürgen@x.org> SMTPUTF8", 'RCPT TO:<"b c"@x.org>', "RCPT TO:<d@x.org>")
    said = dialogue.transaction
    assert (said.sender, said.utf8, said.recipients) == ("jürgen@x.org", True, ['"b c"@x.org', "d@x.org"])
    dialogue.end_message()
    assert (dialogue.transaction.sender, dialogue.transaction.recipients) == (None, [])
    assert (dialogue.client.address, dialogue.client.helo) == ("192.0.2.1", "us.example")


def test_a_client_that_says_what_nobody_understands_is_sent_away() -> None:
    """Five unknown commands end it, as those of another protocol would be."""
    dialogue = Dialogue(None, Limits(1, 1, ""))
    answers = [dialogue.answer(line) for line in (b"POST / HTTP/1.1", b"Host: x", b"A: b", b"\xff", b"X")]
    assert [answer.then for answer in answers] == ["command"] * 4 + ["end"]
    assert answers[-1].text.startswith("502")


def test_commands_without_a_message_are_counted() -> None:
    """A hundred are answered; recipients do not count, and a message begins a new count."""
    _, dialogue = say("MAIL FROM:<>")
    for _ in range(200):
        dialogue.answer(b"RCPT TO:<b@x.org>")
    assert {dialogue.answer(b"NOOP").then for _ in range(98)} == {"command"}
    assert dialogue.answer(b"NOOP").then == "refused"
    dialogue.end_message()
    assert dialogue.answer(b"NOOP").then == "command"


@given(st.lists(st.lists(st.sampled_from(WORDS + MORE), max_size=5).map(b" ".join), max_size=12))
def test_every_line_has_one_answer(lines: list[bytes]) -> None:
    """Whatever the bytes are: lines in the standard's form, in ASCII, and a message only with recipients."""
    dialogue = Dialogue(("127.0.0.1", 1), Limits(1000, 2, "mx.example"))
    for line in lines:
        answer = dialogue.answer(line + b"\r\n")
        *first, last = answer.text.split("\r\n")
        assert answer.then == "refused" or (last[:3].isdigit() and last[3:4] == " ")
        assert all(one[:3].isdigit() and one[3] == "-" for one in first)
        assert answer.text.encode().isascii()
        assert answer.then != "message" or dialogue.transaction.recipients
