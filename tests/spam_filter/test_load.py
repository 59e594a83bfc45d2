"""The load driver: what it sends, what it refuses, and its baseline."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from spam_filter.load.load_test import LoadError, LoadResult, read_delivered_costs, send_all
from spam_filter.load.service_process import ServiceProcess, ServiceProcessError, cpu_seconds
from spam_filter.load.single_stage_model import make_single_stage, write_single_stage_model
from spam_filter.message.mail import Mail
from spam_filter.model import COSTS, Model
from spam_filter.service.endpoint import Endpoint
from spam_filter.service.mailboxes import Mailboxes
from spam_filter.service.outgoing import OutgoingMessage
from spam_filter.synthetic.generator import generate
from spam_filter.training.pipeline import TrainedModel

from emsco_runtime import Acquirers, Cascade, read_bundle
from emsco_runtime.bundle.publish import build_bundle
from emsco_runtime.testing import make_bundle, sample_bundle
from emsco_train import CostModel
from tests.spam_filter.fake_next_hop import FakeNextHop
from tests.spam_filter.service_under_test import HOST, Running
from tests.spam_filter.tiny_model import write_tiny_model

TOP = Path(__file__).resolve().parents[2]

numbers = st.floats(-3, 3).map(lambda value: round(value, 2))


WEIGHTS = [[[-2.0], [2.0]], [[-2.0, -1.0], [2.0, 1.0]], [[-2.0, -1.0, -3.0], [2.0, 1.0, 3.0]]]


@pytest.fixture(scope="module")
def at_once() -> Cascade:
    """Return the baseline of the runtime's sample bundle."""
    manifest, content = make_single_stage(sample_bundle())
    return Cascade(build_bundle(manifest, [content]))


@pytest.fixture(scope="module")
def to_the_end() -> Cascade:
    """Return a cascade with the same models that is never confident before its end."""
    return Cascade(make_bundle([["size"], ["links"], ["reputation"]], weights=WEIGHTS, threshold=1.0))


@given(size=numbers, links=numbers, reputation=numbers)
def test_the_baseline_acquires_at_once_and_decides_as_the_last_stage(
    at_once: Cascade, to_the_end: Cascade, size: float, links: float, reputation: float
) -> None:
    """For any item: one stage, the full cost, and the probabilities and the label that the cascade would have at its end."""
    item = {"size": size, "links": links, "reputation": reputation}
    decision, last = at_once.decide(item), to_the_end.decide(item)
    assert last.stages == 3
    assert (decision.stages, decision.cost) == (1, 28.0)
    assert decision.probabilities == last.probabilities
    assert (decision.status == "accepted") == (max(last.probabilities.values()) >= 0.9)


def test_the_baseline_is_a_model_like_any_other(tmp_path: Path) -> None:
    """It is written next to the stores, can be read back, and keeps name and version."""
    model = write_tiny_model(tmp_path / "model")
    write_single_stage_model(model, tmp_path / "everything")
    made, trained = read_bundle(tmp_path / "everything" / "bundle").manifest, read_bundle(model / "bundle").manifest
    assert [stage.acquire for stage in made.stages] == [("shouts", "links", "reputation")]
    assert (made.name, made.version, made.certificate) == (trained.name, trained.version, None)
    assert (tmp_path / "everything" / "stores.sqlite").read_bytes() == (model / "stores.sqlite").read_bytes()


def test_everything_is_acquired_and_the_same_is_decided(trained: TrainedModel, tmp_path: Path) -> None:
    """The second baseline pays for all features of the filter, those that the design leaves out too, and decides as the first."""
    for name, everything in (("at once", False), ("everything", True)):
        write_single_stage_model(trained.folder, tmp_path / name, everything=everything)
    costs = CostModel.from_file(trained.folder / COSTS)
    with Model.open(tmp_path / "at once") as at_once, Model.open(tmp_path / "everything") as everything:
        for one in generate(20, seed=5):
            mail = Mail.parse(one.raw)
            first, second = at_once.cascade.decide(mail), everything.cascade.decide(mail)
            assert (first.label, first.probabilities) == (second.label, second.probabilities)
            assert second.cost == pytest.approx(costs.meter().cost(costs.features))
            assert set(costs.features) == {name for record in second.trace for name in record.acquired}


def test_a_design_whose_inputs_are_in_another_order_keeps_it() -> None:
    """Features are asked for in the order of the stages, and reach the model in the order of its inputs."""
    bundle = make_bundle([["b"], ["a"]], seed=3)
    manifest, content = make_single_stage(bundle)
    asked: list[str] = []
    acquirers = Acquirers()
    for name in ("a", "b"):
        acquirers.feature(name)(lambda item, name=name: asked.append(name) or item[name])
    Cascade(build_bundle(manifest, [content]), acquirers).decide({"a": 0.5, "b": -0.5})
    assert asked == ["b", "a"]
    assert manifest.stages[0].inputs == bundle.manifest.stages[1].inputs


