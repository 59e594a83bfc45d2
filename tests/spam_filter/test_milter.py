"""The milter: by a conversation of our own, by Debian's miltertest, and inside a real Postfix."""

from __future__ import annotations

import asyncio
import shutil
import signal
import smtplib
import socket
import struct
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from prometheus_client import CollectorRegistry
from spam_filter.message.mail import Envelope
from spam_filter.service.metrics import ServiceMetrics
from spam_filter.service.milter import Milter
from spam_filter.service.milter_packets import NO_REPLY, Packet, PacketError, negotiate
from spam_filter.service.verdict import Verdict
from spam_filter.training.pipeline import TrainedModel

from tests.runtime.waiting import wait_until
from tests.spam_filter.postfix import Postfix, skip_reason
from tests.spam_filter.service_under_test import HOST, Running, worker_processes
from tests.spam_filter.tiny_model import write_tiny_model
from tests.spam_filter.traffic import Traffic

MILTERTEST = shutil.which("miltertest")
ALL_OPTIONS = Packet(b"O", struct.pack("!LLL", 6, 0x1FF, 0x1FFFFF))
CONNECT = Packet(b"C", b"mx.example\x004\x00\x19192.0.2.7\0")


class Verdicts:
    """Returns the verdict that it was given, and notes what it is asked."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict_given = verdict
        self.asked: list[tuple[bytes, Envelope]] = []

    async def verdict(self, message_id: str, raw: bytes, envelope: Envelope) -> Verdict:
        """Return the verdict."""
        self.asked.append((raw, envelope))
        return self.verdict_given


def milter(verdicts: Verdicts, *, on_error: str = "accept", max_bytes: int = 1 << 20) -> Milter:
    """Return a milter with such verdicts."""
    return Milter(verdicts, ServiceMetrics(CollectorRegistry()), max_bytes, on_error)  # type: ignore[arg-type]


def talk(one: Milter, *packets: Packet) -> list[Packet]:
    """Return the answers to packets."""

    async def run() -> list[Packet]:
        return [answer for packet in packets for answer in await one._answers(packet)]

    return asyncio.run(run())


MESSAGE = (
    Packet(b"M", b"<a@x.example>\0SIZE=10\0"),
    Packet(b"R", b"<b@us.example>\0"),
    Packet(b"L", b"Subject\0 hello\0"),
    Packet(b"L", b"X-Emsco-Status\0 ham\0"),
    Packet(b"L", b"X-Folded\0 a\n\tb\0"),
    Packet(b"N"),
    Packet(b"B", b"text\r\n"),
    Packet(b"E"),
)


def test_a_message_is_decided_with_its_client_and_marked() -> None:
    """The verdict sees the message and the envelope; the forged header goes, ours come first and in order."""
    verdicts = Verdicts(Verdict("spam", 0.99, 1, 1.0, "us", "ab"))
    answers = talk(milter(verdicts), ALL_OPTIONS, CONNECT, Packet(b"H", b"helo.example\0"), *MESSAGE)
    [(raw, envelope)] = verdicts.asked
    assert raw == b"Subject: hello\r\nX-Emsco-Status: ham\r\nX-Folded: a\r\n\tb\r\n\r\ntext\r\n"
    assert envelope == Envelope("a@x.example", ("b@us.example",), "192.0.2.7", "helo.example")
    # The options, one removal, five headers, and that is all: no other packet needs a reply.
    assert [answer.command for answer in answers] == [b"O", b"m", *[b"i"] * 5, b"a"]
    assert answers[1].data == b"\x00\x00\x00\x01X-Emsco-Status\0\0"
    assert answers[-2].data == b"\x00\x00\x00\x00X-Emsco-Status\0 spam\0"


def test_an_old_mail_server_gets_a_reply_to_everything() -> None:
    """One that knows no silent packets, and cuts the blank before a header's value."""
    verdicts = Verdicts(Verdict("ham"))
    old = Packet(b"O", struct.pack("!LLL", 2, 0x1F, 0))
    answers = talk(milter(verdicts), old, CONNECT, Packet(b"L", b"Subject\0hello\0"), Packet(b"D", b"Mi\0x\0"), Packet(b"E"))
    assert [answer.command for answer in answers[:3]] == [b"O", b"c", b"c"]
    assert answers[0].data[:4] == b"\0\0\0\x02"
    assert verdicts.asked[0][0] == b"Subject: hello\r\n\r\n"
    assert answers[-2].data.endswith(b"X-Emsco-Status\0ham\0")


