"""Text files that are written completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["write_text"]


def write_text(path: Path, text: str) -> None:
    """Write a file in one step: a reader sees the old content or the new one. A pipe or a device is written to."""
    if path.exists() and not path.is_file():
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
