"""Stores: what was learned is what is read, files are replaced at once, and a store that cannot be read says so."""

from __future__ import annotations

import gc
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from spam_filter.errors import StoreError
from spam_filter.learned.clue_counts import ClueCounts, log_odds
from spam_filter.learned.clues import all_clues, clue, sample_words
from spam_filter.learned.stores import Stores, train_stores, write_stores
from spam_filter.message.mail import Mail
from spam_filter.synthetic.generator import generate

MAILS = [(Mail.parse(one.raw), one.label) for one in generate(60, seed=4)]
COUNTS = st.integers(0, 50)


@given(COUNTS, COUNTS, st.integers(50, 90), st.integers(50, 90))
def test_a_clue_speaks_for_spam_as_it_would_speak_for_ham(spam: int, ham: int, spams: int, hams: int) -> None:
    """Exchanging the labels turns the sign; a clue in equal shares says nothing; more evidence for one side never says less."""
    score = log_odds(spam, ham, spams, hams)
    assert score == pytest.approx(-log_odds(ham, spam, hams, spams), abs=1e-9)
    assert log_odds(spam, spam, spams, spams) == pytest.approx(0.0)
    assert log_odds(spam + 1, ham, spams + 1, hams) >= score or spam == spams


def test_what_was_learned_is_what_is_read(tmp_path: Path) -> None:
    """Counts, messages and opinions in the file are those of the mail, and the id is that of the content."""
    path = tmp_path / "stores.sqlite"
    made = train_stores(path, MAILS)
    knowledge = ClueCounts.of(MAILS)
    with Stores.open(path) as stores:
        assert stores.id == made == write_stores(tmp_path / "again.sqlite", knowledge)
        assert stores.messages == (sum(label == "spam" for _, label in MAILS), sum(label == "ham" for _, label in MAILS))
        for one in list(all_clues(MAILS[0][0]))[:50]:
            spam, ham = knowledge.spam.get(one, 0), knowledge.ham.get(one, 0)
            assert stores.counts(one) == (spam, ham)
            assert stores.clue_scores([one]) == {one: log_odds(spam, ham, *stores.messages)}
        many = sorted(knowledge.spam)[:1300]
        assert len(stores.clue_scores(many)) == len(many)
        assert stores.clue_scores([clue("word", "never seen")]) == stores.clue_scores([]) == {}
        assert stores.counts(clue("word", "never seen")) == (0, 0)


def test_words_that_were_asked_for_before_are_scored_as_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a store in memory, that keeps a few, keeps enough of them, or is a file; in the order in which clues are found."""
    monkeypatch.setattr("spam_filter.learned.stores._MOST_WORDS", 25)
    path = tmp_path / "stores.sqlite"
    train_stores(path, MAILS)
    pieces = [[word for window in sample_words(mail) for word in dict.fromkeys(window)] for mail, _ in MAILS]
    with Stores.open(path) as file, Stores.from_bytes(path.read_bytes(), path) as memory:
        for piece in [*pieces, *pieces[:2], pieces[1], ["never", "seen", "xyzzyx"], []]:
            words = list(dict.fromkeys(piece))
            numbers = {clue("word", word): word for word in words}
            expected = [(numbers[number], score) for number, score in file.clue_scores(list(numbers)).items()]
            assert list(memory.word_scores(words).items()) == list(file.word_scores(words).items()) == expected
        known = next(piece for piece in reversed(pieces) if piece)
        memory.word_scores(known)
        memory.close()
        for words in (known, ["another"]):
            with pytest.raises(sqlite3.Error):
                memory.word_scores(words)


def test_words_that_have_the_same_clue_have_the_same_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number may stand for several words, which a sender can look for: all of them are found, at once and one by one."""
    path = tmp_path / "stores.sqlite"
    train_stores(path, MAILS)
    monkeypatch.setattr("spam_filter.learned.stores.clue", lambda kind, _: clue(kind, "free"))
    content = path.read_bytes()
    with Stores.from_bytes(content, path) as both, Stores.from_bytes(content, path) as single:
        found = both.word_scores(["one", "two"])
        assert found == {**single.word_scores(["one"]), **single.word_scores(["two"])}
        assert set(found.values()) == set(both.clue_scores([clue("word", "free")]).values())


def test_another_label_makes_another_id(tmp_path: Path) -> None:
    """A store is named after what it holds."""
    turned = [(mail, "ham" if label == "spam" else "spam") for mail, label in MAILS]
    assert train_stores(tmp_path / "a", MAILS) != train_stores(tmp_path / "b", turned)


