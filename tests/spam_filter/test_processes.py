"""Several processes: one address, one page of metrics, one audit log; a worker that ends is replaced, and signals reach all."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.runtime.waiting import wait_until
from tests.spam_filter.service_under_test import Running, worker_processes
from tests.spam_filter.test_service import SPAM, begin, conversation, delivered, header, reply, send
from tests.spam_filter.tiny_model import write_tiny_model
from tests.spam_filter.traffic import Traffic

MESSAGES = {f"m{number}": b"Subject: %d\r\n\r\nBUY BUY BUY\r\n" % number for number in range(40)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return the folder of a tiny model."""
    return write_tiny_model(tmp_path / "model")


def start(model: Path, *more: str) -> Running:
    """Return a service of two processes."""
    return Running("--model", str(model), "--maildir", str(model.parent / "mail"), "--processes", "2", *more)


def test_metrics_and_audit_lines_add_up(model: Path) -> None:
    """Forty messages over eight connections, until both processes took part: as many are counted as are sent and written."""
    sent, workers = 0, set[str]()
    with start(model, "--audit", str(model.parent / "audit.jsonl")) as running:
        # Which process accepts a connection is up to the system: one of them may be quick enough to take all eight.
        while len(workers) < 2 and sent < 50 * len(MESSAGES):
            traffic = Traffic(running.port, MESSAGES)
            traffic.start()
            traffic.join()
            sent += len(MESSAGES)
            wait_until(lambda: running.metric("spam_filter_connections") == 0, "the clients are gone")
            workers = {line.split("[")[1].split("]")[0] for line in running.log if "] message " in line}
        assert len(workers) == 2
        assert running.metric("spam_filter_messages_total") == sent
        assert running.metric('emsco_decision_cost_count{bundle="tiny"}') == sent
        assert running.end() == 0
    lines = [json.loads(line) for line in (model.parent / "audit.jsonl").read_text().splitlines()]
    assert len({line["item"] for line in lines}) == sent
    assert len(list((model.parent / "mail" / "new").iterdir())) == sent


def test_a_worker_that_is_killed_is_replaced_and_its_counts_stay(model: Path) -> None:
    """Mail goes on while it is away; afterwards there are two again, and no message is missing from the sum."""
    with start(model) as running:
        for _ in range(4):
            send(running, SPAM)
        first, second = worker_processes(running)
        first.kill()
        for _ in range(4):
            send(running, SPAM)
        wait_until(lambda: running.metric("spam_filter_restarts_total") == 1, "another one is started")
        assert f"process {first.pid} has ended (signal 9): another one takes its place" in running.text
        wait_until(lambda: len(worker_processes(running)) == 2, "there are two again")
        assert second.pid in {one.pid for one in worker_processes(running)}
        assert running.metric("spam_filter_messages_total") == 8
        assert running.end() == 0


def test_signals_reach_every_process(model: Path) -> None:
    """SIGHUP: each takes up the new model. SIGTERM: what is under way is finished, idle clients get 421, and all end."""
    mail = model.parent / "mail"
    with start(model) as running:
        first = header(delivered(running, mail, SPAM), "Bundle")
        write_tiny_model(model, spam_threshold=0.95)
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: running.metric('spam_filter_reloads_total{outcome="done"}') == 2, "both have reloaded")
        assert all(header(delivered(running, mail, SPAM), "Bundle") != first for _ in range(4))
        pids = [worker.pid for worker in worker_processes(running)]
        with conversation(running) as idle, conversation(running) as busy:
            begin(busy)
            busy.sendall(b"Subject: x\r\n")
            running.process.send_signal(signal.SIGINT)
            assert reply(idle).startswith(b"421 4.3.2 the service is stopping")
            busy.sendall(b"\r\n!slow! BUY BUY BUY\r\n.\r\n")
            assert reply(busy).startswith(b"250 2.0.0 stored")
        assert running.ended() == 0
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_workers_end_with_their_supervisor(model: Path) -> None:
    """A supervisor that is killed leaves nobody behind, and the address is free for the next one."""
    with start(model) as running:
        pids = [worker.pid for worker in worker_processes(running)]
        os.kill(running.process.pid, signal.SIGKILL)
        wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids), "the workers are gone")
        running.ended()
        running.start()
        assert header(delivered(running, model.parent / "mail", SPAM), "Status") == "spam"


def test_a_start_that_fails_ends_all_and_tells_why(model: Path, tmp_path: Path) -> None:
    """A model or a setting that cannot be used: one line, the status of a single process, and nobody left."""
    cases = ((tmp_path / "none", "audit", 1, "cannot be served"), (model, "none/audit", 2, "audit"))
    for folder, audit, status, message in cases:
        running = start(folder, "--audit", str(tmp_path / audit))
        with pytest.raises(AssertionError, match=message):
            running.start()
        assert running.ended() == status
        assert "Traceback" not in running.text
