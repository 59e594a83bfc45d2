"""The SpamAssassin sample next to the project, for the benchmarks of the spam filter's features."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

from _shared_data import DATA

# The example is not an installed package; and `spam_filter.py` next to this file has its name.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from spam_filter.training.corpus import LabelledMail, read_corpus

__all__ = ["ARCHIVE", "ARTEFACTS", "COLLECTORS", "read_sample"]

ARCHIVE = DATA / "spamassassin_sample.tar.gz"
# Hosts of those who collected the sample: they show who collected it, not what it is. So does the number of hops there: the way
# of the ham changed by two hops in the course of the collection, and the way of the spam by three, in the other direction.
COLLECTORS = frozenset({"taint.org", "jmason.org", "netnoteinc.com", "localhost", "example.com"})
ARTEFACTS = frozenset({"hops"})


def read_sample(folder: Path) -> list[LabelledMail]:
    """Unpack the sample and read it."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return read_corpus(folder / "spamassassin_sample")
