"""Synthetic mail: the same seed gives the same mail, both kinds are there, and some of it is broken."""

from __future__ import annotations

import email
from itertools import pairwise
from pathlib import Path

import pytest
from spam_filter.__main__ import main as command
from spam_filter.cli.generate import main
from spam_filter.synthetic.generator import FIRST_DAY, SPAM_SHARE, generate
from spam_filter.training.corpus import read_corpus


def test_the_same_seed_gives_the_same_mail_and_another_seed_another() -> None:
    """Messages depend on the seed alone."""
    assert list(generate(20, seed=1)) == list(generate(20, seed=1)) != list(generate(20, seed=2))


def test_it_has_times_senders_both_kinds_and_defects() -> None:
    """Times go up, spam has its share, senders differ, and some messages have defects or bytes that are not UTF-8."""
    mails = list(generate(400, seed=3))
    assert mails[0].received >= FIRST_DAY
    assert all(one.received < two.received for one, two in pairwise(mails))
    assert abs(sum(mail.label == "spam" for mail in mails) / 400 - SPAM_SHARE) < 0.1
    parsed = [email.message_from_bytes(mail.raw) for mail in mails]
    assert len({str(message["From"]) for message in parsed}) > 100
    assert any(message.is_multipart() for message in parsed)
    assert any(part.defects for message in parsed for part in message.walk())
    assert any(b"\xa4\xfe" in mail.raw for mail in mails)


def test_the_command_writes_a_corpus_that_can_be_read(tmp_path: Path) -> None:
    """What `generate` writes, `train` reads; an existing folder is not touched."""
    assert main(["--out", str(tmp_path / "mail"), "--count", "25", "--seed", "4"]) == 0
    assert read_corpus(tmp_path / "mail") == list(generate(25, seed=4))
    assert main(["--out", str(tmp_path / "mail")]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["generate", "--out", "mail", "--count", "-3"],
            "spam_filter generate: --count must be at least 1, got -3",
        ),
        (["generate", "--out", "."], "spam_filter generate: . already exists: name a new folder"),
        (["load", "nowhere"], "load: nowhere: the folder does not exist: give the one that train wrote"),
    ],
)
def test_wrong_use_is_reported_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be done names the thing and the remedy, and leaves nothing behind."""
    monkeypatch.chdir(tmp_path)
    assert command(arguments) == 1
    assert capsys.readouterr().err == f"{message}\n"
    assert list(tmp_path.iterdir()) == []
