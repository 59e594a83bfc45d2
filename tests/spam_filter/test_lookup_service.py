"""A model that asks the network, in service: in the event loop, within its deadline, and honest about a dead resolver."""

from __future__ import annotations

import asyncio
import smtplib
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from spam_filter.cli.train import main
from spam_filter.errors import ModelError
from spam_filter.evidence.names import dns_feature_names
from spam_filter.evidence.settings import LOOKUPS, LookupSettings
from spam_filter.features import feature_names
from spam_filter.load.lookup_counts import count_lookups, decide_without_answers
from spam_filter.message.mail import Envelope
from spam_filter.model import Model
from spam_filter.service.classification import asks_network, classify, classify_async
from spam_filter.service.dialogue import Dialogue, Limits
from spam_filter.service.verdict import Verdict
from spam_filter.service.verdict_pool import VerdictPool
from spam_filter.service.xforward import Client
from spam_filter.synthetic.generator import generate
from spam_filter.synthetic.zones import CLIENT_LIST, DOMAIN_LIST, make_zone, with_origins
from spam_filter.training.corpus import LabelledMail
from spam_filter.training.lookups import LookupPlan
from spam_filter.training.pipeline import TrainingSettings, train_model

from emsco_runtime import read_bundle
from emsco_train import CostModel
from tests.spam_filter.dns_server import HOST, NSD, NameServer, Proxy, nsd
from tests.spam_filter.service_under_test import Running

needs_nsd = pytest.mark.skipif(NSD is None, reason="nsd is not installed (Debian: apt-get install nsd)")
# Nothing of the text and little of the header: so that lookups are what is left.
_KEPT = ("subject_length", "subject_entropy", "subject_digits")


@pytest.fixture(scope="module")
def corpus() -> list[LabelledMail]:
    """Return synthetic messages with made-up clients."""
    return with_origins(generate(300, seed=5), seed=1)


@pytest.fixture(scope="module")
def zone(corpus: list[LabelledMail]) -> str:
    """Return a synthetic zone for them."""
    return make_zone(corpus)


