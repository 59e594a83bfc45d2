"""Delivery: safe on the disk or at the next hop, or the sender keeps the message."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from spam_filter.service import maildir
from spam_filter.service.delivery import make_delivery
from spam_filter.service.endpoint import Endpoint
from spam_filter.service.mailboxes import Mailboxes, safe_name
from spam_filter.service.maildir import MaildirFolder
from spam_filter.service.next_hop import NextHop, can_be_smuggled, stuff_dots
from spam_filter.service.outgoing import OutgoingMessage
from spam_filter.service.settings import Settings, SettingsError

from tests.spam_filter.fake_next_hop import FakeNextHop
from tests.spam_filter.service_under_test import HOST, free_port

CONTENT = (
    b"X-Emsco-Status: ham\r\nSubject: x\r\n\r\n.\r\n..\r\n.dot\r\nlone \n and \r here\n.x\xff\x00\r\n"
    + b"long" * 50_000
    + b"\r\n"
)
MESSAGE = OutgoingMessage(CONTENT, "a@example.org", ("b@example.org",))


ENVELOPE = b"Return-Path: <a@example.org>\r\nDelivered-To: b@example.org\r\n"


def stored(folder: Path) -> list[bytes]:
    """Return the messages of a Maildir."""
    return [path.read_bytes() for path in (folder / "new").iterdir()]


def next_hop_for(hop: FakeNextHop, timeout_s: float = 10.0) -> NextHop:
    """Return the delivery to a hop."""
    return NextHop(Endpoint(HOST, hop.port), "filter.example", timeout_s)


def test_maildir_holds_the_very_bytes_and_no_rest(tmp_path: Path) -> None:
    """What was handed in is in new/ after its envelope, byte by byte; tmp/ is empty; only its owner may read it."""
    receipt = Mailboxes(tmp_path / "mail", "host").deliver(MESSAGE)
    assert (receipt.outcome, receipt.reply[:3]) == ("delivered", "250")
    assert stored(tmp_path / "mail") == [ENVELOPE + CONTENT]
    assert not list((tmp_path / "mail" / "tmp").iterdir())
    assert next((tmp_path / "mail" / "new").iterdir()).stat().st_mode & 0o777 == 0o600


def test_maildir_syncs_the_file_before_and_the_folder_after_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order that survives a power cut: write, sync the file, rename, sync the folder; and only then the answer."""
    maildir = Mailboxes(tmp_path, "host")
    order: list[str] = []
    sync, rename = os.fsync, os.rename

    def fsync(descriptor: int) -> None:
        order.append("sync " + Path(f"/proc/self/fd/{descriptor}").readlink().parent.name)
        sync(descriptor)

    def renamed(path: str, target: str) -> None:
        order.append("rename")
        rename(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", renamed)
    maildir.deliver(MESSAGE)
    assert order == ["sync tmp", "rename", f"sync {tmp_path.name}"]


def test_maildir_writes_all_of_a_message_however_little_the_system_takes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system call may write a few bytes of many: the rest follows, in order."""
    write = os.write
    monkeypatch.setattr(os, "writev", lambda descriptor, pieces: write(descriptor, pieces[0][:5]))
    monkeypatch.setattr(os, "write", lambda descriptor, rest: write(descriptor, rest[:7]))
    assert Mailboxes(tmp_path / "mail", "host").deliver(MESSAGE).outcome == "delivered"
    assert stored(tmp_path / "mail") == [ENVELOPE + CONTENT]


@pytest.mark.parametrize("step", ["fsync", "rename"])
def test_maildir_that_fails_defers_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """A full disk is a 4xx, so that the sender keeps the message; no half message stays behind."""
    maildir = Mailboxes(tmp_path, "host")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left\r\non device")

    monkeypatch.setattr(os, step, full)
    receipt = maildir.deliver(MESSAGE)
    assert (receipt.outcome, receipt.reply) == ("deferred", "452 4.3.1 not stored: No space left on device")
    assert not list((tmp_path / "tmp").iterdir())
    assert not list((tmp_path / "new").iterdir())


def test_maildir_names_are_unique_across_threads(tmp_path: Path) -> None:
    """Eight threads, and two objects for the same folder: as many files as messages."""
    maildirs = [Mailboxes(tmp_path, "ho/st:x"), Mailboxes(tmp_path, "other")]
    texts = [[f"{worker}-{number}".encode() for number in range(25)] for worker in range(8)]

    def deliver(worker: int) -> None:
        for text in texts[worker]:
            maildirs[worker % 2].deliver(OutgoingMessage(text, "", ("b",)))

    threads = [threading.Thread(target=deliver, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    head = b"Return-Path: <>\r\nDelivered-To: b\r\n"
    assert sorted(stored(tmp_path)) == sorted(head + text for worker in texts for text in worker)


def test_each_recipient_has_a_file_with_the_envelope(tmp_path: Path) -> None:
    """A thousand recipients are a thousand files in one Maildir, each under its own name; one that is named twice has one."""
    recipients = tuple(f"user{number}@example.org" for number in range(1000))
    message = OutgoingMessage(b"Subject: x\r\n\r\n", "jürgen@example.org", (*recipients, recipients[0]), utf8=True)
    assert Mailboxes(tmp_path, "host").deliver(message).outcome == "delivered"
    head = "Return-Path: <jürgen@example.org>\r\nDelivered-To: {}\r\nSubject: x\r\n\r\n"
    assert sorted(stored(tmp_path)) == sorted(head.format(recipient).encode() for recipient in recipients)


def test_each_recipient_may_have_a_maildir(tmp_path: Path) -> None:
    """Names come from the address; whatever it holds, the Maildir lies where the path says."""
    mailboxes = Mailboxes(tmp_path / "{domain}" / "{user}" / "Maildir", "host")
    recipients = ("Ann@X.org", "../../etc/passwd@x.org", "/@..", "root", "x" * 300 + "@x.org")
    assert mailboxes.deliver(OutgoingMessage(b"", "", recipients)).outcome == "delivered"
    found = {path.parents[1].relative_to(tmp_path).as_posix() for path in tmp_path.rglob("new/*")}
    assert {name for name in found if len(name) < 100} == {
        "x.org/ann/Maildir",
        "x.org/%2e.%2f..%2fetc%2fpasswd/Maildir",
        "%2e./%2f/Maildir",
        "%/root/Maildir",
    }
    assert len(found) == len(recipients)
    assert {path.name for path in tmp_path.iterdir()} == {"x.org", "%2e.", "%"}


@pytest.mark.parametrize("path", ["{domain}/{user}", "all"])
def test_a_maildir_that_was_removed_is_made_again(tmp_path: Path, path: str) -> None:
    """A mailbox that is deleted and wanted again needs no restart of the service."""
    mailboxes, message = Mailboxes(tmp_path / path, "host"), OutgoingMessage(b"Subject: x\r\n\r\n", "", ("ann@x.org",))
    assert mailboxes.deliver(message).outcome == "delivered"
    for folder in tmp_path.iterdir():
        shutil.rmtree(folder)
    assert mailboxes.deliver(message).outcome == "delivered"
    assert len(list(tmp_path.rglob("new/*"))) == 1


@pytest.mark.parametrize("path", ["{domain}/{user}", "all", "."])
def test_no_maildir_is_made_below_an_empty_mount_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """A volume that is not mounted: the sender keeps the message, of new recipients too; when it is back, it is taken."""
    volume = tmp_path / "volume"
    mounts = {Path("/"), volume}
    monkeypatch.setattr(Path, "is_mount", lambda one: one in mounts)
    mailboxes = Mailboxes(volume / path, "host")
    messages = [OutgoingMessage(b"Subject: x\r\n\r\n", "", (recipient,)) for recipient in ("ann@x.org", "bob@x.org")]
    assert mailboxes.deliver(messages[0]).outcome == "delivered"
    mounts.remove(volume)
    volume.rename(tmp_path / "unmounted")
    volume.mkdir()
    for message in messages:
        receipt = mailboxes.deliver(message)
        assert (receipt.outcome, receipt.reply) == ("deferred", "452 4.3.1 not stored: the volume of the mail is not mounted")
    assert not list(volume.iterdir())
    volume.rmdir()
    (tmp_path / "unmounted").rename(volume)
    mounts.add(volume)
    assert [mailboxes.deliver(message).outcome for message in messages] == ["delivered", "delivered"]
    assert len(list(volume.rglob("new/*"))) == 3


def test_a_maildir_that_was_removed_makes_no_other_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One mailbox of many is deleted: it alone is made again."""
    mailboxes = Mailboxes(tmp_path / "{user}", "host")
    mailboxes.deliver(OutgoingMessage(b"", "", ("ann@x.org", "bob@x.org")))
    shutil.rmtree(tmp_path / "ann")
    made: list[str] = []

    def make(path: Path, hostname: str) -> MaildirFolder:
        made.append(path.name)
        return MaildirFolder(path, hostname)

    monkeypatch.setattr("spam_filter.service.mailboxes.MaildirFolder", make)
    assert mailboxes.deliver(OutgoingMessage(b"", "", ("ann@x.org", "bob@x.org"))).outcome == "delivered"
    assert made == ["ann"]


def test_a_maildir_without_its_new_is_mended_at_the_next_attempt(tmp_path: Path) -> None:
    """The sender keeps the message once, and no half of it stays behind."""
    mailboxes, message = Mailboxes(tmp_path / "{user}", "host"), OutgoingMessage(b"", "", ("ann@x.org", "bob@x.org"))
    mailboxes.deliver(message)
    shutil.rmtree(tmp_path / "bob" / "new")
    receipt = mailboxes.deliver(message)
    assert (receipt.outcome, receipt.reply) == ("deferred", "452 4.3.1 not stored: No such file or directory")
    assert not list(tmp_path.rglob("tmp/*"))
    assert mailboxes.deliver(message).outcome == "delivered"
    assert len(stored(tmp_path / "bob")) == 1


@given(text=st.text(max_size=400))
def test_a_safe_name_is_one_plain_name(text: str) -> None:
    """For any text: one component, no way up, no hidden file, not too long; texts that differ by more than case stay apart."""
    name = safe_name(text)
    assert name.isascii()
    assert name.isprintable()
    assert not name.startswith((".", "-"))
    assert "/" not in name
    assert 0 < len(name) < 200
    assert safe_name(f"{text}%") != name


def test_all_recipients_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full at the third of five, none of them sees the message, and the sender keeps it."""
    mailboxes = Mailboxes(tmp_path / "{user}", "host")
    sync, syncs = os.fsync, iter(range(1000))

    def full(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().parent.name == "tmp" and next(syncs) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    receipt = mailboxes.deliver(OutgoingMessage(b"", "", tuple(f"user{number}@x.org" for number in range(5))))
    assert (receipt.outcome, receipt.reply[:3]) == ("deferred", "452")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_other_names_in_braces_are_refused(tmp_path: Path) -> None:
    """A name that nobody replaces would be a folder of that name."""
    with pytest.raises(SettingsError, match=r"maildir: expected \{recipient\}, \{user\} or \{domain\} in braces, got \{name\}"):
        make_delivery(Settings(tmp_path, maildir=tmp_path / "{name}"))


def test_maildir_sweeps_what_a_crash_left_long_ago(tmp_path: Path) -> None:
    """Files in tmp/ older than 36 hours go; younger ones may be another process's."""
    Mailboxes(tmp_path, "host")
    old, young = tmp_path / "tmp" / "old", tmp_path / "tmp" / "young"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 40 * 3600,) * 2)
    # What cannot be removed as a file is no reason to refuse mail.
    (tmp_path / "tmp" / "folder").mkdir()
    os.utime(tmp_path / "tmp" / "folder", (0, 0))
    Mailboxes(tmp_path, "host")
    assert not old.exists()
    assert young.exists()


