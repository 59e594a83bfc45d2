"""Text files that are written completely or not at all."""

from __future__ import annotations

from pathlib import Path

from emsco_runtime.support.files import open_output

__all__ = ["write_text"]


def write_text(path: Path, text: str) -> None:
    """Write a file in one step: a reader sees the old content or the new one. A pipe or a device is written to."""
    with open_output(path) as file:
        file.write(text)
