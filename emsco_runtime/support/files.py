"""Files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

__all__ = ["open_output", "replace_file"]


@contextlib.contextmanager
def replace_file(path: Path, *, sync: bool = False) -> Iterator[BinaryIO]:
    """Write to a temporary file beside `path`, then move it into place: a reader, or a crash, sees the old file or the new one.

    With `sync`, the content is on the disk before it is moved.
    """
    temporary = path.with_name(f".emsco-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


@contextlib.contextmanager
def open_output(path: Path) -> Iterator[TextIO]:
    """Open a text file of results for writing, as `replace_file` does.

    A link stays a link: the file that it points to is replaced. A pipe, a terminal or a device is written to directly.
    """
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="") as text:
            yield text
    else:
        with replace_file(path.resolve()) as file, io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
            yield text
