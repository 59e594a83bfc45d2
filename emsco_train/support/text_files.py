"""Text files for people and other programs: complete, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["write_text"]


def write_text(path: Path, text: str) -> None:
    """Write a file in one step: who reads meanwhile has the old one or the new one.

    Parameters
    ----------
    path
        The file. A link stays a link; a pipe or a device is written to.
    text
        Its content.
    """
    if path.exists() and not path.is_file():
        # A pipe or a device cannot be replaced, and must not be.
        path.write_text(text, encoding="utf-8")
        return
    # A link stays a link: what it points to is replaced.
    target = path.resolve()
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
