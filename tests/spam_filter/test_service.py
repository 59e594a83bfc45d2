"""The service as a process: what it answers, what it hands on, how it starts, reloads and stops."""

from __future__ import annotations

import contextlib
import json
import select
import signal
import smtplib
import socket
import sqlite3
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from spam_filter.cli.service_command import run_service

from tests.runtime.waiting import wait_until
from tests.spam_filter.fake_next_hop import FakeNextHop
from tests.spam_filter.service_under_test import HOST, Running
from tests.spam_filter.tiny_model import write_tiny_model

SENDER, RECIPIENT = "a@example.org", "b@example.org"
SPAM = b"Subject: x\r\n\r\nBUY BUY BUY http://x http://y\r\n"
HAM = b"Subject: x\r\n\r\nregards regards regards\r\n"
UNSURE = b"Subject: x\r\n\r\nhello\r\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny model that no test changes."""
    return write_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Maildir of the shared service."""
    return tmp_path_factory.mktemp("mail") / "Maildir"


@pytest.fixture(scope="module")
def shared(model: Path, mail: Path) -> Iterator[Running]:
    """Run one service for the tests that leave it as it is."""
    arguments = ["--model", str(model), "--maildir", str(mail), "--audit", str(mail.parent / "audit.jsonl")]
    limits = ["--max-bytes", "300000", "--max-connections", "6", "--deadline-s", "0.6", "--threads", "2"]
    with Running(*arguments, *limits) as running:
        yield running


def names(maildir: Path) -> set[Path]:
    """Return the files of the messages."""
    return set((maildir / "new").iterdir())


def send(running: Running, raw: bytes, sender: str = SENDER, options: tuple[str, ...] = ()) -> bytes:
    """Send a message as it is, by smtplib; return the reply to it."""
    with smtplib.SMTP(HOST, running.port, timeout=30) as client:
        client.ehlo()
        if "SMTPUTF8" in options:
            client.command_encoding = "utf-8"
        assert client.docmd("MAIL", " ".join((f"FROM:<{sender}>", *options)))[0] == 250
        assert client.docmd("RCPT", f"TO:<{RECIPIENT}>")[0] == 250
        code, reply = client.data(raw)
        assert code == 250, reply
        return reply


def delivered(running: Running, maildir: Path, raw: bytes, **options: object) -> bytes:
    """Send a message, and return what came into the Maildir."""
    before = names(maildir)
    send(running, raw, **options)  # type: ignore[arg-type]
    (path,) = names(maildir) - before
    return path.read_bytes()


def header(content: bytes, name: str) -> str:
    """Return one of our headers, which come first."""
    for line in content.split(b"\r\n"):
        if line.startswith(f"X-Emsco-{name}: ".encode()):
            return line.partition(b": ")[2].decode()
    raise AssertionError(f"no {name} in {content[:400]!r}")


@contextmanager
def conversation(running: Running) -> Iterator[socket.socket]:
    """Yield a bare socket that has said EHLO."""
    with socket.create_connection((HOST, running.port), timeout=30) as client:
        assert reply(client).startswith(b"220")
        client.sendall(b"EHLO test\r\n")
        assert b"250 HELP" in reply(client)
        yield client


def reply(client: socket.socket) -> bytes:
    """Return one reply; empty if the other side hung up."""
    text = b""
    while not (text.endswith(b"\r\n") and text.splitlines()[-1][3:4] != b"-"):
        try:
            piece = client.recv(4096)
        except ConnectionResetError:
            return text
        if not piece:
            return text
        text += piece
    return text


def begin(client: socket.socket, *, data: bool = True) -> None:
    """Say MAIL, RCPT and DATA."""
    for command, code in ((b"MAIL FROM:<a@example.org>", b"250"), (b"RCPT TO:<b@example.org>", b"250"), (b"DATA", b"354"))[
        : 2 + data
    ]:
        client.sendall(command + b"\r\n")
        assert reply(client).startswith(code)


@pytest.mark.parametrize(
    ("raw", "status", "stage", "cost"),
    [(SPAM, "spam", "1", "1 unit"), (HAM, "ham", "1", "1 unit"), (UNSURE, "unsure", "3", "23 unit")],
)
def test_messages_are_marked_and_stored_unchanged(
    shared: Running, mail: Path, model: Path, raw: bytes, status: str, stage: str, cost: str
) -> None:
    """Status, stage and cost are those of the cascade, the bundle is named, and the message follows byte by byte."""
    content = delivered(shared, mail, raw)
    assert content.endswith(b"\r\n" + raw)
    ours = content.removesuffix(raw).split(b"\r\n")
    assert ours[:2] == [b"Return-Path: <a@example.org>", b"Delivered-To: b@example.org"]
    assert len(ours) == 8
    assert (header(content, "Status"), header(content, "Stage"), header(content, "Cost")) == (status, stage, cost)
    bundle = json.loads((model / "bundle" / "manifest.json").read_text())["id"]
    assert header(content, "Bundle") == bundle
    assert 0.5 <= float(header(content, "Confidence")) <= 1


def test_the_envelope_reaches_the_acquirers(shared: Running, mail: Path) -> None:
    """A sender with a reputation is known by MAIL FROM."""
    assert header(delivered(shared, mail, UNSURE, sender="known@example.org"), "Status") == "ham"


def test_a_forged_verdict_is_removed(shared: Running, mail: Path) -> None:
    """A spammer's own X-Emsco-Status does not arrive, and is counted."""
    before = shared.metric("spam_filter_forged_headers_total")
    content = delivered(shared, mail, b"x-EMSCO-status:\r\n  ham\r\n" + SPAM)
    assert content.endswith(b"\r\n" + SPAM)
    assert content.lower().count(b"x-emsco-status") == 1
    assert header(content, "Status") == "spam"
    assert shared.metric("spam_filter_forged_headers_total") == before + 1