def test_own_domains_teach_nothing(tmp_path: Path) -> None:
    """Sender and links of a domain of one's own make no clue; the words still do."""
    mail = Mail.parse(b"From: me@home.example\n\nsee http://www.home.example/")
    assert all_clues(mail, {"home.example"}) < all_clues(mail)
    assert clue("domain", "home.example") not in all_clues(mail, {"home.example"})
    assert clue("word", "see") in all_clues(mail, {"home.example"})


def test_a_new_file_leaves_the_old_one_to_those_who_have_it_open(tmp_path: Path) -> None:
    """Replacing a store disturbs no reader; who opens it later gets the new one."""
    path = tmp_path / "stores.sqlite"
    first = train_stores(path, MAILS)
    known = next(iter(ClueCounts.of(MAILS).spam))
    with Stores.open(path) as old:
        before = old.counts(known)
        second = train_stores(path, MAILS[:10])
        assert old.counts(known) == before
        with Stores.open(path) as new:
            assert (old.id, new.id) == (first, second)
    assert [entry.name for entry in tmp_path.iterdir()] == ["stores.sqlite"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What breaks off in the middle leaves the store that was there, and no litter."""
    path = tmp_path / "stores.sqlite"
    first = train_stores(path, MAILS)

    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("spam_filter.learned.stores._sync", full)
    with pytest.raises(OSError, match="No space"):
        train_stores(path, MAILS[:10])
    assert [entry.name for entry in tmp_path.iterdir()] == ["stores.sqlite"]
    with Stores.open(path) as stores:
        assert stores.id == first


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    """Missing, foreign and other SQLite files are distinguished from stores, with the remedy."""
    (tmp_path / "text").write_text("no database", encoding="utf-8")
    with closing(sqlite3.connect(tmp_path / "other")) as other, other:
        other.executescript("CREATE TABLE facts (name TEXT, value); INSERT INTO facts VALUES ('format', 'other');")
    for name in ("missing", "text", "other"):
        with pytest.raises(StoreError, match="train again"):
            Stores.open(tmp_path / name)


def test_a_refused_file_leaves_no_connection_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection whose very first use fails is closed all the same."""
    (tmp_path / "text").write_text("no database" * 100, encoding="utf-8")
    made: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def record(*arguments: Any, **options: Any) -> sqlite3.Connection:
        made.append(connect(*arguments, **options))
        return made[-1]

    monkeypatch.setattr("spam_filter.learned.stores.sqlite3.connect", record)
    with pytest.raises(StoreError, match="train again"):
        Stores.open(tmp_path / "text")
    assert len(made) == 1
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        made[0].execute("SELECT 1")


def test_a_lock_is_waited_for_no_longer_than_said(tmp_path: Path) -> None:
    """A reader fails when the store stays locked, and reads again when it is free."""
    path = tmp_path / "stores.sqlite"
    train_stores(path, MAILS)
    with Stores.open(path, timeout_s=0.01) as stores, closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            stores.clue_scores([1])
        writer.execute("ROLLBACK")
        assert stores.clue_scores([1]) == {}


def test_a_closed_store_fails_in_every_thread(tmp_path: Path) -> None:
    """After `close`, threads that had a connection and threads that had none get an error, never an answer."""
    path = tmp_path / "stores.sqlite"
    train_stores(path, MAILS)
    stores = Stores.open(path)
    stores.close()
    stores.close()
    failures: list[Exception] = []

    def ask() -> None:
        try:
            stores.clue_scores([1])
        except sqlite3.Error as error:
            failures.append(error)

    ask()
    other = threading.Thread(target=ask)
    other.start()
    other.join()
    assert len(failures) == 2


def test_a_forgotten_store_closes_its_connections(tmp_path: Path) -> None:
    """Nobody needs to close the old store after a reload: with the last holder its connections go."""
    path = tmp_path / "stores.sqlite"
    train_stores(path, MAILS)
    stores = Stores.open(path)
    connections = stores._connections
    assert len(connections) == 1
    del stores
    gc.collect()
    for _ in range(100):
        if not connections:
            break
        time.sleep(0.01)
    assert not connections


def test_a_thread_that_ends_takes_its_connection_along(tmp_path: Path) -> None:
    """Threads of a pool come and go for months: each had a connection of its own, and none stays open behind it."""
    path = tmp_path / "stores.sqlite"
    train_stores(path, MAILS)
    with Stores.open(path) as stores:
        seen: list[int] = []

        def ask() -> None:
            stores.clue_scores([1])
            seen.append(len(stores._connections))

        for _ in range(20):
            thread = threading.Thread(target=ask)
            thread.start()
            thread.join()
        gc.collect()
        assert seen == [2] * 20
        assert len(stores._connections) == 1
