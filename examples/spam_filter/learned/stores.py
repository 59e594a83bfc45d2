"""The stores: one SQLite file with what the training mail taught, opened for reading.

A file is written whole and put in place at once; a reader that has the old one open keeps using it. Readers wait for a lock for a
short time only, then fail: the acquirers take the bundle's fallback, and the message is marked degraded, not ham, and delivered.

In service the bytes of the file are held in memory: no lock, and no change of the file, reaches them there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import struct
import threading
import uuid
import weakref
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

from spam_filter.errors import StoreError
from spam_filter.learned.clue_counts import ClueCounts, log_odds
from spam_filter.learned.clues import clue
from spam_filter.learned.letter_model import LetterCounts, LetterModel
from spam_filter.message.mail import Mail

__all__ = ["Stores", "train_stores", "write_stores"]

_FORMAT: Final = "emsco-spam-filter-stores 1"
_SCHEMA: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE clues (clue INTEGER PRIMARY KEY, spam INTEGER NOT NULL, ham INTEGER NOT NULL);
"""
# A few sizes of one question, so that each is prepared once; the rest is filled up with a clue that does not exist.
_SIZES: Final = (4, 16, 64, 128, 256, 512)
_NO_CLUE: Final = -1
# Four of five words that the first stage asks for are among as many that were asked for last.
_MOST_WORDS: Final = 20_000


class Stores:
    """A store file, open for reading: thread-safe.

    Parameters
    ----------
    path
        The file.
    timeout_s
        How long a reader waits for a lock.
    content
        The bytes of the file, to be held in memory; None: the file is read when it is asked.

    Raises
    ------
    StoreError
        If the file is missing or is not a store.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout_s: float = 0.1, content: bytes | None = None) -> None:
        self.path = Path(path)
        # With a slash before its name, all connections of the process share one database in memory.
        self._uri = (
            f"file:{quote(str(self.path.resolve()))}?mode=ro" if content is None else f"file:/{uuid.uuid4().hex}?vfs=memdb"
        )
        self._timeout_s = timeout_s
        self._local = threading.local()
        self._connections: set[sqlite3.Connection] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._is_in_memory = content is not None
        self._words: dict[str, tuple[int, str, float] | None] = {}
        # Only when nothing holds the store any more: decisions under way finish with the one that they began with.
        self._finalizer = weakref.finalize(self, _close_all, self._connections)
        try:
            if content is not None:
                self._fill(content)
            facts = dict(self._connection().execute("SELECT name, value FROM facts"))
        except sqlite3.Error as error:
            self.close()
            raise StoreError(f"{self.path}: not readable as a store ({error}): train again") from None
        if facts.get("format") != _FORMAT:
            self.close()
            raise StoreError(f"{self.path}: expected the format {_FORMAT!r}, got {facts.get('format')!r}: train again")
        self.id = str(facts["id"])
        self.messages = (int(facts["spam_messages"]), int(facts["ham_messages"]))
        # Most clues were seen a few times, so the same counts come again and again.
        self._odds = lru_cache(maxsize=4096)(partial(log_odds, spam_messages=self.messages[0], ham_messages=self.messages[1]))
        self.letter_model = LetterModel(LetterCounts(array("q", facts["letters"])))

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, timeout_s: float = 0.1) -> Stores:
        """Open a store; the same as calling the class."""
        return cls(path, timeout_s=timeout_s)

    @classmethod
    def from_bytes(cls, content: bytes, path: str | os.PathLike[str]) -> Stores:
        """Open a store that is held in memory; the path is for error messages."""
        return cls(path, content=content)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close all connections; lookups fail from now on."""
        with self._lock:
            self._closed = True
            _close_all(self._connections)
        # Nor are they answered from what was kept.
        self._words = {}

    def clue_scores(self, clues: Sequence[int]) -> dict[int, float]:
        """Return how much each known clue indicates spam (above 0) or ham (below 0); unknown ones are left out.

        Raises
        ------
        sqlite3.Error
            If the store is locked for longer than the timeout, damaged, or closed.
        """
        connection = self._connection()
        found: dict[int, float] = {}
        for question, chunk in _queries(clues):
            seen = iter((connection.execute(question, chunk).fetchone()[0] or "").split())
            for number, spam, ham in zip(seen, seen, seen, strict=True):
                found[int(number)] = self._odds(int(spam), int(ham))
        return found

    def word_scores(self, words: Collection[str]) -> dict[str, float]:
        """Return the scores of words, as `clue_scores`; what was found of the last ones is kept, if the store is in memory.

        Raises
        ------
        sqlite3.Error
            As `clue_scores`, unless all of them were asked for before.
        """
        if not self._is_in_memory or len(self._words) >= _MOST_WORDS:
            # A new one: other threads may be reading the old one.
            self._words = {}
        kept = self._words
        new = {word: clue("word", word) for word in words if word not in kept}
        if new:
            # Two words may have the same clue.
            scores = self.clue_scores(list(set(new.values())))
            kept.update((word, (number, word, scores[number]) if number in scores else None) for word, number in new.items())
        # In the order of their clues: equally strong ones are not all counted.
        return {word: score for _, word, score in sorted(filter(None, map(kept.__getitem__, words)))}

    def counts(self, clue: int) -> tuple[int, int]:
        """Return in how many spam and ham messages a clue was seen."""
        row = self._connection().execute("SELECT spam, ham FROM clues WHERE clue = ?", (clue,)).fetchone()
        return (0, 0) if row is None else (row[0], row[1])

    def _fill(self, content: bytes) -> None:
        """Copy a file into the database in memory; it lives as long as the first of its connections."""
        target = sqlite3.connect(self._uri, uri=True, check_same_thread=False)
        self._connections.add(target)
        with contextlib.closing(sqlite3.connect(":memory:")) as source:
            source.deserialize(content)
            source.backup(target)

    def _connection(self) -> sqlite3.Connection:
        """Return this thread's connection: SQLite lets readers work side by side, one connection does not."""
        holder: _ConnectionHolder | None = getattr(self._local, "holder", None)
        if holder is None:
            with self._lock:
                if self._closed:
                    raise sqlite3.ProgrammingError("the store is closed")
                connection = sqlite3.connect(
                    self._uri,
                    uri=True,
                    timeout=self._timeout_s,
                    isolation_level=None,
                    # `close` comes from another thread; otherwise each keeps to its own.
                    check_same_thread=False,
                )
                # Before its first use, which may fail: `close` then finds it.
                self._connections.add(connection)
                # Each thread keeps up to 4 MB of the file: most lookups then read no page.
                connection.execute("PRAGMA cache_size = -4096")
            holder = self._local.holder = _ConnectionHolder(connection)
            # Threads of a pool come and go: with the thread goes its holder, and with that its connection.
            weakref.finalize(holder, _close_one, self._connections, connection)
        return holder.connection