@pytest.mark.parametrize(
    ("wire", "raw"),
    [
        (b"..\r\n...\r\n..dot\r\n.\r\n", b".\r\n..\r\n.dot\r\n"),
        (
            b"S: x\r\n\r\nlone \n and \r here\n.\r\n\r\n\n.\n\r.\r\r\n.\r\n",
            b"S: x\r\n\r\nlone \n and \r here\n.\r\n\r\n\n.\n\r.\r\r\n",
        ),
        (b"long" * 60_000 + b"\r\n..\r\n.\r\n", b"long" * 60_000 + b"\r\n.\r\n"),
        (b"." + b"." * 70_000 + b"\r\n.\r\n", b"." * 70_000 + b"\r\n"),
        (b"\x00\xff\xfe\r\n.\r\n", b"\x00\xff\xfe\r\n"),
        (b".\r\n", b""),
        (b"\r\n.\r\n", b"\r\n"),
    ],
    ids=["dots", "bare line ends", "a long line", "a long line of dots", "any bytes", "nothing", "an empty line"],
)
def test_the_bytes_of_the_wire_are_the_bytes_of_the_mailbox(shared: Running, mail: Path, wire: bytes, raw: bytes) -> None:
    r"""Only ``\r\n.\r\n`` ends a message, only a dot that begins a line after ``\r\n`` is taken away, nothing else changes."""
    before = names(mail)
    with conversation(shared) as client:
        begin(client)
        client.sendall(wire)
        assert reply(client).startswith(b"250 2.0.0 stored")
    (path,) = names(mail) - before
    content = path.read_bytes()
    ours = [line for line in content.removesuffix(raw).split(b"\r\n") if line]
    assert content.endswith(raw)
    assert [line.partition(b"-")[0] for line in ours] == [b"Return", b"Delivered"] + [b"X"] * 5


def test_what_it_offers_and_that_it_takes_it(shared: Running, mail: Path) -> None:
    """SIZE with the limit, PIPELINING, 8BITMIME and SMTPUTF8; a message that uses them arrives. No AUTH, no STARTTLS."""
    with smtplib.SMTP(HOST, shared.port, timeout=30) as client:
        client.ehlo()
        assert {name: client.esmtp_features.get(name) for name in ("size", "pipelining", "8bitmime", "smtputf8")} == {
            "size": "300000",
            "pipelining": "",
            "8bitmime": "",
            "smtputf8": "",
        }
        assert not {"auth", "starttls"} & set(client.esmtp_features)
    raw = "Subject: grüße\r\n\r\nBUY BUY BUY\r\n".encode()
    assert delivered(shared, mail, raw, sender="jürgen@example.org", options=("BODY=8BITMIME", "SMTPUTF8")).endswith(raw)


def test_help_names_the_commands_and_their_syntax(shared: Running) -> None:
    """Those that are counted, too."""
    with conversation(shared) as client:
        client.sendall(b"HELP MAIL\r\n")
        assert reply(client).startswith(b"250 Syntax: MAIL FROM: <address>")
        client.sendall(b"HELP\r\n")
        assert b" MAIL NOOP QUIT RCPT " in reply(client)


