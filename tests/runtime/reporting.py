"""Figures that a long form came to, shown by `make proofs` although the test passes."""

from __future__ import annotations

import sys

import pytest


def report(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Write a line to the terminal, past pytest's capturing."""
    with capsys.disabled():
        sys.stdout.write(f"\n  {text}\n")
