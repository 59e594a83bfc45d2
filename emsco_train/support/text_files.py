"""Text files for people and other programs: complete, or not at all."""

from __future__ import annotations

from pathlib import Path

from emsco_runtime.support.files import open_output

__all__ = ["write_text"]


def write_text(path: Path, text: str) -> None:
    """Write a file in one step: who reads meanwhile has the old one or the new one."""
    with open_output(path) as file:
        file.write(text)