def test_a_maildir_whose_parent_may_not_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As below /home: what cannot be opened there cannot be synced, and mail is delivered."""
    sync = maildir.sync_folder

    def refuse_parent(path: Path) -> None:
        if path == tmp_path:
            raise PermissionError(13, "Permission denied")
        sync(path)

    monkeypatch.setattr(maildir, "sync_folder", refuse_parent)
    box = tmp_path / "box"
    assert Mailboxes(box, "host").deliver(MESSAGE).outcome == "delivered"
    assert len(stored(box)) == 1


@pytest.mark.parametrize("extensions", [(), ("CHUNKING",)])
def test_the_next_hop_gets_the_very_bytes(extensions: tuple[str, ...]) -> None:
    """Dots, bare line ends, bytes that are not text and a very long line arrive as they were, with DATA and with BDAT."""
    with FakeNextHop(*extensions) as hop:
        receipt = next_hop_for(hop).deliver(MESSAGE)
        assert (receipt.outcome, receipt.reply) == ("delivered", "250 2.0.0 passed on: taken")
        assert hop.messages == [CONTENT]
        assert ("DATA" in hop.commands) == (not extensions)


def test_the_next_hop_is_told_what_it_knows_and_no_more() -> None:
    """SIZE, 8BITMIME and SMTPUTF8 are said where they are offered; the empty sender of a bounce stays empty."""
    with FakeNextHop("SIZE", "8BITMIME", "SMTPUTF8") as hop:
        next_hop_for(hop).deliver(OutgoingMessage(b"\xc3\xa9\r\n", "jürgen@example.org", ("é@example.org",), utf8=True))
        assert hop.commands[1:3] == [
            "MAIL FROM:<jürgen@example.org> SIZE=4 BODY=8BITMIME SMTPUTF8",
            "RCPT TO:<é@example.org>",
        ]
    with FakeNextHop() as hop:
        next_hop_for(hop).deliver(OutgoingMessage(b"\xc3\xa9\r\n", "", ("b@example.org",)))
        assert hop.commands[1] == "MAIL FROM:<>"


@pytest.mark.parametrize("word", ["MAIL", "RCPT", "DATA", "."])
@pytest.mark.parametrize(
    ("answer", "outcome", "reply"),
    [
        ("550 5.1.1 no such user", "refused", "550 5.1.1 no such user"),
        ("552-too\r\n552 large", "refused", "552 too large"),
        ("450 4.2.0 busy", "deferred", "450 4.2.0 busy"),
        ("421 closing", "deferred", "451 closing"),
        ("299 what", "deferred", "451 what"),
        ("", "deferred", "451 4.4.1 the next hop does not answer: SMTPServerDisconnected"),
    ],
)
def test_what_the_next_hop_says_is_passed_on(word: str, answer: str, outcome: str, reply: str) -> None:
    """A 5xx is the sender's to know, a 4xx too; 421 becomes 451, since it is not we who hang up; silence is a 4xx."""
    with FakeNextHop(answers={word: answer}) as hop:
        receipt = next_hop_for(hop).deliver(MESSAGE)
        assert (receipt.outcome, receipt.reply) == (outcome, reply)
        assert not hop.messages