def test_what_is_agreed_on_is_what_was_offered() -> None:
    """Never a flag that the mail server does not have; without headers to add there is nothing to do."""
    for offered in (0, 0x80, *NO_REPLY.values(), 0x1FFFFF):
        flags = struct.unpack("!LLL", negotiate(struct.pack("!LLL", 6, 0x11, offered)).answer.data)[2]
        assert flags & ~offered == 0
    with pytest.raises(PacketError, match="does not let headers be added"):
        negotiate(struct.pack("!LLL", 6, 0x02, 0))
    with pytest.raises(PacketError, match="12 bytes"):
        negotiate(b"")


@pytest.mark.parametrize(("on_error", "last"), [("accept", b"a"), ("tempfail", b"t")])
def test_a_message_that_cannot_be_decided_is_accepted_or_tried_again(on_error: str, last: bytes) -> None:
    """As the administrator says; an accepted one is marked."""
    answers = talk(milter(Verdicts(Verdict("error", note="deadline")), on_error=on_error), ALL_OPTIONS, *MESSAGE)
    assert answers[-1].command == last
    assert any(b"error" in answer.data for answer in answers) == (on_error == "accept")


def test_one_message_leaves_nothing_for_the_next() -> None:
    """Messages of one connection, an aborted one, and another client on the same connection."""
    verdicts = Verdicts(Verdict("ham"))
    one = milter(verdicts)
    talk(one, ALL_OPTIONS, CONNECT, *MESSAGE, MESSAGE[0], MESSAGE[2], Packet(b"A"), MESSAGE[0], Packet(b"E"))
    assert verdicts.asked[1] == (b"\r\n", Envelope("a@x.example", (), "192.0.2.7", ""))
    talk(one, Packet(b"K"), Packet(b"M", b"<>\0"), Packet(b"E", b"last piece"))
    assert verdicts.asked[2] == (b"\r\nlast piece", Envelope("", (), "", ""))


def test_a_large_message_is_kept_in_part_and_its_forged_headers_go() -> None:
    """Memory is bounded; a forged header that comes late is removed all the same."""
    verdicts = Verdicts(Verdict("ham"))
    many = [Packet(b"L", b"A\0" + b"x" * 1000 + b"\0")] * 100
    late = Packet(b"L", b"x-EMSCO-note\0 y\0")
    answers = talk(
        milter(verdicts, max_bytes=5000), ALL_OPTIONS, MESSAGE[0], *many, late, *[Packet(b"B", b"z" * 3000)] * 9, Packet(b"E")
    )
    assert len(verdicts.asked[0][0]) < 11_000
    assert b"x-EMSCO-note" in answers[1].data


@pytest.mark.parametrize(
    ("piece", "status"),
    [
        (Packet(b"B", b"z" * 900), b"ham"),
        (Packet(b"B", b"z" * 1001), b"unsure"),
        (Packet(b"L", b"A\0" + b"x" * 1001 + b"\0"), b"unsure"),
    ],
)
def test_a_message_of_which_something_was_not_kept_is_never_ham(piece: Packet, status: bytes) -> None:
    """Spam may be in the rest, of the body or of the headers: the message is unsure, and a header says why."""
    answers = talk(milter(Verdicts(Verdict("ham")), max_bytes=1000), ALL_OPTIONS, MESSAGE[0], piece, Packet(b"E"))
    shown = [answer.data for answer in answers]
    assert any(b"X-Emsco-Status\x00" in data and status in data for data in shown)
    assert any(b"X-Emsco-Unread\x00" in data for data in shown) == (status == b"unsure")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([bytes([one]) for one in b"CHMRLNBEADKUTXO"]), st.binary(max_size=60)), max_size=12))
def test_no_packet_raises_anything_but_that_it_is_no_packet(packets: list[tuple[bytes, bytes]]) -> None:
    """Whatever comes: answers, or an error that closes the connection, which the mail server takes as our failure."""
    one = milter(Verdicts(Verdict("ham")))
    try:
        talk(one, *(Packet(command, data) for command, data in packets))
    except PacketError:
        assert any(command == b"O" for command, _ in packets)


# ----- the service


