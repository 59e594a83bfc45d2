"""A model is one unit: what was changed, is missing or is mixed is refused, and noticed while it is served."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from spam_filter.learned.stores import train_stores
from spam_filter.message.mail import Mail
from spam_filter.model import BUNDLE, COSTS, STORES, Model
from spam_filter.service.classification import classify
from spam_filter.synthetic.generator import generate
from spam_filter.training.pipeline import TrainedModel

from emsco_runtime import BundleError
from emsco_runtime.model_folder import MODEL_FILE
from tests.runtime.waiting import wait_until
from tests.spam_filter.service_under_test import Running
from tests.spam_filter.test_service import delivered

MAILS = [(Mail.parse(one.raw), one.label) for one in generate(40, seed=3)]


@pytest.fixture
def folder(trained: TrainedModel, tmp_path: Path) -> Path:
    """Return a copy of the model that a test may spoil."""
    return shutil.copytree(trained.folder, tmp_path / "model")


def append(path: Path) -> None:
    """Add one byte."""
    path.write_bytes(path.read_bytes() + b"\n")


def other_stores(path: Path) -> None:
    """Put the stores of another training in its place."""
    train_stores(path, MAILS)


def test_every_file_is_named(folder: Path) -> None:
    """Bundle, stores and costs: nothing that training wrote is left out."""
    named = json.loads((folder / MODEL_FILE).read_text(encoding="utf-8"))["files"]
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert set(named) == found - {MODEL_FILE}
    assert {f"{BUNDLE}/manifest.json", STORES, COSTS} <= set(named)


@pytest.mark.parametrize("name", [STORES, COSTS, f"{BUNDLE}/manifest.json", MODEL_FILE])
@pytest.mark.parametrize("spoil", [append, Path.unlink])
def test_a_file_that_was_changed_or_is_missing_is_refused(folder: Path, name: str, spoil: Callable[[Path], None]) -> None:
    """One line names the file and the remedy; only white space after the list itself changes nothing."""
    spoil(folder / name)
    if (name, spoil) == (MODEL_FILE, append):
        Model.open(folder).close()
        return
    with pytest.raises(BundleError, match="copy the folder of one training as a whole") as refused:
        Model.open(folder)
    assert str(folder / name) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("spoil", [append, Path.unlink, other_stores, lambda path: path.write_bytes(b"")])
def test_nothing_that_happens_to_the_files_changes_a_verdict(folder: Path, spoil: Callable[[Path], None]) -> None:
    """The store in service is the one that was opened, whatever lies in the folder; a lock does not reach it either."""
    messages = [one.raw for one in generate(20, seed=4)]
    with Model.open(folder) as model:
        before = [classify(model, raw, None, None) for raw in messages]
        with closing(sqlite3.connect(folder / STORES, isolation_level=None)) as writer:
            writer.execute("BEGIN EXCLUSIVE")
            assert [classify(model, raw, None, None) for raw in messages] == before
        spoil(folder / STORES)
        assert [classify(model, raw, None, None) for raw in messages] == before
        assert model.find_change() == STORES
        with pytest.raises(BundleError):
            model.reload()
        assert [classify(model, raw, None, None) for raw in messages] == before


def test_a_store_that_is_copied_over_is_noticed_by_the_service(folder: Path, tmp_path: Path) -> None:
    """Headers stay the same; log and metric tell; SIGHUP refuses the mixture, and takes the folder of one training."""
    raw = next(iter(generate(1, seed=4))).raw.replace(b"\n", b"\r\n")
    arguments = ("--model", str(folder), "--maildir", str(tmp_path / "mail"))
    with Running(*arguments, command=("-m", "spam_filter", "serve")) as running:
        before = delivered(running, tmp_path / "mail", raw)
        good = (folder / STORES).read_bytes()
        train_stores(tmp_path / "other.sqlite", MAILS)
        # As cp does: the same file, other bytes.
        (folder / STORES).write_bytes((tmp_path / "other.sqlite").read_bytes())
        assert delivered(running, tmp_path / "mail", raw) == before
        wait_until(lambda: running.metric("spam_filter_model_changed") == 1, "the change is noticed")
        wait_until(lambda: "stores.sqlite was changed on the disk" in running.text, "it is logged")
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: running.metric('spam_filter_reloads_total{outcome="failed"}') == 1, "the mixture is refused")
        assert delivered(running, tmp_path / "mail", raw) == before
        (folder / STORES).write_bytes(good)
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: running.metric('spam_filter_reloads_total{outcome="done"}') == 1, "it is taken up again")
        assert running.metric("spam_filter_model_changed") == 0
        assert delivered(running, tmp_path / "mail", raw) == before
