"""Tests of the example: its folder is put on the path, and a small model is trained once on synthetic mail."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from spam_filter.model import Model
    from spam_filter.training.pipeline import TrainedModel

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

# Without the extras `example` and `example-dns` there is nothing to test: some of these modules could not be imported.
collect_ignore_glob = [] if all(map(find_spec, ("aiosmtpd", "dkim", "dns", "lxml", "sklearn", "spf"))) else ["test_*.py"]


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    """Return a model that was trained on 500 synthetic messages; no test changes its folder."""
    from spam_filter.synthetic.generator import generate
    from spam_filter.training.pipeline import TrainingSettings, train_model

    # Quick, not good: what is proved here does not depend on figures.
    plan = TrainingSettings(max_error=0.2, population=20, generations=4, max_stages=3, cost_messages=15, max_cost_share=0.6)
    return train_model(list(generate(500, seed=5)), tmp_path_factory.mktemp("trained") / "model", plan)


@pytest.fixture
def model(trained: TrainedModel) -> Iterator[Model]:
    """Return the model, open."""
    from spam_filter.model import Model

    with Model.open(trained.folder) as opened:
        yield opened