def start(model: Path, *more: str) -> Running:
    """Return the milter as a process, with the tiny model."""
    return Running("--milter", "--model", str(model), *more)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return the folder of the tiny model."""
    return write_tiny_model(tmp_path / "model")


SCRIPT = """
conn = mt.connect("inet:%(port)d@127.0.0.1")
if conn == nil then error("no connection") end
for round = 1, 2 do
  if round == 1 and mt.conninfo(conn, "mx.example", "192.0.2.7") ~= nil then error("conninfo") end
  if round == 1 and mt.helo(conn, "caf\\233.example") ~= nil then error("helo") end
  if mt.mailfrom(conn, "<a@x.example>") ~= nil then error("mailfrom") end
  if mt.rcptto(conn, "<b@us.example>") ~= nil then error("rcptto") end
  if mt.header(conn, "Subject", "hello") ~= nil then error("header") end
  if mt.header(conn, "X-Emsco-Status", "ham") ~= nil then error("forged header") end
  if mt.eoh(conn) ~= nil then error("eoh") end
  if mt.bodystring(conn, "%(text)s\\r\\n") ~= nil then error("body") end
  if mt.eom(conn) ~= nil then error("eom") end
  if mt.getreply(conn) ~= %(reply)s then error("reply " .. mt.getreply(conn)) end
  if %(marked)s then
    if not mt.eom_check(conn, MT_HDRINSERT, "X-Emsco-Status", " %(status)s") and
       not mt.eom_check(conn, MT_HDRINSERT, "X-Emsco-Status", "%(status)s") then error("not marked") end
    if not mt.eom_check(conn, MT_HDRDELETE, "X-Emsco-Status") then error("the forged one is still there") end
  end
end
mt.disconnect(conn)
"""


@pytest.mark.skipif(MILTERTEST is None, reason="miltertest is not installed (Debian: apt-get install miltertest)")
@pytest.mark.parametrize(
    ("text", "more", "wanted"),
    [
        ("BUY BUY BUY", (), {"reply": "SMFIR_ACCEPT", "marked": "true", "status": "spam"}),
        ("regards regards", (), {"reply": "SMFIR_ACCEPT", "marked": "true", "status": "ham"}),
        ("!raise!", (), {"reply": "SMFIR_ACCEPT", "marked": "true", "status": "error"}),
        ("!raise!", ("--on-error", "tempfail"), {"reply": "SMFIR_TEMPFAIL", "marked": "false", "status": ""}),
        ("!hang!", ("--deadline-s", "0.3"), {"reply": "SMFIR_ACCEPT", "marked": "true", "status": "error"}),
    ],
)
def test_miltertest(model: Path, tmp_path: Path, text: str, more: tuple[str, ...], wanted: dict[str, str]) -> None:
    """Debian's test tool, as a mail server: two messages of one connection, marked, the forged header removed."""
    with start(model, *more) as running:
        script = tmp_path / "script.lua"
        script.write_text(SCRIPT % {"port": running.port, "text": text, **wanted})
        done = subprocess.run([str(MILTERTEST), "-s", str(script)], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), running.text
        wait_until(lambda: running.metric("spam_filter_messages_total") == 2, "both are counted")


def test_a_message_under_way_is_answered_before_the_end(model: Path) -> None:
    """SIGTERM while a message is decided: its answer still comes, and the exit status is 0."""
    with start(model) as running, socket.create_connection((HOST, running.port), timeout=60) as client:
        slow = (Packet(b"M", b"<a@x.example>\0"), Packet(b"E", b"BUY BUY BUY !slow!"))
        client.sendall(b"".join(packet.encode() for packet in (ALL_OPTIONS, *slow)))
        seen = client.recv(65_536)
        running.process.send_signal(signal.SIGTERM)
        while piece := client.recv(65_536):
            seen += piece
        assert b"X-Emsco-Status\0 spam" in seen
        assert running.ended() == 0


def ask(port: int, text: bytes, sender: bytes = b"a@x.example") -> bytes:
    """Return what the milter answers to one message, as a mail server that connects for it."""
    packets = (ALL_OPTIONS, CONNECT, Packet(b"M", b"<%s>\0" % sender), Packet(b"E", text))
    with socket.create_connection((HOST, port), timeout=60) as client:
        client.sendall(b"".join(packet.encode() for packet in packets))
        return read_to_accept(client)


def read_to_accept(client: socket.socket) -> bytes:
    """Return what comes until a message is accepted."""
    seen = b""
    while not seen.endswith(Packet(b"a").encode()):
        piece = client.recv(65_536)
        assert piece, f"the connection was closed: {seen!r}"
        seen += piece
    return seen


