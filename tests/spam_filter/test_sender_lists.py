"""Lists of senders: blocked ones are spam, allowed ones are never spam and never ham by the list."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from spam_filter.message.mail import Envelope, Mail
from spam_filter.service.sender_lists import SenderLists, read_list
from spam_filter.service.settings import SettingsError
from spam_filter.service.verdict import MailStatus, Verdict

from tests.runtime.waiting import wait_until
from tests.spam_filter.service_under_test import Running
from tests.spam_filter.test_service import HAM, SPAM, delivered, header
from tests.spam_filter.tiny_model import write_tiny_model

LISTS = SenderLists(allow=frozenset({"ann@good.example", "both.example"}), block=frozenset({"bad.example", "both.example"}))


@pytest.mark.parametrize(
    ("sender", "before", "after", "listed"),
    [
        ("ann@good.example", "spam", "unsure", "allow"),
        ("Ann@GOOD.example", "ham", "ham", "allow"),
        ("ann@good.example", "unsure", "unsure", "allow"),
        ("ann@good.example", "error", "error", "allow"),
        ("bob@good.example", "spam", "spam", ""),
        ("ann@mail.good.example", "spam", "spam", ""),
        ("x@bad.example", "ham", "spam", "block"),
        ("x@deep.mail.bad.example", "error", "spam", "block"),
        ("x@notbad.example", "ham", "ham", ""),
        ("x@both.example", "ham", "spam", "block"),
    ],
)
def test_what_a_list_makes_of_a_verdict(sender: str, before: MailStatus, after: str, listed: str) -> None:
    """By the address in From, and by that of the envelope alike; a domain stands for its subdomains, not for its namesakes."""
    in_header = Mail.parse(f"From: A <{sender}>\r\n\r\n".encode())
    in_envelope = Mail.parse(b"From: <other@else.example>\r\n\r\n", Envelope(sender, (), ""))
    for mail in (in_header, in_envelope):
        verdict = LISTS.apply(Verdict(before), mail)
        assert (verdict.status, verdict.listed) == (after, listed)


@pytest.mark.parametrize(
    "sender",
    [
        '"joe"@bad.example',
        '<"a b"@bad.example>',
        "joe @bad.example",
        "joe@ bad.example",
        "joe@(c)bad.example",
        "joe (at) @ (work) bad.example",
        "joe@\r\n bad.example",
        '"A, B" <"j\\"oe"@bad.example>',
        '"ceo@good.example" <joe@bad.example>',
        "joe@(a(b))bad.example",
        "joe@(a\\)b)bad.example",
        "joe@bad(x).example",
        "joe@bad . example",
        "joe@bad.\r\n example",
        "<joe@bad . example>",
        f'"{"j" * 100}"@bad.example',
        '"N" <"joe"@bad.example> ("" other@good.example)',
        "(unclosed <joe@bad.example>",
        '"unclosed <joe@bad.example>',
    ],
)
def test_quotes_blanks_and_comments_are_no_way_past_a_list(sender: str) -> None:
    """Around the @, around dots and before the bracket they mean nothing, as folds do."""
    mail = Mail.parse(f"From: {sender}\r\nSubject: x\r\n\r\nhi\r\n".encode())
    assert mail.sender.host == "bad.example"
    assert LISTS.apply(Verdict("ham"), mail).listed == "block"


def test_a_quoted_sender_of_the_envelope_is_looked_up() -> None:
    """As it stands in MAIL FROM."""
    mail = Mail.parse(b"From: <other@else.example>\r\n\r\n", Envelope('"a"@bad.example', (), ""))
    assert LISTS.apply(Verdict("ham"), mail).listed == "block"


def test_a_list_is_read_line_by_line(tmp_path: Path) -> None:
    """Comments and empty lines are passed over; what is no address is reported with its line."""
    path = tmp_path / "list"
    path.write_text("# ours\nAnn@Good.example  # a friend\n\nbad.example\n", encoding="utf-8")
    assert read_list("allow", path) == {"ann@good.example", "bad.example"}
    path.write_text("\ufeff.one.example\n*.two.example\n*@three.example\na*b@four.example\nmünchen.example\n", encoding="utf-8")
    plain = {"one.example", "two.example", "three.example", "a*b@four.example"}
    assert read_list("block", path) == {*plain, "xn--mnchen-3ya.example"}
    for line in ("*", "*@", "*.", ".", "*.A B"):
        path.write_text(f"{line}\n", encoding="utf-8")
        with pytest.raises(SettingsError, match=f"line 1: expected an address or a domain, got {re.escape(repr(line))}"):
            read_list("block", path)
    path.write_text("good.example\na b\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"block: .*list, line 2: expected an address or a domain, got 'a b'"):
        read_list("block", path)
    with pytest.raises(SettingsError, match=r"allow: .*none cannot be read"):
        SenderLists.read(tmp_path / "none", None)


@pytest.mark.parametrize(
    ("line", "listed", "others"),
    [
        (
            "münchen.example",
            ["münchen.example", "MÜNCHEN.example", "mu\u0308nchen.example", "XN--MNCHEN-3YA.example"],
            ["munchen.example"],
        ),
        ("xn--mnchen-3ya.example", ["münchen.example", "mail.münchen.example"], ["munchen.example"]),
        ("mu\u0308nchen.example", ["münchen.example", "xn--mnchen-3ya.example"], ["munchen.example"]),
        ("straße.example", ["straße.example", "xn--strae-oqa.example"], ["strasse.example"]),
        ("strasse.example", ["strasse.example"], ["straße.example"]),
        ("x@straße.example", ["xn--strae-oqa.example"], ["mail.straße.example"]),
    ],
)
def test_letters_beyond_ascii_match_however_they_are_written(
    tmp_path: Path, line: str, listed: list[str], others: list[str]
) -> None:
    """Composed or not, or as DNS has them, in the list and in the message; ß is a letter of its own."""
    (tmp_path / "list").write_text(f"{line}\n", encoding="utf-8")
    lists = SenderLists.read(None, tmp_path / "list")
    for domain in (*listed, *others):
        sender = f"x@{domain}"
        for mail in (Mail.parse(f"From: <{sender}>\r\n\r\n".encode()), Mail.parse(b"", Envelope(sender, (), ""))):
            assert lists.apply(Verdict("ham"), mail).status == ("spam" if domain in listed else "ham"), domain


@given(host=st.text(min_size=1, max_size=50))
def test_whatever_a_message_names_can_be_looked_up(host: str) -> None:
    """For any text: no error."""
    assert LISTS.apply(Verdict("ham"), Mail.parse(b"", Envelope(f"x@{host}", (), ""))).status in ("ham", "spam")


def test_the_service_uses_them_and_reads_them_again(tmp_path: Path) -> None:
    """A blocked sender is spam, an allowed one unsure, each with a header; SIGHUP takes up new lists, bad ones leave the old."""
    model, mail = write_tiny_model(tmp_path / "model"), tmp_path / "mail"
    allow, block = tmp_path / "allow", tmp_path / "block"
    allow.write_text("friend@example.org\n", encoding="utf-8")
    block.write_text("bad.example\n", encoding="utf-8")
    arguments = ("--model", str(model), "--maildir", str(mail), "--allow", str(allow), "--block", str(block))

    def verdict(raw: bytes, sender: str) -> tuple[str, bool]:
        content = delivered(running, mail, b"X-Emsco-List: forged\r\n" + raw, sender=sender)
        return header(content, "Status"), b"X-Emsco-List: " in content

    with Running(*arguments) as running:
        assert verdict(HAM, "x@bad.example") == ("spam", True)
        assert verdict(SPAM, "friend@example.org") == ("unsure", True)
        assert verdict(HAM, "a@example.org") == ("ham", False)
        block.write_text("a b c\n", encoding="utf-8")
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: running.metric('spam_filter_reloads_total{outcome="failed"}') == 1, "the bad list is noticed")
        assert verdict(HAM, "x@bad.example") == ("spam", True)
        block.write_text("a@example.org\n", encoding="utf-8")
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: running.metric('spam_filter_reloads_total{outcome="done"}') == 1, "the new list is taken up")
        assert verdict(HAM, "x@bad.example") == ("ham", False)
        assert verdict(HAM, "a@example.org") == ("spam", True)
