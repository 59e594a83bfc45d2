"""Labelled mail: from a folder, from Maildirs, or from mbox files.

| what is there | how labels are found |
|---|---|
| a folder with `labels.csv` | its columns `file` (path within the folder) and `label`, and `received` if it has one |
| a folder with `spam` and `ham` in it | each a folder of message files, a Maildir, or an mbox file (`spam.mbox` will do) |
| two paths, one of spam and one of ham | the same |
"""

from __future__ import annotations

import csv
import mailbox
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, NoReturn, TypeAlias

from spam_filter.errors import CorpusError
from spam_filter.message.address import parse_date
from spam_filter.message.mail import Mail

__all__ = ["LABELS", "Label", "LabelledMail", "read_corpus", "read_pair", "received_time"]

Label: TypeAlias = Literal["ham", "spam"]
LABELS: Final[tuple[Label, ...]] = ("ham", "spam")
_LABEL_FILE: Final = "labels.csv"
_NO_TIME: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LabelledMail:
    """One message of a corpus.

    Parameters
    ----------
    raw
        Its bytes.
    label
        "ham" or "spam".
    received
        When it arrived; the earliest possible time where that is unknown.
    source
        Where it was found, for error messages.
    """

    raw: bytes
    label: Label
    received: datetime
    source: str


def received_time(raw: bytes) -> datetime:
    """Return when a message arrived: by its latest hop, else by its date."""
    mail = Mail.parse(raw)
    hop = parse_date(mail.received[0].rpartition(";")[2].strip()) if mail.received else None
    return hop or mail.date or _NO_TIME


def read_corpus(path: str | Path, *, may_be_empty: bool = False) -> list[LabelledMail]:
    """Read a folder of labelled mail.

    Parameters
    ----------
    path
        The folder.
    may_be_empty
        Whether it may hold one kind of mail alone, or none: what people have moved since the last time.

    Raises
    ------
    CorpusError
        If it does not exist, or holds neither labels nor the two kinds of mail.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise CorpusError(f"{folder}: the folder does not exist: give one with spam and ham in it")
    if (folder / _LABEL_FILE).is_file():
        return list(_read_labelled_files(folder))
    found = {label: next((one for one in (folder / label, folder / f"{label}.mbox") if one.exists()), None) for label in LABELS}
    if found["ham"] is None or found["spam"] is None:
        raise CorpusError(f"{folder}: found neither {_LABEL_FILE} nor both of spam and ham: add them, or give --spam and --ham")
    return read_pair(found["spam"], found["ham"], may_be_empty=may_be_empty)


def read_pair(spam: str | Path, ham: str | Path, *, may_be_empty: bool = False) -> list[LabelledMail]:
    """Read spam from one place and ham from another, each a folder of files, a Maildir, or an mbox file.

    Parameters
    ----------
    spam, ham
        The places.
    may_be_empty
        As in `read_corpus`.
    """
    places: tuple[tuple[Label, str | Path], ...] = (("ham", ham), ("spam", spam))
    found: list[LabelledMail] = []
    for label, place in places:
        before = len(found)
        found += [LabelledMail(raw, label, received_time(raw), source) for source, raw in _read_messages(Path(place))]
        if len(found) == before and not may_be_empty:
            raise CorpusError(f"{place}: found no message: give a folder of messages, a Maildir or an mbox file")
    return found


def _read_labelled_files(folder: Path) -> Iterator[LabelledMail]:
    labels = folder / _LABEL_FILE
    try:
        # Excel begins a UTF-8 file with a byte order mark.
        with labels.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except UnicodeDecodeError as error:
        raise CorpusError(f"{labels}: byte {error.object[error.start]:#04x} is not UTF-8: save the file as UTF-8") from None
    except csv.Error as error:
        raise CorpusError(f"{labels}: not readable as CSV ({error}): expected the columns file and label") from None
    for row in rows:
        name, label = row.get("file"), row.get("label")
        if name is None or label not in LABELS:
            raise CorpusError(f"{labels}: expected a file and a label, ham or spam, got {name!r} and {label!r}")
        if "\0" in name:
            raise CorpusError(f"{labels}: {name!r} is not a file name, since it holds a NUL: correct it")
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise CorpusError(f"{labels}: {name!r} is outside the folder: name files within it")
        raw = _read(path)
        yield LabelledMail(
            raw, "spam" if label == "spam" else "ham", _parse_time(row.get("received")) or received_time(raw), name
        )


def _parse_time(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CorpusError(f"received must be a time such as 2002-08-22T13:23:38Z, or empty, got {text!r}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _read_messages(place: Path) -> Iterator[tuple[str, bytes]]:
    """Yield where each message is, and its bytes."""
    if place.is_file():
        # Read as bytes: the email package may refuse a broken message.
        box = mailbox.mbox(place, factory=None, create=False)
        try:
            for key in box.iterkeys():
                yield f"{place}#{key}", box.get_bytes(key)
        finally:
            box.close()
        return
    if not place.is_dir():
        raise CorpusError(f"{place}: no such file or folder: give messages, a Maildir or an mbox file")
    is_maildir = (place / "cur").is_dir() and (place / "new").is_dir()
    folders = [place / "cur", place / "new"] if is_maildir else [place]
    for folder in folders:
        for path in _list_files(folder):
            if path.is_file() and not path.name.startswith("."):
                yield str(path), _read(path)


def _list_files(folder: Path) -> list[Path]:
    """Return the files below a folder, in order; an error where one cannot be listed: its mail would be missing silently."""

    def refuse(error: OSError) -> NoReturn:
        raise CorpusError(f"{error.filename}: cannot be listed ({error.strerror}): let it be read, or take it out of the corpus")

    return sorted(Path(root, name) for root, _, names in os.walk(folder, onerror=refuse) for name in names)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read ({error.strerror}): restore it, or take it out of the corpus") from None