class _ConnectionHolder:
    """One thread's connection: a connection itself takes no finalizer."""

    __slots__ = ("__weakref__", "connection")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection


def _close_one(connections: set[sqlite3.Connection], connection: sqlite3.Connection) -> None:
    # No lock: a finalizer may run in the middle of anything, and `discard` is one step.
    connections.discard(connection)
    connection.close()


def _close_all(connections: set[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


def _queries(clues: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
    for start in range(0, len(clues), _SIZES[-1]):
        chunk = list(clues[start : start + _SIZES[-1]])
        size = next(size for size in _SIZES if size >= len(chunk))
        marks = ",".join("?" * size)
        filled = chunk + [_NO_CLUE] * (size - len(chunk))
        # All rows in one: Python's lock is let go and taken again at each row, and with other threads busy that is a long wait.
        yield f"SELECT group_concat(clue || ' ' || spam || ' ' || ham, ' ') FROM clues WHERE clue IN ({marks})", filled  # noqa: S608


def train_stores(path: str | os.PathLike[str], mails: Iterable[tuple[Mail, str]]) -> str:
    """Learn from labelled messages, write the store, and return its id.

    Parameters
    ----------
    path
        The file; one that is there is replaced at once, when the new one is complete.
    mails
        Messages with "spam" or "ham".
    """
    return write_stores(path, ClueCounts.of(mails))


def write_stores(path: str | os.PathLike[str], knowledge: ClueCounts) -> str:
    """Write what is known as a store, and return the store's id: a hash of its content.

    Parameters
    ----------
    path
        As in `train_stores`.
    knowledge
        What to write.
    """
    target = Path(path)
    new = target.with_name(f".{target.name}.{os.getpid()}.new")
    rows = sorted((one, knowledge.spam.get(one, 0), knowledge.ham.get(one, 0)) for one in {*knowledge.spam, *knowledge.ham})
    letters = knowledge.letters.counts.tobytes()
    messages = (knowledge.spam_messages, knowledge.ham_messages)
    digest = hashlib.sha256(struct.pack("<2q", *messages) + letters)
    for row in rows:
        digest.update(struct.pack("<3q", *row))
    facts = {
        "format": _FORMAT,
        "id": digest.hexdigest(),
        "spam_messages": messages[0],
        "ham_messages": messages[1],
        "letters": letters,
    }
    try:
        with contextlib.closing(sqlite3.connect(new)) as connection:
            connection.executescript(_SCHEMA)
            with connection:
                connection.executemany("INSERT INTO clues VALUES (?, ?, ?)", rows)
                connection.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
        _sync(new)
        new.replace(target)
        _sync(target.parent)
    finally:
        new.unlink(missing_ok=True)
    return str(facts["id"])


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