def test_lists_and_model_are_those_of_the_service(model: Path) -> None:
    """A blocked sender is spam, an allowed one unsure; SIGHUP takes up a new list and a new model, in each of two processes."""
    allow, block = model.parent / "allow", model.parent / "block"
    allow.write_text("friend@x.example\n", encoding="utf-8")
    block.write_text("bad.example\n", encoding="utf-8")
    with start(model, "--allow", str(allow), "--block", str(block), "--processes", "2") as running:
        blocked = ask(running.port, b"regards regards", b"a@bad.example")
        assert b"X-Emsco-Status\0 spam" in blocked
        assert b"X-Emsco-List\0 block" in blocked
        assert b"X-Emsco-Status\0 unsure" in ask(running.port, b"BUY BUY BUY", b"friend@x.example")
        bundle = blocked.partition(b"X-Emsco-Bundle\0 ")[2].partition(b"\0")[0]
        write_tiny_model(model, spam_threshold=0.95)
        block.write_text("# nobody\n", encoding="utf-8")
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: running.metric('spam_filter_reloads_total{outcome="done"}') == 2, "both have reloaded")
        answers = [ask(running.port, b"regards regards", b"a@bad.example") for _ in range(4)]
        assert all(b"X-Emsco-Status\0 ham" in answer and bundle not in answer for answer in answers)
        assert running.metric("spam_filter_messages_total") == 6
        assert running.end() == 0


def test_a_model_that_is_changed_on_the_disk_is_noticed(trained: TrainedModel, tmp_path: Path) -> None:
    """The milter watches its files as the service does: log and metric tell, and the model in memory stays in service."""
    folder = tmp_path / "model"
    shutil.copytree(trained.folder, folder)
    with Running("--model", str(folder), command=("-m", "spam_filter", "milter")) as running:
        before = ask(running.port, b"hello")
        with (folder / "stores.sqlite").open("ab") as file:
            file.write(b"more")
        wait_until(lambda: running.metric("spam_filter_model_changed") == 1, "the change is noticed")
        assert "stores.sqlite was changed on the disk" in running.text
        assert ask(running.port, b"hello") == before


def test_one_connection_too_many_is_closed(model: Path) -> None:
    """Memory is bounded: the mail server sees that we are not there, and the others are served on."""
    with start(model, "--max-connections", "1") as running:
        with socket.create_connection((HOST, running.port), timeout=60) as first:
            first.sendall(ALL_OPTIONS.encode())
            assert first.recv(100)[4:5] == b"O"
            with socket.create_connection((HOST, running.port), timeout=60) as second:
                assert second.recv(100) == b""
            first.sendall(Packet(b"E").encode())
            assert b"X-Emsco-Status" in read_to_accept(first)
        assert running.metric('spam_filter_refused_total{reason="connections"}') == 1


