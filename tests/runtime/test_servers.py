"""Under real servers: every worker decides rightly, metrics add up across workers, and one that goes takes nothing along."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="the extra `metrics` is not installed")

from prometheus_client.multiprocess import mark_process_dead
from prometheus_client.parser import text_string_to_metric_families

from emsco_runtime import Bundle, Cascade, write_bundle
from emsco_runtime.sources import pool as pool_module
from emsco_runtime.testing import make_bundle, sample_bundle
from tests.runtime.service import FOLDER, acquirers
from tests.runtime.waiting import our_threads, wait_until

pytestmark = pytest.mark.uncounted

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = 6
OLD = sample_bundle()
NEW = make_bundle([["links"], ["reputation"], ["size"]], threshold=0.7, seed=5)
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(autouse=True)
def _no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let idle threads of the cascades in this process end at once, and see that they have ended after the test."""
    monkeypatch.setattr(pool_module, "_IDLE_S", 0.05)
    before = our_threads()
    yield
    wait_until(lambda: all(thread in before for thread in our_threads()), "threads end")


def item_of(number: int) -> dict[str, Any]:
    """Return an item: some leave at each stage, some are rejected, and some sources raise."""
    item: dict[str, Any] = {
        "size": (number % 7 - 3) / 2.0,
        "links": (number % 5 - 2) / 2.0,
        "reputation": (number % 11 - 5) / 4.0,
    }
    if number % 13 == 0:
        item["links"] = "raise"
    if number % 17 == 0:
        item["reputation"] = "raise"
    return item


def describe(decision: Any) -> dict[str, Any]:
    """Return a decision without its time."""
    return {key: value for key, value in decision.items() if key != "elapsed_s"}


