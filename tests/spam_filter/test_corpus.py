"""Labelled mail: every layout is read, near-duplicates are found, and no family is on both sides of a split."""

from __future__ import annotations

import csv
import mailbox
import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from spam_filter.errors import CorpusError
from spam_filter.message.mail import Mail
from spam_filter.synthetic.generator import generate
from spam_filter.training.corpus import LabelledMail, read_corpus, read_pair, received_time
from spam_filter.training.splitting import SHARES, find_families, split_mail

MAILS = list(generate(30, seed=7))
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)


def as_pairs(mails: list[LabelledMail]) -> set[tuple[str, bytes]]:
    """Return label and bytes of each message."""
    return {(mail.label, mail.raw) for mail in mails}


def test_a_folder_of_two_folders_is_read(tmp_path: Path) -> None:
    """`spam` and `ham` are labels; hidden files are ignored."""
    for one in MAILS:
        (tmp_path / one.label).mkdir(exist_ok=True)
        (tmp_path / one.label / one.source).write_bytes(one.raw)
    (tmp_path / "ham" / ".hidden").write_bytes(b"x")
    assert as_pairs(read_corpus(tmp_path)) == as_pairs(MAILS)


def test_a_folder_with_labels_is_read(tmp_path: Path) -> None:
    """`labels.csv` names file, label and time; without a time, the one of the message."""
    lines = ["file,label,received"]
    for place, one in enumerate(MAILS):
        (tmp_path / one.source).write_bytes(one.raw)
        lines.append(f"{one.source},{one.label},{'2020-01-02T03:04:05' if place == 0 else ''}")
    (tmp_path / "labels.csv").write_text("\n".join(lines), encoding="utf-8")
    found = read_corpus(tmp_path)
    assert as_pairs(found) == as_pairs(MAILS)
    assert found[0].received == datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert found[1].received == received_time(MAILS[1].raw)


def test_maildirs_and_mboxes_are_read(tmp_path: Path) -> None:
    """A Maildir of spam and an mbox of ham give the same messages, but for what an mbox changes: line ends, `From` in lines."""
    spam = mailbox.Maildir(tmp_path / "spam")
    ham = mailbox.mbox(tmp_path / "ham.mbox")
    for one in MAILS:
        (spam if one.label == "spam" else ham).add(one.raw)
    ham.close()
    spam.close()

    def plain(raw: bytes) -> bytes:
        return raw.replace(b"\r\n", b"\n").replace(b"\n>From ", b"\nFrom ").rstrip()

    expected = {(label, plain(raw)) for label, raw in as_pairs(MAILS)}
    for found in (read_corpus(tmp_path), read_pair(tmp_path / "spam", tmp_path / "ham.mbox")):
        assert {(mail.label, plain(mail.raw)) for mail in found} == expected


def test_what_is_no_corpus_is_refused(tmp_path: Path) -> None:
    """Each error is named: no folder, no labels, no messages, unknown labels, files outside, and invalid times."""
    with pytest.raises(CorpusError, match="the folder does not exist"):
        read_corpus(tmp_path / "missing")
    with pytest.raises(CorpusError, match="nor both of spam and ham"):
        read_corpus(tmp_path)
    (tmp_path / "spam").mkdir()
    (tmp_path / "ham").mkdir()
    with pytest.raises(CorpusError, match="found no message"):
        read_corpus(tmp_path)
    with pytest.raises(CorpusError, match="no such file or folder"):
        read_pair(tmp_path / "spam", tmp_path / "missing")
    for text, message in (
        ("file,label\na,maybe", "ham or spam"),
        ("file,label\n../x,ham", "outside the folder"),
        ("file,label\nmissing,ham", "cannot be read"),
        ("file,label,received\nm.eml,ham,yesterday", "got 'yesterday'"),
    ):
        (tmp_path / "m.eml").write_bytes(b"\n\n")
        (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
        with pytest.raises(CorpusError, match=message):
            read_corpus(tmp_path)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (b"file,label\nm\xfc.eml,ham\n", "byte 0xfc is not UTF-8: save the file as UTF-8"),
        (b"file,label\nm.eml,ham\nm\0.eml,ham\n", "holds a NUL|contains NUL"),
        (b"file,label\n" + b"m" * 200_000 + b",ham\n", "not readable as CSV"),
    ],
)
def test_labels_that_are_no_text_are_refused_in_one_line(tmp_path: Path, labels: bytes, message: str) -> None:
    """Bytes of another encoding, a NUL in a name, and a field without end are named with the file."""
    (tmp_path / "m.eml").write_bytes(MAILS[0].raw)
    (tmp_path / "labels.csv").write_bytes(labels)
    # That of a new process: commands of other tests may have raised it.
    before = csv.field_size_limit(131_072)
    try:
        with pytest.raises(CorpusError, match=message) as raised:
            read_corpus(tmp_path)
    finally:
        csv.field_size_limit(before)
    assert "labels.csv: " in str(raised.value)
    assert "\n" not in str(raised.value)