def test_what_is_no_milter_protocol_ends_its_connection_alone(model: Path) -> None:
    """A web browser, a length of 4 GB, half a packet: closed, and the next connection is served."""
    with start(model) as running:
        for nonsense in (b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xffX", b"\0\0\0\0", b"\0\0\0\x10O"):
            with socket.create_connection((HOST, running.port), timeout=60) as client:
                client.sendall(nonsense)
                client.shutdown(socket.SHUT_WR)
                assert client.recv(100) == b""
        with socket.create_connection((HOST, running.port), timeout=60) as client:
            client.sendall(ALL_OPTIONS.encode())
            assert client.recv(100)[4:5] == b"O"


def test_a_flood_of_headers_holds_nobody_up(model: Path) -> None:
    """While one mail server sends 300,000 header lines, another one's message is answered first; then the flood is, too."""
    flood = Packet(b"L", b"a\0b\0").encode() * 300_000
    with start(model) as running, socket.create_connection((HOST, running.port), timeout=120) as large:
        sender = threading.Thread(target=large.sendall, args=(ALL_OPTIONS.encode() + flood,))
        sender.start()
        with socket.create_connection((HOST, running.port), timeout=120) as small:
            small.sendall(b"".join(packet.encode() for packet in (ALL_OPTIONS, *MESSAGE)))
            seen = b""
            while not seen.endswith(Packet(b"a").encode()):
                seen += small.recv(65_536)
        assert running.metric("spam_filter_messages_total") == 1
        sender.join(120)
        large.sendall(Packet(b"E").encode())
        seen = b""
        while not seen.endswith(Packet(b"a").encode()):
            seen += large.recv(65_536)


@pytest.mark.skipif(skip_reason() is not None, reason=str(skip_reason()))
def test_inside_of_postfix() -> None:
    """Marked before it is queued, forged headers gone, text intact; without the milter the client is asked to try again."""
    folder = Path(tempfile.mkdtemp(prefix="postfix-"))
    folder.chmod(0o755)
    header = (
        b"From: a@elsewhere.example\r\nDate: Mon, 5 Jan 2026 10:00:00 +0000\r\nMessage-ID: <1@x.example>\r\nSubject: hello\r\n"
    )
    text = b"\r\nBUY BUY BUY\r\n.\r\n.dot\r\ncaf\xe9\r\n"

    def send(postfix: Postfix) -> None:
        with smtplib.SMTP(HOST, postfix.port, timeout=60) as client:
            client.sendmail("a@elsewhere.example", ["b@example.org", "c@example.org"], b"X-EMSCO-Status: ham\r\n" + header + text)

    running = start(write_tiny_model(folder / "model"))
    try:
        with Postfix(folder, running.port, milter=True) as postfix:
            with running:
                send(postfix)
                wait_until(lambda: len(postfix.inbox) == 2, f"both copies arrive\n{postfix.log}")
                for content in postfix.inbox:
                    assert content.lower().count(b"x-emsco-status") == 1
                    assert b"X-Emsco-Status: spam\n" in content
                    assert content.endswith((header + text).replace(b"\r", b""))
                running.kill()
                with pytest.raises(smtplib.SMTPException) as refused:
                    send(postfix)
                assert b"451" in str(refused.value).encode() or "4.7.1" in str(refused.value)
                running.start()
                send(postfix)
                wait_until(lambda: len(postfix.inbox) == 4, f"it is sent again, and arrives\n{postfix.log}")
            assert "status=bounced" not in postfix.log
    finally:
        shutil.rmtree(folder)


@pytest.mark.skipif(skip_reason() is not None, reason=str(skip_reason()))
@pytest.mark.parametrize(
    ("processes", "count", "kills"),
    [(1, 24, [5]), *(pytest.param(processes, 240, [10, 20, 30], marks=pytest.mark.proof) for processes in (1, 2))],
)
def test_no_mail_is_lost_when_the_milter_is_killed_again_and_again(processes: int, count: int, kills: list[int]) -> None:
    """Eight clients send to Postfix while the milter, or a process of it, is killed: what was answered 250 arrives, marked.

    `kills` says after how many answers.
    """
    folder = Path(tempfile.mkdtemp(prefix="postfix-"))
    folder.chmod(0o755)
    running = start(write_tiny_model(folder / "model"), "--processes", str(processes))
    messages = {f"m{number}": f"Subject: number-{number}-\r\n\r\nBUY BUY BUY\r\n".encode() for number in range(count)}
    try:
        with Postfix(folder, running.port, milter=True) as postfix, running:
            # A process is replaced in seconds, in which mail goes on: there must be some left for what comes then.
            traffic = Traffic(postfix.port, messages, pause_s=0.1 if processes == 1 else 1.0)
            traffic.start()
            for answered in kills:
                wait_until(
                    lambda answered=answered: len(traffic.answered) >= answered or not traffic.running, "mail goes on", 300
                )
                assert traffic.running, "the traffic ended before the milter could be killed"
                if processes > 1:
                    before = running.metric("spam_filter_restarts_total")
                    worker_processes(running)[0].kill()
                    wait_until(lambda before=before: running.metric("spam_filter_restarts_total") > before, "it is replaced")
                running.kill()
                refused = traffic.replies["451"]
                wait_until(lambda refused=refused: traffic.replies["451"] > refused or not traffic.running, "451", 300)
                running.start()
            traffic.join()
            assert traffic.replies["451"] > 0
            assert traffic.answered == set(messages)
            wait_until(lambda: len(postfix.inbox) >= len(messages), f"all of them arrive\n{postfix.log}", 300)
            arrived = b"\n".join(postfix.inbox)
            assert all(f"Subject: number-{number}-\n".encode() in arrived for number in range(len(messages)))
            assert all(b"X-Emsco-Status: spam" in content for content in postfix.inbox)
    finally:
        shutil.rmtree(folder)