@dataclass(slots=True)
class Load:
    """What clients were answered."""

    decisions: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    workers: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Server:
    """A server that runs.

    Parameters
    ----------
    process
        Its first process.
    port
        Where it listens.
    log
        What it wrote.
    """

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self._port = port
        self._log = log
        self._next = 0
        self._lock = threading.Lock()

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Make one request on a connection of its own; return who answered, and what."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request(method, path, body, {"Connection": "close"})
            answer = connection.getresponse()
            content = answer.read()
            assert answer.status == 200, content
            return int(answer.headers["X-Worker"]), content
        finally:
            connection.close()

    def decide(self, load: Load) -> None:
        """Have the next item decided."""
        with self._lock:
            number = self._next
            self._next += 1
        body = json.dumps({"item": item_of(number)}).encode()
        try:
            worker, content = self.ask("POST", "/decide", body)
        except ConnectionError:
            # A worker that ends closes connections on which it has read nothing yet; proxies ask again. Had
            # it decided all the same, the metrics would count one decision too many.
            worker, content = self.ask("POST", "/decide", body)
        with self._lock:
            load.decisions.append((number, json.loads(content)))
            load.workers[worker] += 1

    def decide_many(self, load: Load, requests: int) -> list[threading.Thread]:
        """Start clients that have `requests` items decided in all."""

        def work() -> None:
            try:
                for _ in range(requests // CLIENTS):
                    self.decide(load)
            except Exception as error:  # noqa: BLE001 - reported by the test
                load.faults.append(repr(error))

        clients = [threading.Thread(target=work) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        return clients

    def scrape(self) -> tuple[int, Series]:
        """Return who answered, and the metrics."""
        worker, content = self.ask("GET", "/metrics")
        families = text_string_to_metric_families(content.decode())
        return worker, {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}

    def stop(self) -> str:
        """End it as its platform would; return what it wrote."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        return self._log.read_text(encoding="utf-8")


@contextmanager
def start_server(command: Sequence[str], folder: Path) -> Iterator[Server]:
    """Start a server on a free port of this machine; its first argument that is "FD" becomes the number of the socket."""
    write_bundle(folder / "bundle", OLD.manifest, OLD.models)
    (folder / "metrics").mkdir()
    environment = {**os.environ, FOLDER: str(folder / "bundle"), "PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics")}
    # Made here and passed on: no other process can take the port in between.
    with socket.create_server(("127.0.0.1", 0)) as listening, (folder / "log").open("wb") as log:
        number = str(listening.fileno())
        process = subprocess.Popen(
            [sys.executable, "-W", "error::RuntimeWarning", "-m", *(part.replace("FD", number) for part in command)],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
            pass_fds=[listening.fileno()],
        )
        try:
            yield Server(process, listening.getsockname()[1], folder / "log")
        finally:
            process.kill()
            process.wait()


def check(load: Load, bundles: Sequence[Bundle]) -> None:
    """See that every answer is what a cascade in this process decides, with the bundle that the answer names."""
    cascades = {bundle.manifest.id: Cascade(bundle, acquirers(asynchronous=False)) for bundle in bundles}
    assert load.faults == []
    for number, decision in load.decisions:
        expected = cascades[decision["bundle"]].decide(item_of(number))
        assert describe(decision) == describe(json.loads(expected.to_json()))


def check_metrics(series: Series, loads: Sequence[Load]) -> None:
    """See that the metrics are those of all answers together."""
    decisions = [decision for load in loads for _, decision in load.decisions]

    def total(name: str, label: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for (sample, labels), value in series.items():
            if sample == name and value:
                found[dict(labels).get(label, "")] += int(value)
        return found

    assert total("emsco_decisions_total", "reason") == Counter(one["reason"] for one in decisions)
    assert total("emsco_decisions_total", "label") == Counter(one["label"] or "" for one in decisions)
    assert total("emsco_decision_cost_count", "bundle") == Counter(sample=len(decisions))
    assert total("emsco_degraded_decisions_total", "bundle") == Counter(sample=sum(one["degraded"] for one in decisions))
    kinds = Counter(failure["kind"] for one in decisions for failure in one["errors"])
    assert total("emsco_acquirer_failures_total", "kind") == kinds
    cost = sum(value for (name, _), value in series.items() if name == "emsco_decision_cost_sum")
    assert cost == pytest.approx(sum(one["cost"] for one in decisions))


def check_all(loads: Sequence[Load], gone: int, told_by: Sequence[Series], *, workers: int) -> None:
    """See that answers and metrics are right before, while and after one worker ends, and that another took its place."""
    for load in loads:
        check(load, [OLD, NEW])
    first, *_, last = loads
    assert gone not in last.workers
    assert len(set(last.workers) | set(first.workers)) == workers + 1
    for series in told_by:
        check_metrics(series, loads)


def bundles_shown(series: Series) -> set[str]:
    """Return the ids of the bundles that some worker has in service."""
    return {dict(labels)["id"] for (name, labels), value in series.items() if name == "emsco_bundle_info" and value == 1}


def scraped_by(server: Server, workers: int) -> list[Series]:
    """Return the answers of `workers` different workers."""
    found: dict[int, Series] = {}

    def look() -> bool:
        worker, series = server.scrape()
        found[worker] = series
        return len(found) >= workers

    wait_until(look, f"{workers} workers answer")
    return list(found.values())


def ask_some(server: Server) -> Load:
    """Have a few items decided, several at a time: one after the other, they would mostly go to the same worker."""
    load = Load()
    for client in server.decide_many(load, 8 * CLIENTS):
        client.join()
    assert load.faults == []
    return load


def ask_all_workers(server: Server, workers: int, bundle: Bundle) -> Load:
    """Have items decided until `workers` different workers have answered at once, all with one bundle; return all answers."""
    answers = Load()

    def answered() -> bool:
        load = ask_some(server)
        answers.decisions += load.decisions
        answers.workers = load.workers
        return len(load.workers) >= workers and all(one["bundle"] == bundle.manifest.id for _, one in load.decisions)

    wait_until(answered, f"{workers} workers answer")
    return answers


def end_one(server: Server, worker: int) -> Load:
    """End a worker in the middle of a load; return what the clients were answered."""
    load = Load()
    clients = server.decide_many(load, 300)
    wait_until(lambda: len(load.decisions) > 60 or load.faults, "clients are answered")
    os.kill(worker, signal.SIGTERM)
    for client in clients:
        client.join()
    assert len(load.decisions) == 300, load.faults
    return load


def replace_bundle(server: Server, folder: Path, workers: int) -> Load:
    """Replace the old bundle with a new one, and have items decided until every worker has taken it up by itself."""
    write_bundle(folder / "bundle", NEW.manifest, NEW.models, force=True)
    load = ask_all_workers(server, workers, NEW)
    wait_until(lambda: bundles_shown(server.scrape()[1]) == {NEW.manifest.id}, "the metrics show the new bundle alone")
    return load


def test_gunicorn(tmp_path: Path) -> None:
    """Four pre-forked workers of a preloaded cascade: right decisions, sums in every scrape; one ends under load, one begins."""
    pytest.importorskip("gunicorn", reason="gunicorn is not installed")
    command = ["gunicorn", "--config", "tests/runtime/gunicorn_conf.py", "--bind", "fd://FD"]
    workers = ["--preload", "--workers", "4", "--threads", "4"]
    with start_server([*command, *workers, "tests.runtime.service:wsgi()"], tmp_path) as server:
        first = ask_all_workers(server, 4, OLD)
        assert server.process.pid not in first.workers
        gone = min(first.workers)
        during = end_one(server, gone)
        last = replace_bundle(server, tmp_path, 4)
        told_by = scraped_by(server, 4)
        log = server.stop()
    check_all([first, during, last], gone, told_by, workers=4)
    # Every worker ended by itself: gunicorn logs those that a signal ended.
    assert "Traceback" not in log
    assert "was sent SIG" not in log, log
    assert server.process.returncode == 0, log


def test_uvicorn(tmp_path: Path) -> None:
    """Two workers that decide in their event loops: the same guarantees."""
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    command = ["uvicorn", "--fd", "FD", "--workers", "2", "--factory", "--no-access-log", "tests.runtime.service:asgi"]
    with start_server(command, tmp_path) as server:
        first = ask_all_workers(server, 2, OLD)
        gone = min(first.workers)
        during = end_one(server, gone)
        # It has no hook for the end of a worker: its gauges are taken out here.
        mark_process_dead(gone, str(tmp_path / "metrics"))
        last = replace_bundle(server, tmp_path, 2)
        told_by = scraped_by(server, 2)
        log = server.stop()
    check_all([first, during, last], gone, told_by, workers=2)
    assert "Traceback" not in log
    assert server.process.returncode in (0, -signal.SIGTERM), log