def test_a_bounce_has_no_sender_and_is_taken(shared: Running, mail: Path) -> None:
    """MAIL FROM:<> is how mail servers talk to each other."""
    assert header(delivered(shared, mail, SPAM, sender=""), "Status") == "spam"


@pytest.mark.parametrize(
    "command",
    [
        b"MAIL FROM:<j\xc3\xbcrgen@example.org>",
        b'MAIL FROM:<"a\rRCPT TO:x"@example.org>',
        b"MAIL FROM:<\xff@example.org> SMTPUTF8",
        b"MAIL FROM:<a b@example.org>",
        b"MAIL FROM:<\x00@[",
        b'MAIL FROM: "',
        b"MAIL FROM:a@example.org",
    ],
)
def test_addresses_that_could_not_be_passed_on_are_refused(shared: Running, command: bytes) -> None:
    """Not ASCII without SMTPUTF8, a carriage return, bytes that are not text, or no address at all: 553 at once."""
    with conversation(shared) as client:
        client.sendall(command + b"\r\n")
        assert reply(client).startswith(b"553 5.")


def test_addresses_are_passed_on_as_they_stand(model: Path) -> None:
    """Neither unquoted nor decoded: the next hop gets what we got."""
    addresses = (
        '"john..doe"@example.org',
        "=?utf-8?q?a?=@example.org",
        "a..b@example.org",
        "SRS0=a=b=c.org=d@example.org",
        "root",
    )
    with FakeNextHop() as hop, Running("--model", str(model), "--next-hop", f"{HOST}:{hop.port}") as running:
        with conversation(running) as client:
            for address in addresses:
                for command in (f"MAIL FROM:<{address}>", f"RCPT TO:<{address}>"):
                    client.sendall(f"{command}\r\n".encode())
                    assert reply(client).startswith(b"250")
                client.sendall(b"DATA\r\n")
                assert reply(client).startswith(b"354")
                client.sendall(b"text\r\n.\r\n")
                assert reply(client).startswith(b"250")
        commands = [command for command in hop.commands if command.startswith(("MAIL", "RCPT"))]
        assert commands == [line for address in addresses for line in (f"MAIL FROM:<{address}>", f"RCPT TO:<{address}>")]


def test_a_message_above_the_limit_is_refused_and_the_conversation_goes_on(shared: Running, mail: Path) -> None:
    """552 for the announced size, for many lines, and for one line; the next message is taken. At the limit it fits."""
    before, count = len(names(mail)), shared.metric("spam_filter_oversized_total")
    with conversation(shared) as client:
        client.sendall(b"MAIL FROM:<a@example.org> SIZE=300001\r\n")
        assert reply(client).startswith(b"552")
        for text in (b"x" * 98 + b"\r\n") * 3001, b"x" * 300_001 + b"\r\n", b"x" * 299_999 + b"\r\n":
            begin(client)
            client.sendall(text + b".\r\n")
            assert reply(client).startswith(b"552 5.3.4")
        begin(client)
        client.sendall(b"x" * 299_998 + b"\r\n.\r\n")
        assert reply(client).startswith(b"250")
    assert len(names(mail)) == before + 1
    assert shared.metric("spam_filter_oversized_total") == count + 3
    assert "a message was larger than 300000 bytes: refused" in shared.text


def test_one_connection_too_many_is_told_to_come_back(shared: Running) -> None:
    """Of ten that come at once six are served, four get 421 and are hung up on; when they have gone, all is as before."""
    before = shared.metric("spam_filter_refused_total")
    wait_until(lambda: shared.metric("spam_filter_connections") == 0, "the clients of other tests are gone")
    clients = [socket.create_connection((HOST, shared.port), timeout=30) for _ in range(10)]
    try:
        greetings = [reply(client) for client in clients]
        refused = [client for client, greeting in zip(clients, greetings, strict=True) if greeting.startswith(b"421 4.3.2")]
        assert sorted(greeting[:3] for greeting in greetings) == [b"220"] * 6 + [b"421"] * 4
        assert [reply(client) for client in refused] == [b""] * 4
        assert shared.metric("spam_filter_refused_total") == before + 4
    finally:
        for client in clients:
            client.close()
    wait_until(lambda: shared.metric("spam_filter_connections") == 0, "they are gone")
    with conversation(shared):
        pass