@pytest.mark.parametrize("answer", ["554 go away", "421 not now", "", "nonsense"])
def test_a_next_hop_in_trouble_never_makes_us_refuse(answer: str) -> None:
    """A server that does not even greet says nothing about the message: the sender keeps it."""
    with FakeNextHop(answers={"connect": answer}) as hop:
        receipt = next_hop_for(hop).deliver(MESSAGE)
    assert (receipt.outcome, receipt.reply[:3]) == ("deferred", "451")
    if answer[:3].isdigit():
        code = answer[:3]
        assert receipt.reply == f"451 4.4.1 the next hop does not talk to us: SMTPConnectError, code {code}"


def test_a_next_hop_that_is_away_or_silent_defers() -> None:
    """Nobody listens, or somebody listens and says nothing: 451 either way."""
    away = NextHop(Endpoint(HOST, free_port()), "filter.example", 5.0).deliver(MESSAGE)
    assert (away.outcome, away.reply) == ("deferred", "451 4.4.1 the next hop does not answer: ConnectionRefusedError")
    silent = FakeNextHop()
    with silent:
        silent._answer = lambda *_: True  # type: ignore[method-assign]
        receipt = next_hop_for(silent, 0.2).deliver(MESSAGE)
    assert (receipt.outcome, receipt.reply) == ("deferred", "451 4.4.1 the next hop does not answer: SMTPServerDisconnected")


