"""No message that was answered 250 is lost: the service is killed, its store locked, its next hop goes away, under traffic."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from spam_filter.training.pipeline import TrainedModel

from tests.runtime.reporting import report
from tests.runtime.waiting import wait_until
from tests.spam_filter.fake_next_hop import FakeNextHop
from tests.spam_filter.service_under_test import HOST, Running, worker_processes
from tests.spam_filter.tiny_model import write_tiny_model
from tests.spam_filter.traffic import Traffic

SHARED = Path(__file__).parents[3] / "shared" / "data" / "spamassassin_sample.tar.gz"


def synthetic_messages(count: int) -> dict[str, bytes]:
    """Return messages with dots, bytes that are not text, long lines, and all three verdicts."""
    texts = (b"BUY BUY BUY http://x", b"regards regards", b"hello", b".", b"..x", b"\xff\xfe\x00", b"long" * 5000)
    return {
        f"m{number}": b"Subject: %d\r\n\r\n%s\r\n.\r\n%s\r\n" % (number, texts[number % 7], texts[number % 5])
        for number in range(count)
    }


def real_messages(count: int) -> dict[str, bytes]:
    """Return real messages, with the line ends of SMTP; all else as it is."""
    if not SHARED.exists():
        pytest.skip("the shared mail sample is not here")
    messages: dict[str, bytes] = {}
    with tarfile.open(SHARED) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is None or len(messages) == count:
                continue
            raw = file.read().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
            messages[f"m{len(messages)}"] = raw if raw.endswith(b"\r\n") else raw + b"\r\n"
    return messages


def remove_our_headers(content: bytes) -> bytes:
    """Return a delivered message without the lines that we add; those of the envelope are in a Maildir alone."""
    if content.startswith(b"Return-Path: "):
        content = content.split(b"\r\n", 2)[2]
    for name in (b"Status", b"Confidence", b"Stage", b"Cost", b"Bundle"):
        line, _, content = content.partition(b"\r\n")
        assert line.startswith(b"X-Emsco-" + name + b": ")
    for name in (b"Degraded", b"Unread", b"Note"):
        if content.startswith(b"X-Emsco-" + name + b": "):
            content = content.partition(b"\r\n")[2]
    return content


class FaultInjector:
    """One service under traffic, and all that can befall it."""

    def __init__(self, running: Running, traffic: Traffic, hop: FakeNextHop, folder: Path, model: Path) -> None:
        self.running, self.traffic, self.hop = running, traffic, hop
        self.maildir, self.store = folder / "mail", model / "stores.sqlite"
        # A trained model holds its store in memory, where no lock reaches it.
        self.asks_file = not (model / "model.json").exists()

    def to_hop(self) -> None:
        """Let the next start of the service pass mail on."""
        self.running.more = ("--next-hop", f"{HOST}:{self.hop.port}")

    def to_maildir(self) -> None:
        """Let the next start of the service store mail."""
        self.running.more = ("--maildir", str(self.maildir))

    def wait_for(self, answered: int) -> None:
        """Wait until `answered` messages were answered 250."""
        wait_until(lambda: len(self.traffic.answered) >= answered or not self.traffic.running, f"{answered} answers", 600)

    def kill(self) -> None:
        """Kill the service in the midst of its work, and start it again."""
        assert self.traffic.running, "the traffic ended before the service could be killed"
        self.running.kill()
        self.running.start()

    def kill_worker(self) -> None:
        """Kill one of the processes of a supervisor."""
        assert self.traffic.running, "the traffic ended before a process could be killed"
        before = self.running.metric("spam_filter_restarts_total")
        worker_processes(self.running)[0].kill()
        wait_until(lambda: self.running.metric("spam_filter_restarts_total") > before, "it is replaced")

    def lock_store(self, seconds: float) -> None:
        """Hold the store for some time, in which mail goes on: a model that asks the file has fallback values."""
        before = len(self.traffic.answered)
        with closing(sqlite3.connect(self.store, isolation_level=None, timeout=60)) as store:
            store.execute("BEGIN EXCLUSIVE")
            time.sleep(seconds)
            if self.asks_file:
                wait_until(lambda: self.running.metric("emsco_degraded_decisions_total") > 0, "a decision is degraded")
            wait_until(lambda: len(self.traffic.answered) > before, "mail goes on")
            store.execute("ROLLBACK")

    def hop_outage(self) -> None:
        """Take the next hop away until senders got 451, and bring it back."""
        before = self.traffic.replies["451"]
        self.hop.stop()
        wait_until(lambda: self.traffic.replies["451"] > before + 2, "senders keep their mail")
        self.hop.start()

    def check(self) -> tuple[int, int, int]:
        """Assert that nothing answered 250 is lost or changed; return how many are in the Maildir, at the hop, and twice."""
        assert self.traffic.answered == set(self.traffic.messages), self.traffic.replies
        stored = [path.read_bytes() for path in (self.maildir / "new").iterdir()]
        arrived = Counter(remove_our_headers(content) for content in stored + self.hop.messages)
        sent = Counter(self.traffic.messages.values())
        lost = sent - arrived
        assert not lost, f"{lost.total()} messages were answered 250 and are nowhere"
        assert not set(arrived) - set(sent), "something arrived that was never sent"
        return len(stored), len(self.hop.messages), (arrived - sent).total()


@pytest.mark.parametrize("processes", [pytest.param(1, marks=pytest.mark.proof), 2])
def test_a_short_storm(tmp_path: Path, processes: int) -> None:
    """Made-up messages over eight connections: kills, a locked store, a next hop that goes and comes; all arrive."""
    model = write_tiny_model(tmp_path / "model")
    # The first of two processes serves while the second still starts: there must be traffic left for what comes then.
    messages, pause_s = (synthetic_messages(120), 0.02) if processes == 1 else (synthetic_messages(400), 0.15)
    with FakeNextHop() as hop:
        running = Running("--model", str(model), "--processes", str(processes))
        trouble = FaultInjector(running, traffic := Traffic(running.port, messages, pause_s=pause_s), hop, tmp_path, model)
        trouble.to_hop()
        with running:
            traffic.start()
            trouble.wait_for(15)
            trouble.hop_outage()
            trouble.wait_for(40)
            trouble.to_maildir()
            trouble.kill()
            trouble.wait_for(50)
            trouble.lock_store(0.5)
            if processes > 1:
                trouble.kill_worker()
            traffic.join()
            assert running.end() == 0
        stored, passed_on, _ = trouble.check()
        assert stored >= 40
        assert passed_on >= 40
        assert traffic.replies["451"] > 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a disk of 300 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.proof)])
def test_a_full_disk_defers_and_loses_nothing(tmp_path: Path, small_disk: Path, processes: int) -> None:
    """40 messages of 20 kB on a disk for some ten: 452 while it is full; each is delivered when there is room again."""
    model = write_tiny_model(tmp_path / "model")
    messages = {f"m{number}": b"Subject: %d\r\n\r\n%s\r\n" % (number, b"x" * 20_000) for number in range(40)}
    arguments = ("--model", str(model), "--maildir", str(small_disk / "mail"), "--processes", str(processes))
    kept: list[bytes] = []
    with Running(*arguments) as running:
        traffic = Traffic(running.port, messages)
        traffic.start()
        while traffic.running:
            before = traffic.replies["452"]
            wait_until(lambda before=before: traffic.replies["452"] > before + 2 or not traffic.running, "it is full")
            # A reader takes what is there: what is in new/ is whole.
            for path in (small_disk / "mail" / "new").iterdir():
                kept.append(path.read_bytes())
                path.unlink()
        traffic.join()
        assert not list((small_disk / "mail" / "tmp").iterdir())
        assert running.end() == 0
    kept += [path.read_bytes() for path in (small_disk / "mail" / "new").iterdir()]
    assert traffic.replies["452"] > 2
    assert traffic.answered == set(messages)
    assert Counter(map(remove_our_headers, kept)) == Counter(messages.values())


@pytest.mark.proof
@pytest.mark.parametrize("processes", [1, 2])
def test_a_long_storm_on_real_mail(
    tmp_path: Path, trained: TrainedModel, capsys: pytest.CaptureFixture[str], processes: int
) -> None:
    """2,000 real messages: five kills, stores locked for seconds, a next hop that goes and comes; none is lost or changed."""
    messages = real_messages(2000)
    arguments = ("--model", str(trained.folder), "--processes", str(processes))
    running = Running(*arguments, command=("-m", "spam_filter", "serve"))
    with FakeNextHop() as hop:
        trouble = FaultInjector(running, traffic := Traffic(running.port, messages, pause_s=0.05), hop, tmp_path, trained.folder)
        trouble.to_hop()
        with running:
            traffic.start()
            for turn in range(5):
                trouble.wait_for(300 * turn + 100)
                if turn % 2 == 0:
                    trouble.hop_outage()
                    trouble.to_maildir()
                else:
                    trouble.lock_store(2.0)
                    trouble.to_hop()
                trouble.wait_for(300 * turn + 250)
                if processes > 1:
                    trouble.kill_worker()
                trouble.kill()
            trouble.lock_store(2.0)
            traffic.join()
            assert running.end() == 0
        stored, passed_on, twice = trouble.check()
        assert stored >= 250
        assert passed_on >= 250
        summary = f"{stored} in the Maildir, {passed_on} at the next hop, {twice} twice; answers: {dict(traffic.replies)}"
        report(capsys, f"2,000 real messages, {processes} processes: {summary}")