def test_labels_as_excel_writes_them_are_read(tmp_path: Path) -> None:
    """A byte order mark is no part of the first column's name."""
    (tmp_path / "m.eml").write_bytes(MAILS[0].raw)
    (tmp_path / "labels.csv").write_bytes(b"\xef\xbb\xbffile,label\r\nm.eml,spam\r\n")
    assert as_pairs(read_corpus(tmp_path)) == {("spam", MAILS[0].raw)}


def test_the_time_of_a_message_is_that_of_its_last_hop() -> None:
    """Received beats Date, and a message without either is the oldest."""
    hop = b"Received: from a by b; Mon, 1 Jan 2024 10:00:00 +0000\n"
    date = b"Date: Mon, 1 Jan 2024 09:00:00 +0000\n"
    assert received_time(hop + date + b"\n") == datetime(2024, 1, 1, 10, tzinfo=UTC)
    assert received_time(date + b"\n") == datetime(2024, 1, 1, 9, tzinfo=UTC)
    assert received_time(b"\n") < EPOCH


def test_copies_are_one_family_and_other_texts_are_not() -> None:
    """A copy with another name, number and link is family; ninety letters from the same word lists are not."""
    text = " ".join(f"word{chr(97 + place % 26)}{chr(97 + place // 26)}" for place in range(60))
    copies = [Mail.parse(f"Subject: {number}\n\nDear {name},\n{text}\n{number}".encode()) for number, name in enumerate("AB")]
    others = [Mail.parse(one.raw) for one in generate(90, seed=1)]
    found = find_families([*copies, *others])
    assert found[0] == found[1]
    assert len(set(found[2:])) >= 88
    assert find_families([Mail.parse(b""), Mail.parse(b""), Mail.parse(b"\n\n123")]) == [0, 0, 2]


@given(st.data())
def test_no_family_is_on_both_sides_of_a_split(data: st.DataObject) -> None:
    """Families stay whole, every split has both labels, and the shares are near those asked for."""
    count = data.draw(st.integers(40, 120))
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    group = [family for family, size in enumerate(sizes) for _ in range(size)]
    mails = [
        LabelledMail(b"", "spam" if family % 3 == 0 else "ham", EPOCH + timedelta(hours=place % 17), str(place))
        for place, family in enumerate(group)
    ]
    by = data.draw(st.sampled_from(["time", "families"]))
    splits = split_mail(mails, group, by, seed=data.draw(st.integers(0, 5)))
    where = {family: {split for split, its in zip(splits, group, strict=True) if its == family} for family in set(group)}
    assert all(len(found) == 1 for found in where.values())
    for label in ("ham", "spam"):
        counts = Counter(split for split, mail in zip(splits, mails, strict=True) if mail.label == label)
        for name, share in SHARES:
            assert counts[name] >= 1
            assert abs(counts[name] - share * counts.total()) <= 3


def test_by_time_the_earliest_train_and_the_latest_certify() -> None:
    """Within each label, no message of a later split is older than one of an earlier split."""
    mails = [LabelledMail(b"", "spam" if place % 2 else "ham", EPOCH - timedelta(hours=place), str(place)) for place in range(80)]
    splits = split_mail(mails, list(range(80)), "time")
    order = [name for name, _ in SHARES]
    for label in ("ham", "spam"):
        sorted_mails = sorted(
            (mail.received, order.index(split)) for split, mail in zip(splits, mails, strict=True) if mail.label == label
        )
        ranks = [rank for _, rank in sorted_mails]
        assert ranks == sorted(ranks)


def test_too_little_mail_and_unknown_ways_are_refused() -> None:
    """Four splits need four families of each label; a way to split has a name that is known."""
    mails = [LabelledMail(b"", "spam" if place < 3 else "ham", EPOCH, str(place)) for place in range(20)]
    with pytest.raises(CorpusError, match="3 different messages are spam"):
        split_mail(mails, list(range(20)), "families")
    with pytest.raises(CorpusError, match="split must be time or families"):
        split_mail(mails, list(range(20)), "colour")  # type: ignore[arg-type]


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its mail would be missing without a word; this runs as root too, whom nothing is denied."""
    for name in ("cur", "new"):
        (tmp_path / "spam" / name).mkdir(parents=True)
        (tmp_path / "spam" / name / "a").write_bytes(b"Subject: x\r\n\r\nx\r\n")
    scan = os.scandir

    def refuse_new(path: str) -> Any:
        if Path(path).name == "new":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse_new)
    with pytest.raises(CorpusError, match=r"new: cannot be listed \(Permission denied\): let it be read"):
        read_pair(tmp_path / "spam", tmp_path / "spam")