@pytest.fixture(scope="module")
def model_folder(corpus: list[LabelledMail], zone: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model that was trained with lookups in the zone file; it needs them for most messages."""
    folder = tmp_path_factory.mktemp("lookups")
    (folder / "zone").write_text(zone)
    plan = LookupPlan(str(folder / "zone"), (CLIENT_LIST,), (DOMAIN_LIST,), timeout_s=2.0)
    settings = TrainingSettings(
        max_error=0.3,
        population=20,
        generations=4,
        max_stages=3,
        cost_messages=15,
        max_cost_share=1.0,
        without=frozenset(feature_names()) - frozenset(_KEPT),
        lookups=plan,
    )
    with warnings.catch_warnings():
        # So few features are the same for several messages.
        warnings.simplefilter("ignore")
        return train_model(corpus, folder / "model", settings).folder


@pytest.fixture(scope="module")
def server(zone: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NameServer]:
    """Return nsd with the synthetic zone."""
    with nsd(tmp_path_factory.mktemp("nsd"), zone) as running:
        yield running


def verdicts(model: Model, mails: list[LabelledMail], deadline_s: float = 30.0) -> list[Verdict]:
    """Return the verdicts on messages, all at the same time."""

    async def ask() -> list[Verdict]:
        return list(await asyncio.gather(*(classify_async(model, one.raw, None, deadline_s) for one in mails)))

    return asyncio.run(ask())


@needs_nsd
def test_a_name_server_and_the_zone_file_give_the_same_verdicts(
    corpus: list[LabelledMail], model_folder: Path, server: NameServer
) -> None:
    """The model is served with a real name server as it was trained; lookups are part of its bill; nothing is degraded."""
    with Model.open(model_folder, dns=str(model_folder.parent / "zone")) as model:
        from_file = verdicts(model, corpus[:60])
        assert asks_network(model)
        assert {name for stage in model.cascade.manifest.stages for name in stage.acquire} & set(dns_feature_names())
    with Model.open(model_folder, dns=server.where) as model:
        found = verdicts(model, corpus[:60])
        # Without an event loop, as the commands do it.
        assert [classify(model, one.raw, None, None).status for one in corpus[:5]] == [one.status for one in from_file[:5]]
    assert [one.status for one in found] == [one.status for one in from_file]
    assert {"spam", "ham"} <= {one.status for one in found} <= {"spam", "ham", "unsure"}
    assert not any(one.degraded for one in found)
    assert found[0].unit == "us of CPU and look-up time"


def test_a_bare_name_has_no_reputation(model_folder: Path) -> None:
    """A model that can tell who sent a message does not take the name in From for it."""
    names = {feature.name for feature in read_bundle(model_folder / "bundle").manifest.features}
    assert names.isdisjoint({"sender_reputation", "sender_known"})


@needs_nsd
def test_the_cascade_asks_less_than_everything(corpus: list[LabelledMail], model_folder: Path, server: NameServer) -> None:
    """The short form of benchmarks/dns_lookups.py: the same decisions with fewer questions, counted at a real name server."""
    counts = count_lookups(model_folder, server.where, [one.raw for one in corpus[:60]])
    assert 0 < counts.cascade < counts.everything
    assert any(one.accepted for one in counts.decisions)


def test_a_silent_name_server_delays_no_message_beyond_its_deadline(corpus: list[LabelledMail], model_folder: Path) -> None:
    """All get a verdict; none of those that needed a lookup is ham."""
    figures = decide_without_answers(model_folder, [one.raw for one in corpus[:30]], deadline_s=30.0)
    assert len(figures.verdicts) == 30
    assert any(one.degraded for one in figures.verdicts)
    assert not any(one.degraded and one.status == "ham" for one in figures.verdicts)
    assert not any(one.status == "error" for one in figures.verdicts)


def test_look_ups_are_priced_by_their_questions_and_shared(model_folder: Path) -> None:
    """What is derived from SPF and DKIM is paid through them; the model keeps which lists it asks."""
    costs = CostModel.from_file(model_folder / "costs.toml")
    meter = costs.meter()
    spf = meter.cost(["spf_pass"])
    # A question costs 20 ms, and SPF asks one for most messages.
    assert 0 < spf <= 40_000
    assert meter.cost(["spf_pass", "spf_fail", "sender_authenticated"]) == spf
    assert meter.cost(["authenticated_reputation"]) == pytest.approx(meter.cost(["spf_pass", "sender_reputation"]))
    assert LookupSettings.read(model_folder) == LookupSettings((CLIENT_LIST,), (DOMAIN_LIST,), 2.0)


def test_lists_without_anybody_to_ask_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A block list alone would be left out without a word."""
    with pytest.raises(SystemExit):
        main(["mail", "--out", "model", "--client-list", "bl.example"])
    assert "give --dns too" in capsys.readouterr().err


def test_a_damaged_file_of_look_ups_is_named(tmp_path: Path) -> None:
    """One line that says what to do."""
    (tmp_path / LOOKUPS).write_text("{}")
    with pytest.raises(ModelError, match=r"lookups\.json: not readable .* train again"):
        LookupSettings.read(tmp_path)


@needs_nsd
def test_a_dead_resolver_is_told_and_makes_no_ham(corpus: list[LabelledMail], model_folder: Path, server: NameServer) -> None:
    """Fallbacks decide; what they decided is named, and is never ham. When the resolver is back, all is as before."""
    with Proxy(server.port) as proxy, Model.open(model_folder, dns=proxy.where) as model:
        proxy.change = lambda _question, _answer: None
        dead = verdicts(model, corpus[:60])
    with Model.open(model_folder, dns=server.where) as model:
        alive = verdicts(model, corpus[:60])
    asked = [one for one in dead if one.degraded]
    assert asked
    assert {one.failed_sources for one in asked} == {("dns",)}
    assert {one.status for one in asked} <= {"spam", "unsure"}
    # What needed no lookup is decided as ever.
    assert all(one == other for one, other in zip(dead, alive, strict=True) if not one.degraded)


@needs_nsd
def test_no_message_waits_longer_than_its_deadline(corpus: list[LabelledMail], model_folder: Path, server: NameServer) -> None:
    """A resolver that answers after a minute: every verdict is there at the deadline, though none of its lookups is."""

    async def ask(model: Model) -> list[Verdict]:
        pool = VerdictPool(model, 0.3, 4)
        envelope = Envelope("a@nowhere.example", ("b@example.org",), "203.0.120.9")
        started = time.monotonic()
        found = await asyncio.gather(*(pool.verdict(str(place), one.raw, envelope) for place, one in enumerate(corpus[:20])))
        # Long before an answer comes: no lookup was waited for.
        assert time.monotonic() - started < 30
        return list(found)

    with Proxy(server.port) as proxy, Model.open(model_folder, dns=proxy.where) as model:
        proxy.delay_s = 60.0
        found = asyncio.run(ask(model))
    late = [one for one in found if one.note == "deadline"]
    assert late
    assert {one.status for one in late} == {"error"}


@needs_nsd
def test_the_service_delivers_everything_with_a_dead_resolver(
    corpus: list[LabelledMail], model_folder: Path, server: NameServer, tmp_path: Path
) -> None:
    """Every message answered 250 is in the Maildir, marked; those that needed a lookup say so, and none of these is ham."""
    arguments = ("--model", str(model_folder), "--maildir", str(tmp_path / "box"), "--deadline-s", "5")
    with (
        Proxy(server.port) as proxy,
        Running(*arguments, "--dns", proxy.where, command=("-m", "spam_filter", "serve")) as running,
    ):
        proxy.change = lambda _question, _answer: None
        for one in corpus[:3]:
            with smtplib.SMTP(HOST, running.port, timeout=60) as client:
                client.ehlo("mx.example")
                assert client.has_extn("xforward")
                assert client.docmd("XFORWARD", "COLOUR=red")[0] == 501
                assert client.docmd("XFORWARD", "ADDR=203.0.120.9 HELO=mx.example")[0] == 250
                client.sendmail("a@nowhere.example", ["b@example.org"], one.raw)
    delivered = [path.read_bytes() for path in sorted((tmp_path / "box").rglob("*")) if path.is_file()]
    assert len(delivered) == 3
    degraded = [content for content in delivered if b"X-Emsco-Degraded: dns\r\n" in content]
    assert degraded
    assert not any(b"X-Emsco-Status: ham" in content for content in degraded)
    assert all(b"X-Emsco-Status: " in content for content in delivered)


def test_the_client_of_a_forwarded_message_is_believed_for_one_message() -> None:
    """XFORWARD holds until the end of its message, takes more than one line, and is believed from this machine alone."""
    dialogue = Dialogue(("127.0.0.1", 1), Limits(1000, 10, "mx.example"))
    dialogue.answer(b"EHLO us.example")
    assert dialogue.client == Client("127.0.0.1", "us.example")
    for line in (b"XFORWARD ADDR=192.0.2.7", b"xforward HELO=mx"):
        assert dialogue.answer(line).text.startswith("250")
    assert dialogue.client == Client("192.0.2.7", "mx")
    dialogue.end_message()
    assert dialogue.client == Client("127.0.0.1", "us.example")
    assert Dialogue(("192.0.2.1", 1), Limits(1000, 10, "")).answer(b"XFORWARD ADDR=192.0.2.7").text.startswith("550")


def test_a_model_with_look_ups_needs_somebody_to_ask(model_folder: Path) -> None:
    """An address that is none is an error at the start, and not at the first message."""
    with pytest.raises(ModelError, match="expected HOST:PORT"):
        Model.open(model_folder, dns="nowhere")