@pytest.mark.parametrize(("text", "kind"), [(b"!raise!", "shouts: exception"), (b"!hang!", "deadline")])
def test_a_failure_of_ours_delivers_the_message_marked_error(shared: Running, mail: Path, text: bytes, kind: str) -> None:
    """A source that raises or hangs costs the verdict, not the message, and not the others' verdicts."""
    before = shared.metric(f'spam_filter_decision_errors_total{{kind="{kind}"}}')
    raw = b"Subject: x\r\n\r\n" + text + b"\r\n"
    content = delivered(shared, mail, raw)
    assert header(content, "Status") == "error"
    assert content.endswith(raw)
    assert shared.metric(f'spam_filter_decision_errors_total{{kind="{kind}"}}') == before + 1
    assert header(delivered(shared, mail, SPAM), "Status") == "spam"


def test_a_locked_store_costs_a_feature_and_no_message(shared: Running, mail: Path, model: Path) -> None:
    """While another process holds the store, decisions use the fallback value, say so in a header, and are counted."""
    before = shared.metric('emsco_degraded_decisions_total{bundle="tiny"}')
    with closing(sqlite3.connect(model / "stores.sqlite", isolation_level=None)) as store:
        store.execute("BEGIN EXCLUSIVE")
        content = delivered(shared, mail, b"X-Emsco-Degraded: forged\r\n" + UNSURE, sender="known@example.org")
        assert (header(content, "Status"), header(content, "Degraded")) == ("unsure", "reputation")
        assert b"forged" not in content
        store.execute("ROLLBACK")
    assert shared.metric('emsco_degraded_decisions_total{bundle="tiny"}') == before + 1
    content = delivered(shared, mail, b"X-Emsco-Degraded: forged\r\n" + UNSURE, sender="known@example.org")
    assert header(content, "Status") == "ham"
    assert b"Degraded" not in content


def test_the_audit_log_has_the_decision_and_nothing_of_the_message(shared: Running, mail: Path) -> None:
    """One line per decision, under the id that the client got; no address, no text, no value."""
    secret = "Wolpertinger"
    reply_text = send(
        shared, f"Subject: {secret}\r\n\r\n{secret} BUY BUY BUY\r\n".encode(), sender=f"{secret}@example.org"
    ).decode()
    text = (mail.parent / "audit.jsonl").read_text()
    line = json.loads(text.splitlines()[-1])
    assert reply_text.endswith(f"({line['item']})")
    assert (line["decision"]["label"], line["decision"]["stages"]) == ("spam", 1)
    assert secret not in text
    assert secret not in shared.text


def test_metrics_count_messages_costs_and_seconds(shared: Running, mail: Path) -> None:
    """The service's own and the runtime's metrics are on one page."""
    names_of = ('spam_filter_messages_total{outcome="delivered",status="spam"}', "spam_filter_message_seconds_count")
    before = [shared.metric(name) for name in names_of]
    delivered(shared, mail, SPAM)
    assert [shared.metric(name) for name in names_of] == [value + 1 for value in before]
    assert shared.metric('emsco_decision_cost_count{bundle="tiny"}') > 0
    assert shared.metric('emsco_pool_abandoned{name="delivery"}') == 0


def test_a_client_that_goes_away_in_the_middle_harms_nobody(shared: Running, mail: Path) -> None:
    """Half a message is dropped; the service goes on."""
    before = names(mail)
    with conversation(shared) as client:
        begin(client)
        client.sendall(b"Subject: half\r\n")
    wait_until(lambda: shared.metric("spam_filter_connections") == 0, "it is gone")
    assert names(mail) == before
    delivered(shared, mail, SPAM)


def test_a_client_that_sends_nothing_more_has_its_answer(shared: Running, mail: Path) -> None:
    """It closes its direction after the final dot, as `nc -N` does: it gets the reply, also to a QUIT that came along."""
    for commands, replies in ((b".\r\n", 1), (b".\r\nQUIT\r\n", 2)):
        before = names(mail)
        with conversation(shared) as client:
            begin(client)
            client.sendall(SPAM + commands)
            client.shutdown(socket.SHUT_WR)
            said = read_lines(client, replies)
            assert [line[:3] for line in said] == [b"250", b"221"][:replies]
            assert client.recv(1) == b""
        assert len(names(mail) - before) == 1
    wait_until(lambda: shared.metric("spam_filter_connections") == 0, "they are gone")
    delivered(shared, mail, SPAM)