@pytest.mark.parametrize(
    ("where", "messages", "connections", "message"),
    [
        (Endpoint("192.0.2.1", 25), 1, 1, "192.0.2.1:25 is not on the loopback interface"),
        (Endpoint("mail.example", 25), 1, 1, "load is for a service of this machine only"),
        (Endpoint(HOST, 25), 0, 1, "got 0 and 1"),
        (Endpoint(HOST, 25), 100_001, 1, "got 100001 and 1"),
        (Endpoint(HOST, 25), 1, 33, "got 1 and 33"),
    ],
)
def test_load_stays_on_this_machine_and_within_bounds(where: Endpoint, messages: int, connections: int, message: str) -> None:
    """No other machine's server is loaded, and none without limit."""
    with pytest.raises(LoadError, match=message):
        send_all(where, [b""] * messages, connections)


def test_every_message_is_sent_once_with_the_line_ends_of_smtp() -> None:
    """Ten messages over three connections arrive as ten, and each has its latency."""
    with FakeNextHop() as hop:
        sent = send_all(Endpoint(HOST, hop.port), [b"Subject: %d\n\ntext\n" % number for number in range(10)], 3)
        assert sorted(hop.messages) == sorted(b"Subject: %d\r\n\r\ntext\r\n" % number for number in range(10))
    assert len(sent.latencies_s) == 10
    assert sent.rate > 0


def test_a_message_that_is_not_accepted_is_an_error() -> None:
    """Figures over messages that were refused would be worthless."""
    with FakeNextHop(answers={".": "451 not now"}) as hop, pytest.raises(LoadError, match=r"a message was not accepted: .*451"):
        send_all(Endpoint(HOST, hop.port), [b"x\n"], 1)


@pytest.mark.parametrize("answer", ["250 ok\r\n421 bye", "250-ok\r\n250 more", "nonsense"])
def test_an_answer_that_is_not_one_line_of_250_is_an_error(answer: str) -> None:
    """No sender ends in silence: what it did not send would be missing from the figures."""
    with (
        FakeNextHop("PIPELINING", answers={".": answer}) as hop,
        pytest.raises(LoadError, match=r"a message was not accepted: expected 250, got"),
    ):
        send_all(Endpoint(HOST, hop.port), [b"x\n", b"y\n"], 1)


def test_percentiles_are_values_that_were_met() -> None:
    """Of a hundred latencies of 1 to 100 ms."""
    sent = LoadResult(2.0, tuple(number / 1000 for number in range(1, 101)))
    assert [round(sent.percentile_ms(share)) for share in (0.5, 0.95, 0.99, 1.0)] == [51, 96, 100, 100]
    assert sent.rate == 50


def test_costs_are_read_from_the_headers_of_what_was_delivered(tmp_path: Path) -> None:
    """The mean over messages with a cost; one in error has none."""
    maildir = Mailboxes(tmp_path, "host")
    for status, cost in (("spam", "1.5 us"), ("ham", "2.5e+01 us"), ("error", "none")):
        maildir.deliver(OutgoingMessage(f"X-Emsco-Status: {status}\r\nX-Emsco-Cost: {cost}\r\n\r\n".encode(), "", ("b",)))
    costs = read_delivered_costs(tmp_path)
    assert costs.mean_cost == 13.25
    assert costs.statuses == {"error": 1, "ham": 1, "spam": 1}


def test_a_running_service_is_loaded_and_its_bill_read(tmp_path: Path) -> None:
    """The tiny service takes sixty messages over four connections; a third of them stops at the first stage."""
    model = write_tiny_model(tmp_path / "model")
    texts = (b"BUY BUY BUY", b"hello", b"http:x http:y BUY")
    with Running("--model", str(model), "--maildir", str(tmp_path / "mail")) as running:
        sent = send_all(Endpoint(HOST, running.port), [b"S: x\n\n" + texts[number % 3] + b"\n" for number in range(60)], 4)
    costs = read_delivered_costs(tmp_path / "mail")
    assert len(sent.latencies_s) == sum(costs.statuses.values()) == 60
    assert costs.mean_cost == pytest.approx((1 + 23 + 1) / 3)


def test_a_service_that_cannot_start_tells_why(tmp_path: Path) -> None:
    """The child's own words are in the error."""
    with (
        pytest.raises(ServiceProcessError, match=r"the service did not start: .*the folder does not exist"),
        ServiceProcess(tmp_path / "none", tmp_path / "mail"),
    ):
        pass


def test_a_load_of_no_rounds(tmp_path: Path) -> None:
    """One line says what is wrong, before any service is started."""
    command = [sys.executable, "-m", "spam_filter", "load", str(write_tiny_model(tmp_path / "model")), "--rounds", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "examples"}, cwd=TOP)
    assert (ended.returncode, ended.stderr) == (1, "load: --rounds is 0: expected at least 1\n")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone shows it")
def test_cpu_time_never_falls_while_threads_come_and_go() -> None:
    """A thread that ends while it is looked at does not hide the time of its process."""
    stopped = threading.Event()

    def start_threads() -> None:
        while not stopped.is_set():
            threads = [threading.Thread(target=lambda: None) for _ in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    starter = threading.Thread(target=start_threads)
    starter.start()
    try:
        seconds = [cpu_seconds(os.getpid()) for _ in range(2000)]
    finally:
        stopped.set()
        starter.join()
    assert seconds[0] > 0
    assert all(before <= after for before, after in pairwise(seconds))