def test_a_goodbye_that_fails_does_not_undo_a_delivery() -> None:
    """The message was taken; that the hop hangs up without a word afterwards must not make the sender send it again."""
    with FakeNextHop(answers={"QUIT": ""}) as hop:
        assert next_hop_for(hop).deliver(MESSAGE).outcome == "delivered"


def test_smtputf8_that_the_next_hop_cannot_take_is_refused() -> None:
    """RFC 6531: such a message is not passed to a server that does not offer it."""
    with FakeNextHop("8BITMIME") as hop:
        receipt = next_hop_for(hop).deliver(OutgoingMessage(b"\r\n", "jürgen@example.org", ("b@example.org",), utf8=True))
        assert (receipt.outcome, receipt.reply[:9]) == ("refused", "550 5.6.7")
        assert not any(command.startswith("MAIL") for command in hop.commands)


def test_a_message_with_a_false_end_is_smuggled_nowhere() -> None:
    """A lone dot between bare line ends goes on where its length is announced, and is refused where it could end the message."""
    message = OutgoingMessage(b"a\n.\r\nMAIL FROM:<evil>\r\n", "a@example.org", ("b@example.org",))
    with FakeNextHop() as hop:
        receipt = next_hop_for(hop).deliver(message)
        assert (receipt.outcome, receipt.reply[:9]) == ("refused", "554 5.6.0")
        assert not hop.messages
    with FakeNextHop("CHUNKING") as hop:
        assert next_hop_for(hop).deliver(message).outcome == "delivered"
        assert hop.messages == [message.content]


