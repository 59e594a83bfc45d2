"""Which mail a model was made from: hashes of messages, so that a later comparison can leave these out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

__all__ = ["SEEN", "hash_message", "read_seen", "write_seen"]

SEEN: Final = "seen.txt"
_CHARACTERS: Final = 16


def hash_message(raw: bytes) -> str:
    """Return what stands for a message in the file; line ends do not count, since mail servers change them."""
    return hashlib.sha256(raw.replace(b"\r\n", b"\n")).hexdigest()[:_CHARACTERS]


def write_seen(folder: Path, messages: Iterable[bytes]) -> None:
    """Write the hashes of the messages into a model's folder."""
    lines = sorted({hash_message(raw) for raw in messages})
    (folder / SEEN).write_text("\n".join(lines) + "\n", encoding="ascii")


def read_seen(folder: Path) -> frozenset[str]:
    """Return the hashes in a model's folder; none if it does not say."""
    path = folder / SEEN
    return frozenset(path.read_text(encoding="ascii").split()) if path.is_file() else frozenset()
