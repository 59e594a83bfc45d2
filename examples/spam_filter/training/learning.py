"""Training mail from what people do: messages moved to Junk, and messages moved out of it.

Only what contradicts the filter, or what it left open, is taken: spam that it filed in Junk itself, and ham that it called ham,
would teach it its own opinions. Our headers and those of the delivery are removed; the same message has the same name, so that
one that is moved again changes its label, and running it twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spam_filter.message.header_block import read_header
from spam_filter.service.headers import PREFIX, remove_forged_headers
from spam_filter.training.corpus import LABELS, Label
from spam_filter.training.seen_mail import hash_message

__all__ = ["learn_from_moves"]

_STATUS = f"{PREFIX}Status".lower()
_ENVELOPE = (b"Return-Path:", b"Delivered-To:", b"X-Original-To:")


def learn_from_moves(label: Label, maildir: Path, out: Path, *, everything: bool = False) -> int:
    """Copy the messages of a Maildir folder into a training set; return how many are new there, or have another label now.

    Parameters
    ----------
    label
        What people mean by putting a message there.
    maildir
        The folder, such as ``Maildir/.Junk``.
    out
        The training set: ``spam/`` and ``ham/`` in it, as `train` reads them.
    everything
        Also messages that the filter gave this label itself.
    """
    # Mail of people: nobody else is to read it.
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    for one in LABELS:
        (out / one).mkdir(exist_ok=True, mode=0o700)
    count = 0
    for raw in _read_maildir(maildir):
        if not everything and read_header(raw).get(_STATUS) == label:
            continue
        clean, _ = remove_forged_headers(_without_envelope(raw))
        name = f"{hash_message(clean)}.eml"
        other = out / ("ham" if label == "spam" else "spam") / name
        target = out / label / name
        # First the new one: a crash in between leaves it twice, never nowhere, and the next run removes the other.
        if not target.exists():
            new = target.with_name(f".{name}.new")
            new.touch(mode=0o600)
            new.write_bytes(clean)
            new.rename(target)
            count += 1
        other.unlink(missing_ok=True)
    return count


def _without_envelope(raw: bytes) -> bytes:
    """Return a message without the lines at its top that differ from one recipient to the next."""
    while raw.startswith(_ENVELOPE):
        raw = raw.partition(b"\n")[2]
    return raw


def _read_maildir(maildir: Path) -> Iterator[bytes]:
    for folder in ("cur", "new"):
        for path in sorted((maildir / folder).iterdir()):
            # Of a link or a pipe nobody knows what it leads to, or whether reading it ends.
            if path.is_symlink() or not path.is_file():
                continue
            try:
                yield path.read_bytes()
            except FileNotFoundError:
                # Moved or read meanwhile: its new place is found the next time.
                continue