@given(
    content=st.lists(st.sampled_from([b"\r\n", b"\n", b"\r", b".", b"a"]), max_size=12).map(
        lambda parts: b"".join(parts) + b"\r\n"
    )
)
def test_the_only_end_is_at_the_end(content: bytes) -> None:
    """For any line ends and dots: one true end, the last bytes; without false ends no careless reader sees another."""
    text = stuff_dots(content)
    assert text.endswith(b"\r\n.\r\n")
    assert (b"\r\n" + text).find(b"\r\n.\r\n") == len(text) - 3
    if not can_be_smuggled(content):
        careless = (b"\n" + text).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        assert careless.find(b"\n.\n") == len(careless) - 3


def test_a_message_without_a_last_line_break_gets_one_for_the_end() -> None:
    """Nothing that came by SMTP is like that; the end must be right all the same."""
    assert stuff_dots(b"a") == b"a\r\n.\r\n"
    assert stuff_dots(b"") == b".\r\n"


def test_settings_choose_the_place(tmp_path: Path) -> None:
    """A Maildir or a next hop; a Maildir that cannot be created is reported in one sentence."""
    assert isinstance(make_delivery(Settings(tmp_path, maildir=tmp_path / "m")), Mailboxes)
    assert isinstance(make_delivery(Settings(tmp_path, next_hop=Endpoint(HOST, 25))), NextHop)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SettingsError, match=r"maildir: .*file/m cannot be used: Not a directory; make it writable"):
        make_delivery(Settings(tmp_path, maildir=tmp_path / "file" / "m"))
