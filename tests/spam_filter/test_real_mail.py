"""Real mail: it is read as Python's parser reads it, and the filter on it is as good as documented."""

from __future__ import annotations

import email
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from spam_filter.features import acquirers
from spam_filter.learned.stores import Stores
from spam_filter.message.mail import Mail
from spam_filter.model import STORES
from spam_filter.training.corpus import LabelledMail
from spam_filter.training.extraction import extract_row
from spam_filter.training.pipeline import TrainedModel

from tests.spam_filter.real_mail import needs_sample, read_sample

pytestmark = needs_sample
TOP = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> list[LabelledMail]:
    """Return the messages of the sample."""
    return read_sample(tmp_path_factory.mktemp("sample"))


def test_parts_of_real_mail_are_those_of_the_email_package(sample: list[LabelledMail]) -> None:
    """Of every fifth message, one in two hundred at most differs in its leaves (delivery reports hold headers, not parts)."""
    chosen = sample[::5]
    differ = 0
    for one in chosen:
        theirs = [part.get_content_type() for part in email.message_from_bytes(one.raw).walk() if not part.is_multipart()]
        differ += len(theirs) != len(Mail.parse(one.raw).parts)
    assert differ <= len(chosen) / 200


def test_features_of_real_mail_are_finite(sample: list[LabelledMail], trained: TrainedModel) -> None:
    """Every thirtieth message has all its features, from stores that never saw such mail."""
    with Stores.open(trained.folder / STORES) as stores:
        registry = acquirers(stores)
        for one in sample[::30]:
            assert all(math.isfinite(value) for value in extract_row(registry, Mail.parse(one.raw)).values())


@pytest.mark.proof
def test_the_filter_keeps_its_promises_on_several_splits(tmp_path: Path) -> None:
    """The benchmark with three splits, which says whether error, coverage, lost ham, charged cost and speed are as wanted."""
    out = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, "benchmarks/spam_filter.py", "--first-seed", "28", "--seeds", "3", "--out", str(out)], cwd=TOP, text=True
    )
    figures = json.loads(out.read_text(encoding="utf-8"))
    assert figures["refused"] == []
    assert len(figures["splits"]) == 3
    assert done.returncode == 0
