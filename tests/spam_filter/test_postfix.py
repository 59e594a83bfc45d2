"""Behind a real Postfix, with the very lines of the page."""

from __future__ import annotations

import shutil
import smtplib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.waiting import wait_until
from tests.spam_filter.postfix import Postfix, page_lines, skip_reason
from tests.spam_filter.service_under_test import HOST, Running
from tests.spam_filter.tiny_model import write_tiny_model

# With all that Postfix would add if it were missing.
HEADER = (
    b"From: a@elsewhere.example\r\nDate: Mon, 5 Jan 2026 10:00:00 +0000\r\nMessage-ID: <1@elsewhere.example>\r\nSubject: %s\r\n"
)
TEXT = b"\r\nBUY BUY BUY\r\n.\r\n.dot\r\ncaf\xe9\r\n"
SPAM = b"X-Emsco-Status: ham\r\n" + HEADER + TEXT


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that the users of Postfix can reach, unlike pytest's."""
    path = Path(tempfile.mkdtemp(prefix="postfix-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def send(postfix: Postfix, subject: bytes, *recipients: str) -> None:
    """Hand a message to Postfix, as another mail server would."""
    with smtplib.SMTP(HOST, postfix.port, timeout=60) as client:
        client.sendmail("a@elsewhere.example", list(recipients), SPAM % subject, ["BODY=8BITMIME"])


def test_the_page_keeps_mail_from_going_round() -> None:
    """The server that takes mail back has no filter, and listens where no other machine can reach it."""
    master = page_lines("master.cf")
    assert "127.0.0.1:10026 inet" in master
    assert "-o content_filter=\n" in master
    assert "content_filter = emsco:[127.0.0.1]:10025" in page_lines("main.cf")


@pytest.mark.skipif(skip_reason() is not None, reason=str(skip_reason()))
def test_mail_passes_the_filter_and_waits_for_it_when_it_is_away(folder: Path, tmp_path: Path) -> None:
    """Marked, forged headers gone, text intact, a copy for each recipient; without the filter it waits in the queue."""
    model = write_tiny_model(tmp_path / "model")
    running = Running("--model", str(model))
    with Postfix(folder, running.port) as postfix:
        running.more = ("--next-hop", f"{HOST}:{postfix.back_port}")
        with running:
            send(postfix, b"first", "b@example.org", "c@example.org")
            wait_until(lambda: len(postfix.inbox) == 2, f"both copies arrive\n{postfix.log}")
            for content in postfix.inbox:
                assert content.lower().count(b"x-emsco-status") == 1
                assert b"X-Emsco-Status: spam\n" in content
                assert content.endswith((HEADER % b"first" + TEXT).replace(b"\r", b""))
            assert {line for content in postfix.inbox for line in content.splitlines() if line.startswith(b"X-Original-To")} == {
                b"X-Original-To: b@example.org",
                b"X-Original-To: c@example.org",
            }
            # The filter knows whom Postfix has a message from.
            with smtplib.SMTP(HOST, postfix.port, local_hostname="client.example", timeout=60) as client:
                client.sendmail("a@elsewhere.example", ["b@example.org"], HEADER % b"!client!" + b"\r\n")
            wait_until(lambda: len(postfix.inbox) == 3, f"it arrives\n{postfix.log}")
            assert [one for one in postfix.inbox if b"!client!" in one and b"X-Emsco-Status: spam\n" in one]
            assert running.end() == 0
            send(postfix, b"second", "b@example.org")
            wait_until(lambda: "Connection refused" in postfix.log, f"Postfix notices\n{postfix.log}")
            assert len(postfix.inbox) == 3
            running.start()
            postfix.flush()
            wait_until(lambda: len(postfix.inbox) == 4, f"it arrives when the filter is back\n{postfix.log}")
        assert "status=bounced" not in postfix.log
        assert "passed on: " in postfix.log
