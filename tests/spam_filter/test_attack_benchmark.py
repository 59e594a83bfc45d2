"""The attacks that measure, on real mail: they leave mail that is read as before, and disguises are undone."""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest
from spam_filter.learned.clues import link_hosts, word_clues
from spam_filter.message.address import registered_domain
from spam_filter.message.mail import Mail
from spam_filter.training.corpus import LabelledMail

from tests.spam_filter.real_mail import needs_sample, read_sample

pytestmark = needs_sample
TOP = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> list[LabelledMail]:
    """Return every twelfth message of the sample."""
    return read_sample(tmp_path_factory.mktemp("sample"))[::12]


@pytest.fixture
def attacks(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Import the attacks of the benchmark."""
    # Behind everything else: a script there has the name of the example.
    monkeypatch.setattr(sys, "path", [*sys.path, str(TOP / "benchmarks")])
    yield importlib.import_module("_spam_attacks")
    for name in ("_spam_attacks", "_spam_sample", "_shared_data"):
        sys.modules.pop(name, None)


def test_every_attack_leaves_a_message_with_what_it_put_there(sample: list[LabelledMail], attacks: ModuleType) -> None:
    """Forged senders are senders of ham; with ham text there is no less text than before."""
    borrowed = attacks.Borrowed.of([mail.raw for mail in sample if mail.label == "ham"])
    addresses = {address for _, address in borrowed.senders}
    for place, mail in enumerate(mail for mail in sample if mail.label == "spam"):
        before = Mail.parse(mail.raw)
        for name, attack in attacks.ATTACKS.items():
            after = Mail.parse(attack(mail.raw, borrowed, random.Random(place)))
            assert (str(after.sender) in addresses) == ("sender" in name) or str(before.sender) in addresses
            assert after.subject.startswith("Re: ") if "thread" in name else after.subject == before.subject
            if "link's domain" in name and (hosts := link_hosts(before)):
                assert after.sender.domain in map(registered_domain, hosts)
            if name.startswith("text"):
                assert len(after.text) >= min(len(before.text), 40_000)
    assert attacks.ATTACKS.keys() == attacks.LIMITS.keys()


def test_broken_words_of_real_spam_are_whole_again(sample: list[LabelledMail], attacks: ModuleType) -> None:
    """Of the clues of spam, nine in ten are still found when its words are cut or written with look-alike letters."""
    borrowed = attacks.Borrowed.of([mail.raw for mail in sample if mail.label == "ham"])
    for name in ("words cut by markup", "words cut by zero width", "look-alike letters"):
        found = asked = 0
        for mail in sample:
            if mail.label == "spam":
                before = set(chain.from_iterable(word_clues(Mail.parse(mail.raw))))
                broken = Mail.parse(attacks.ATTACKS[name](mail.raw, borrowed, random.Random(1)))
                found += len(before & set(chain.from_iterable(word_clues(broken))))
                asked += len(before)
        assert found >= 0.9 * asked, name


@pytest.mark.proof
def test_attacked_spam_is_seldom_called_ham(tmp_path: Path) -> None:
    """The benchmark with three splits: every attack within twice its limit, for three splits are few."""
    out = tmp_path / "figures.jsonl"
    command = [sys.executable, "benchmarks/attacks.py", "--first-seed", "140", "--seeds", "3", "--out", str(out)]
    assert subprocess.run(command, cwd=TOP).returncode in (0, 1)
    found = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [one["refused"] for one in found] == [False] * 3
    limits = {"text": 0.05, "words": 0.03, "look-alike letters": 0.03, "sender": 0.02, "sender and text": 0.04}
    for name in found[0]["attacks"]:
        limit = limits.get(name) or limits[name.split()[0]]
        assert sum(one["attacks"][name][0] for one in found) <= 2 * limit * sum(one["spam"] for one in found)
    assert sum(one["decided"] for one in found) >= 0.89 * sum(one["messages"] for one in found)
