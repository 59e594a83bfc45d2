"""The SpamAssassin sample, where it is there; never copied, never shown."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from spam_filter.training.corpus import LabelledMail, read_corpus

__all__ = ["ARCHIVE", "needs_sample", "read_sample"]

ARCHIVE = Path(__file__).resolve().parents[3] / "shared" / "data" / "spamassassin_sample.tar.gz"
needs_sample = pytest.mark.skipif(not ARCHIVE.is_file(), reason="the SpamAssassin sample is not beside the project")


def read_sample(folder: Path) -> list[LabelledMail]:
    """Unpack the sample into a folder and read it."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return read_corpus(folder / "spamassassin_sample")