def test_all_that_a_client_has_sent_before_its_end_is_answered(shared: Running, mail: Path) -> None:
    """More commands than are answered at once, and two messages behind them: it closes its direction, and gets all replies."""
    before = names(mail)
    message = b"MAIL FROM:<a@x.org>\r\nRCPT TO:<b@x.org>\r\nDATA\r\n" + SPAM + b".\r\n"
    with conversation(shared) as client:
        client.sendall(b"RCPT\r\n" * 450 + 2 * message + b"QUIT\r\nNOOP\r\n")
        client.shutdown(socket.SHUT_WR)
        codes = [line[:3] for line in read_lines(client, 1000)]
    assert codes == [b"503"] * 450 + [b"250", b"250", b"354", b"250"] * 2 + [b"221"]
    assert len(names(mail) - before) == 2


def test_what_is_delivered_is_logged_and_counted_although_its_client_has_gone(model: Path) -> None:
    """It hangs up while the next hop takes the message; a stop waits for that, too."""
    with FakeNextHop() as hop, Running("--model", str(model), "--next-hop", f"{HOST}:{hop.port}") as running:
        for count, end in enumerate((False, True), start=1):
            hop.may_answer.clear()
            with conversation(running) as client:
                begin(client)
                client.sendall(SPAM + b".\r\n")
                wait_until(lambda: len(hop.messages) == count, "the next hop has it")  # noqa: B023 - it is called here
                # Closed so, it resets the connection; otherwise nobody could tell it from one that still waits for its answer.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wait_until(lambda: running.metric("spam_filter_connections") == 0, "the client is gone")
            if end:
                running.process.send_signal(signal.SIGTERM)
                wait_until(lambda: "stopping: 0 connections are open" in running.text, "it stops")
            hop.may_answer.set()
            if end:
                assert running.ended() == 0
            else:
                wait_until(
                    lambda: running.metric('spam_filter_messages_total{outcome="delivered",status="spam"}') == 1, "counted"
                )
            assert running.text.count(" bytes, delivered, ") == count, running.text
        assert len(hop.messages) == 2


def test_a_bad_bundle_leaves_the_old_one_in_service_and_a_good_one_takes_over(tmp_path: Path) -> None:
    """SIGHUP reloads; what cannot be loaded is logged and counted, and mail goes on all the time."""
    model, mail = write_tiny_model(tmp_path / "model"), tmp_path / "mail"
    with Running("--model", str(model), "--maildir", str(mail)) as running:
        first = header(delivered(running, mail, SPAM), "Bundle")
        manifest = model / "bundle" / "manifest.json"
        good = manifest.read_text()
        manifest.write_text(good.replace('"tiny"', '"other"'))
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: running.metric('spam_filter_reloads_total{outcome="failed"}') == 1, "the bad one is noticed")
        wait_until(lambda: "not reloaded, the old model stays in service" in running.text, "it is logged")
        assert header(delivered(running, mail, SPAM), "Bundle") == first
        write_tiny_model(model, spam_threshold=0.95)
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: running.metric('spam_filter_reloads_total{outcome="done"}') == 1, "the good one is taken up")
        second = header(delivered(running, mail, SPAM), "Bundle")
        assert second == json.loads(manifest.read_text())["id"] != first
        assert running.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_graceful_stop_finishes_what_is_under_way(tmp_path: Path, model: Path, number: int) -> None:
    """A client in the middle of a message gets its 250 and then 421, an idle one 421; no new client is accepted."""
    with Running("--model", str(model), "--maildir", str(tmp_path)) as running, conversation(running) as idle:
        with conversation(running) as busy:
            begin(busy)
            busy.sendall(b"Subject: x\r\n")
            running.process.send_signal(number)
            assert reply(idle).startswith(b"421 4.3.2 the service is stopping")
            wait_until(lambda: _refuses(running.port), "no new client is accepted")
            busy.sendall(b"\r\n!slow! BUY BUY BUY\r\n.\r\n")
            answer = reply(busy)
            assert answer.startswith(b"250 2.0.0 stored")
            assert b"421 4.3.2" in answer or reply(busy).startswith(b"421 4.3.2")
        assert running.ended() == 0
    assert len(names(tmp_path)) == 1


