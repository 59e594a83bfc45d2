"""Tests of the example: its folder is put on the path, and a small model is trained once on synthetic mail."""

from __future__ import annotations

import fcntl
import os
import pickle
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
collect_ignore_glob = [] if all(map(find_spec, ("dkim", "dns", "lxml", "sklearn", "spf"))) else ["test_*.py"]


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    """Return a model that was trained on 500 synthetic messages, once for all processes; no test changes its folder."""
    base = tmp_path_factory.getbasetemp()
    # The folders of the processes are in one.
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    shared.mkdir(exist_ok=True)
    kept = shared / "trained.pickle"
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_bytes(pickle.dumps(_train(tmp_path_factory.mktemp("trained") / "model")))
    made: TrainedModel = pickle.loads(kept.read_bytes())
    return made


def _train(folder: Path) -> TrainedModel:
    from spam_filter.synthetic.generator import generate
    from spam_filter.training.pipeline import TrainingSettings, train_model

    # Quick, not good: what is proved here does not depend on figures.
    plan = TrainingSettings(max_error=0.2, population=20, generations=4, max_stages=3, cost_messages=15, max_cost_share=0.6)
    return train_model(list(generate(500, seed=5)), folder, plan)


@pytest.fixture
def model(trained: TrainedModel) -> Iterator[Model]:
    """Return the model, open."""
    from spam_filter.model import Model

    with Model.open(trained.folder) as opened:
        yield opened
