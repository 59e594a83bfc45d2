"""Features: as many as documented, finite for any bytes, blind to how a corpus was collected, and never the loss of a message."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from spam_filter.extractors.html_page import page_features
from spam_filter.extractors.store_scores import SAMPLE_SCORES, WORD_SCORES, host_scores, sample_scores, word_scores
from spam_filter.extractors.text import link_features
from spam_filter.features import GROUPS, HEADER_FEATURES, acquirers, feature_names
from spam_filter.learned.stores import Stores, train_stores
from spam_filter.message.mail import Mail
from spam_filter.model import Model
from spam_filter.synthetic.generator import generate
from spam_filter.training.extraction import extract_row
from spam_filter.training.pipeline import TrainedModel

from tests.spam_filter.test_mail import ODD_BYTES

COLLECTED = (
    b"List-Id: <gardeners.example.org>\nX-Keywords: \nIn-Reply-To: <1@x>\nReferences: <1@x>\nDelivered-To: you@example.org\n"
    b"X-Mailman-Version: 2\nPrecedence: bulk\nErrors-To: admin@example.org\n"
)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    """Return stores that were learned from 80 synthetic messages."""
    path = tmp_path_factory.mktemp("stores") / "stores.sqlite"
    train_stores(path, [(Mail.parse(one.raw), one.label) for one in generate(80, seed=2)])
    return Stores.open(path)


def test_there_are_as_many_features_as_promised_each_with_one_acquirer(stores: Stores) -> None:
    """25 to 60 features, no name twice, header facts alone and the others in the groups of the table."""
    names = feature_names()
    assert 25 <= len(names) <= 60
    assert len(set(names)) == len(names)
    registry = acquirers(stores)
    assert registry.names == tuple(sorted(names))
    assert {entry.names for entry in registry.entries} == {*((name,) for name in HEADER_FEATURES), *GROUPS.values()}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=ODD_BYTES)
def test_every_feature_of_any_bytes_is_a_finite_number(stores: Stores, raw: bytes) -> None:
    """No bytes make an acquirer raise, or return what a bundle would refuse."""
    row = extract_row(acquirers(stores), Mail.parse(raw))
    assert set(row) == set(feature_names())
    assert all(isinstance(value, bool) or math.isfinite(value) for value in row.values())


def test_no_feature_sees_how_mail_was_collected(stores: Stores) -> None:
    """Headers of lists, threads and delivery change no feature at all."""
    registry = acquirers(stores)
    for one in generate(40, seed=9):
        assert extract_row(registry, Mail.parse(COLLECTED + one.raw)) == extract_row(registry, Mail.parse(one.raw))


def test_links_to_the_sender() -> None:
    """Of the hosts that links point at, the share under the domain that From has; without links, or without From, none."""
    body = b"\n\nhttp://www.shop.example/a http://WWW.shop.example/b http://img.shop.example/c http://elsewhere.example/"
    for sender, expected in ((b"news@mail.shop.example", 2 / 3), (b"me@elsewhere.example", 1 / 3), (b"me@other.example", 0.0)):
        assert link_features(Mail.parse(b"From: " + sender + body))["links_to_sender"] == pytest.approx(expected)
    assert link_features(Mail.parse(b"Subject: x" + body))["links_to_sender"] == 0.0
    assert link_features(Mail.parse(b"From: me@shop.example\n\nno links"))["links_to_sender"] == 0.0


def test_the_parser_sees_what_patterns_do_not() -> None:
    """Hidden text, forms, remote images and lying links are counted; a plain message has none of it."""
    page = (
        b"Content-Type: text/html\n\n<form><input></form><a href='http://evil.test/x'>http://www.bank.example</a>"
        b"<a href='http://a.example/'>http://www.a.example/</a><img src='http://evil.test/1.gif'>"
        b"<p style='display: none'>hidden words</p>"
    )
    facts = page_features(Mail.parse(page))
    assert facts["page_forms"] == pytest.approx(math.log1p(2))
    assert facts["page_far_images"] == pytest.approx(math.log1p(1))
    assert facts["page_lying_links"] == pytest.approx(0.5)
    assert 0 < facts["page_hidden"] < 1
    assert set(page_features(Mail.parse(b"\n\nplain")).values()) == {0.0}


def test_a_store_that_fails_degrades_the_decision_and_loses_nothing(trained: TrainedModel) -> None:
    """Decisions come from fallbacks, marked degraded; with a store that answers they are what they were."""
    mails = [Mail.parse(one.raw) for one in generate(12, seed=8)]
    with Model.open(trained.folder) as model:
        before = [model.cascade.decide(mail) for mail in mails]
        assert not any(one.degraded for one in before)
        model.close()
        during = [model.cascade.decide(mail) for mail in mails]
        assert any(one.degraded for one in during)
        assert {failure.kind for one in during for failure in one.errors} <= {"exception", "breaker_open"}
    with Model.open(trained.folder) as model:
        assert [model.cascade.decide(mail).label for mail in mails] == [one.label for one in before]


def test_threads_share_one_model(model: Model) -> None:
    """Eight threads decide the same messages as one does."""
    mails = [Mail.parse(one.raw) for one in generate(24, seed=6)]
    alone = [model.cascade.decide(mail).label for mail in mails]
    found: list[list[object]] = []

    def work() -> None:
        found.append([model.cascade.decide(Mail.parse(mail.raw)).label for mail in mails])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 8


def test_text_of_ham_takes_nothing_from_the_evidence_for_spam(stores: Stores) -> None:
    """Behind the text of spam, words and links of ham lower the scores of all words, not those of the worst."""
    spam, ham = (next(mail.raw for mail in generate(40, seed=9) if mail.label == label) for label in ("spam", "ham"))
    body = b"From: a@b.example\nSubject: x\n\n" + Mail.parse(spam).text.encode() + b" http://unknown.example/ "
    before, after = Mail.parse(body), Mail.parse(body + Mail.parse(ham).text.encode())
    words, padded = word_scores(before, stores), word_scores(after, stores)
    assert padded["words_spam"] >= words["words_spam"]
    assert host_scores(after, stores)["hosts_worst"] >= host_scores(before, stores)["hosts_worst"] >= 0
    assert host_scores(Mail.parse(b""), stores) == {"hosts_reputation": 0.0, "hosts_worst": 0.0}
    assert sample_scores(Mail.parse(b""), stores) == dict.fromkeys(SAMPLE_SCORES, 0.0)
    assert word_scores(Mail.parse(b""), stores) == dict.fromkeys(WORD_SCORES, 0.0)


def test_a_footer_speaks_for_spam_and_never_for_ham(tmp_path: Path) -> None:
    """Spam behind a rule counts as it would in the text; ham there, and links to good hosts, change no score."""
    spam = b"cheap mortgage pills today http://evil.example/\n"
    ham = b"roses garden weather pruning http://good.example/\n"
    train_stores(tmp_path / "stores", [(Mail.parse(b"\n" + spam), "spam"), (Mail.parse(b"\n" + ham), "ham")] * 3)
    other, rule = b"\nroses garden weather pruning and more words\n", b"_" * 40 + b"\n"
    with Stores.open(tmp_path / "stores") as stores:
        scores = [
            {**sample_scores(mail, stores), **word_scores(mail, stores), **host_scores(mail, stores)}
            for mail in map(Mail.parse, (other, other + rule + ham, other + rule + spam, other + spam))
        ]
    plain, with_ham, with_spam, in_text = scores
    assert with_ham == plain
    for name in ("sample_score", "words_score", "words_mean", "hosts_reputation"):
        assert with_spam[name] == plain[name]
    for name in ("sample_worst", "sample_spam", "words_worst", "words_spam", "hosts_worst"):
        assert with_spam[name] > max(0.0, plain[name])
    assert with_spam["hosts_worst"] == in_text["hosts_worst"]