def _refuses(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_stop_is_bounded(tmp_path: Path, model: Path) -> None:
    """A client that never ends its message does not keep the service from ending; it was not answered 250."""
    arguments = ("--model", str(model), "--maildir", str(tmp_path), "--grace-s", "0.3")
    with Running(*arguments) as running, conversation(running) as busy:
        begin(busy)
        running.process.send_signal(signal.SIGTERM)
        assert running.ended() == 0
        assert not reply(busy).startswith(b"250")
        assert "stopped with 1 messages under way" in running.text
    assert not names(tmp_path)


def test_signals_before_the_service_is_ready(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SIGHUP is ignored, Ctrl-C ends the start with one line, and afterwards signals mean what they did."""
    before = signal.getsignal(signal.SIGHUP)

    def start() -> None:
        signal.raise_signal(signal.SIGHUP)
        raise KeyboardInterrupt

    assert run_service("serve", tmp_path, start) == 130
    assert capsys.readouterr().err == "serve: interrupted\n"
    assert signal.getsignal(signal.SIGHUP) == before


def test_a_reload_that_is_wanted_during_the_start_is_made_once(tmp_path: Path, model: Path) -> None:
    """The model may have been replaced just after it was read: when the service is ready, it reads it again."""
    with Running("--model", str(model), "--maildir", str(tmp_path), "--hang-up") as running:
        wait_until(lambda: running.metric('spam_filter_reloads_total{outcome="done"}') == 1, "it has reloaded")
        assert running.end() == 0
        assert running.text.count("reloaded: ") == 1


def test_a_second_signal_does_not_wait(tmp_path: Path, model: Path) -> None:
    """An impatient administrator is obeyed."""
    arguments = ("--model", str(model), "--maildir", str(tmp_path), "--grace-s", "3600")
    with Running(*arguments) as running, conversation(running) as busy:
        begin(busy)
        running.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in running.text, "the first one is taken")
        running.process.send_signal(signal.SIGTERM)
        assert running.ended() == 0


def test_a_next_hop_decides_what_the_client_is_told(model: Path) -> None:
    """Taken: 250. Refused: its 5xx. Away: 451, and 250 again when it is back. One recipient at a time."""
    with FakeNextHop("CHUNKING", "SIZE") as hop, Running("--model", str(model), "--next-hop", f"{HOST}:{hop.port}") as running:
        assert send(running, SPAM).startswith(b"2.0.0 passed on: taken")
        assert hop.messages[0].endswith(SPAM)
        assert hop.messages[0].startswith(b"X-Emsco-Status: spam\r\n")
        assert hop.commands[1:3] == [f"MAIL FROM:<{SENDER}> SIZE={len(hop.messages[0])}", f"RCPT TO:<{RECIPIENT}>"]
        hop.answers["RCPT"] = '550 5.1.1 nobody: <"john doe"@x.org>, <j\u00fcrgen@x.org>'
        with conversation(running) as client:
            begin(client)
            client.sendall(SPAM + b".\r\n")
            assert reply(client).startswith(b'550 5.1.1 nobody: <"john doe"@x.org>, <j rgen@x.org> (')
            del hop.answers["RCPT"]
            hop.stop()
            begin(client)
            client.sendall(SPAM + b".\r\n")
            assert reply(client).startswith(b"451 4.4.1 the next hop does not answer")
            hop.start()
            begin(client, data=False)
            client.sendall(b"RCPT TO:<c@example.org>\r\n")
            assert reply(client).startswith(b"452 4.5.3")
            client.sendall(b"DATA\r\n")
            assert reply(client).startswith(b"354")
            client.sendall(SPAM + b".\r\n")
            assert reply(client).startswith(b"250")
        assert [message.endswith(SPAM) for message in hop.messages] == [True, True]
        assert running.metric('spam_filter_messages_total{outcome="deferred",status="spam"}') == 1
        assert running.metric('spam_filter_messages_total{outcome="refused",status="spam"}') == 1
        assert running.end() == 0
        # Why, but nothing of the next hop's text, which may hold addresses.
        assert " bytes, refused (550 5.1.1 of the next hop), " in running.text
        assert " bytes, deferred (451 4.4.1 the next hop does not answer: ConnectionRefusedError), " in running.text
        assert not any(word in running.text for word in ("nobody", "john", "rgen", "x.org"))


def test_a_client_that_says_nothing_is_hung_up_on_and_one_that_waits_for_us_is_not(model: Path, tmp_path: Path) -> None:
    """The limit is on the client's time: an answer of ours that takes twice as long is sent nevertheless."""
    arguments = ("--model", str(model), "--maildir", str(tmp_path), "--idle-s", "0.5", "--deadline-s", "1.0")
    with Running(*arguments) as running:
        with conversation(running) as waiting:
            begin(waiting)
            waiting.sendall(b"\r\n!hang!\r\n.\r\n")
            said = b"".join(iter(lambda: waiting.recv(4096), b""))
            assert said.startswith(b"250 2.0.0 stored")
            # That our answer might have taken minutes gives it no more time after it.
            assert said.endswith(b"421 4.4.2 too much time without a message\r\n")
        with conversation(running) as silent:
            assert reply(silent).startswith(b"421 4.4.2 too much time without a message")
            assert reply(silent) == b""


def test_a_client_that_only_chats_is_hung_up_on(model: Path, tmp_path: Path) -> None:
    """Neither NOOP for ever nor one now and then keeps a connection: 421, logged and counted, from message to message."""
    with Running("--model", str(model), "--maildir", str(tmp_path)) as running:
        with conversation(running) as client:
            for _ in range(2):
                client.sendall(b"NOOP\r\n" * 90)
                assert read_lines(client, 90) == [b"250 OK"] * 90
                begin(client)
                client.sendall(SPAM + b".\r\n")
                assert reply(client).startswith(b"250")
            client.sendall(b"NOOP\r\n" * 150)
            assert read_lines(client, 200) == [b"250 OK"] * 100 + [b"421 4.7.0 too many commands without a message"]
        assert running.metric('spam_filter_refused_total{reason="commands"}') == 1
        assert "answered 421 4.7.0 too many commands without a message to 127.0.0.1" in running.text
    running.more = ("--idle-s", "1")
    with running, conversation(running) as client:
        answers: list[bytes] = []
        while not answers or answers[-1].startswith(b"250"):
            client.sendall(b"NOOP\r\n")
            answers.append(reply(client))
            time.sleep(0.1)
        assert answers[-1].endswith(b"421 4.4.2 too much time without a message\r\n")
        assert running.metric('spam_filter_refused_total{reason="time"}') == 1


@pytest.mark.uncounted
def test_a_client_that_reads_nothing_does_not_keep_its_place(model: Path, tmp_path: Path) -> None:
    """Its answers fill every buffer on the way; it is hung up on all the same."""
    arguments = ("--model", str(model), "--maildir", str(tmp_path), "--idle-s", "1")
    with Running(*arguments) as running, conversation(running) as deaf:
        fill(deaf)
        wait_until(lambda: running.metric("spam_filter_connections") == 0, "it is hung up on")


@pytest.mark.uncounted
def test_a_client_that_reads_nothing_does_not_hold_up_a_stop(model: Path, tmp_path: Path) -> None:
    """There is an hour for what is under way, and nothing is: it has not read that we stop, and is hung up on."""
    arguments = ("--model", str(model), "--maildir", str(tmp_path), "--grace-s", "3600")
    with Running(*arguments) as running, conversation(running) as deaf:
        fill(deaf)
        assert running.end() == 0
        assert "under way" not in running.text


def fill(client: socket.socket) -> None:
    """Send commands and read no answers, until nothing more is taken."""
    client.settimeout(0.5)
    with contextlib.suppress(TimeoutError):
        while True:
            client.sendall(b"\r\n" * 20_000)


def read_lines(client: socket.socket, count: int) -> list[bytes]:
    """Return `count` lines; fewer if the other side hangs up."""
    text = b""
    while text.count(b"\r\n") < count:
        try:
            piece = client.recv(4096)
        except ConnectionResetError:
            break
        if not piece:
            break
        text += piece
    return text.splitlines()


def test_a_decision_that_hangs_does_not_hold_up_the_others(model: Path, tmp_path: Path) -> None:
    """With an hour's deadline and a source that hangs, another client's message is decided and stored: the event loop is free."""
    arguments = ("--model", str(model), "--maildir", str(tmp_path), "--deadline-s", "3600")
    with Running(*arguments) as running, conversation(running) as hanging:
        begin(hanging)
        hanging.sendall(b"\r\n!hang!\r\n.\r\n")
        assert header(delivered(running, tmp_path, SPAM), "Status") == "spam"
        assert len(names(tmp_path)) == 1


@pytest.mark.uncounted
def test_a_large_hostile_message_does_not_hold_up_the_others(model: Path, tmp_path: Path) -> None:
    """While forged headers are cut out of megabytes of them, another client's message is decided, stored and answered first."""
    with Running("--model", str(model), "--maildir", str(tmp_path)) as running, conversation(running) as hostile:
        begin(hostile)
        hostile.sendall(b"a\rX-Emsco-1: x\n\n" * 600_000 + b"\r\n.\r\n")
        wait_until(lambda: running.metric('emsco_decision_cost_count{bundle="tiny"}') == 1, "the hostile one is decided")
        assert header(delivered(running, tmp_path, SPAM), "Status") == "spam"
        assert select.select([hostile], [], [], 0)[0] == []
        assert reply(hostile).startswith(b"250 2.0.0 stored")


def test_commands_that_come_with_the_end_of_a_message_are_answered(shared: Running) -> None:
    """A client that does not wait for our answer gets all of them, in order."""
    with conversation(shared) as client:
        begin(client)
        client.sendall(b"x\r\n.\r\nMAIL FROM:<a@x.org>\r\nRCPT TO:<b@x.org>\r\nDATA\r\n")
        assert [line[:3] for line in read_lines(client, 4)] == [b"250", b"250", b"250", b"354"]
        client.sendall(b"x\r\n.\r\nNOOP\r\nQUIT\r\n")
        # Several answers may come at once; after the last one it hangs up.
        answers = b"".join(iter(lambda: client.recv(4096), b"")).splitlines()
        assert [line[:3] for line in answers] == [b"250", b"250", b"221"]
        assert answers[0].startswith(b"250 2.0.0 stored")


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_a_conversation_may_come_in_pieces_of_any_size(shared: Running, mail: Path, size: int) -> None:
    """Byte by byte, or all of it at once, the text of the message and QUIT included: the answers are the same, and in order."""
    before = names(mail)
    wire = b"MAIL FROM:<a@x.org>\r\nRCPT TO:<b@x.org>\r\nDATA\r\n" + SPAM + b"..\r\n.\r\nNOOP\r\nQUIT\r\n"
    with conversation(shared) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(wire), size):
            client.sendall(wire[start : start + size])
        answers = b"".join(iter(lambda: client.recv(4096), b"")).splitlines()
    assert [line[:3] for line in answers] == [b"250", b"250", b"354", b"250", b"250", b"221"]
    (path,) = names(mail) - before
    assert path.read_bytes().endswith(SPAM + b".\r\n")


def test_a_command_that_is_too_long_is_refused_and_the_next_one_is_read(shared: Running) -> None:
    """However long it is, and whatever it begins with."""
    with conversation(shared) as client:
        for length in (600, 70_000, 600_000):
            client.sendall(b"NOOP " + b"x" * length + b"\r\nNOOP\r\n")
            assert [line[:3] for line in read_lines(client, 2)] == [b"500", b"250"]


def test_a_client_that_runs_ahead_has_all_its_answers(shared: Running) -> None:
    """A megabyte of commands comes while its message is decided: more than is kept, so it waits, and then each is answered."""
    commands = b"RCPT\r\n" * 200_000
    with conversation(shared) as client:
        begin(client)
        sender = threading.Thread(target=client.sendall, args=(b"\r\n!slow!\r\n.\r\n" + commands,))
        sender.start()
        with client.makefile("rb") as lines:
            answers = [lines.readline()[:3] for _ in range(200_001)]
        sender.join()
    assert answers == [b"250"] + [b"503"] * 200_000


def test_a_model_that_cannot_be_loaded_ends_the_start(tmp_path: Path) -> None:
    """Exit status 1 and one line; a port that is taken, status 2."""
    running = Running("--model", str(tmp_path / "none"), "--maildir", str(tmp_path / "mail"))
    with pytest.raises(AssertionError, match=r"cannot be served: .*manifest"):
        running.start()
    assert running.ended() == 1
    assert "Traceback" not in running.text


@pytest.mark.parametrize("option", ["listen", "metrics", "audit"])
def test_a_place_that_cannot_be_used_is_told(shared: Running, model: Path, tmp_path: Path, option: str) -> None:
    """A port that is taken, a log in a folder that is not there: exit status 2, and one line with the remedy."""
    running = Running("--model", str(model), "--maildir", str(tmp_path))
    places = {"listen": f"{HOST}:{shared.port}", "metrics": f"{HOST}:{shared.port}", "audit": str(tmp_path / "none" / "log")}
    running.more = (f"--{option}", places[option])
    with pytest.raises(AssertionError, match=rf"serve: {option}: .* cannot be (used|opened for appending): "):
        running.start()
    assert running.ended() == 2
    assert "Traceback" not in running.text
