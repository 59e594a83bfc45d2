"""Runs that are killed, interrupted or out of time: what is kept, and that a resumed run ends as an uninterrupted one does."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from emsco_train.runs import training
from emsco_train.runs.folder import RunFolder
from emsco_train.runs.preparation import prepare
from emsco_train.runs.request import TrainRequest
from emsco_train.runs.source import Columns
from emsco_train.search import sweep
from tests.processes import RunningCommand, run, run_expecting_error, run_successfully, start
from tests.train.sample_tables import read_rows, write_wide

pytestmark = pytest.mark.uncounted

SEARCH = ["--threshold", "0.8", "--stages", "straight", "--folds", "3"]
SEARCH += ("--search", "evolve", "--generations", "120", "--population", "40")
# Far from the end, so that a signal comes in time; and after the first checkpoint, so that there is something to resume.
MIDDLE = 10


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a table of ten features."""
    return write_wide(tmp_path_factory.mktemp("table") / "wide.csv")


@pytest.fixture(scope="module")
def uninterrupted(wide: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train without disturbance."""
    path = tmp_path_factory.mktemp("runs") / "uninterrupted"
    run_successfully("emsco-train", "--data", wide, *SEARCH, "--out", path)
    return path


def generation(out: Path) -> int:
    """Return the generation of the checkpoint of a run under way; -1 before there is one."""
    path = out / ".work" / "checkpoint-1.json"
    return int(json.loads(path.read_text(encoding="utf-8"))["generation"]) if path.exists() else -1


def is_in_the_middle(wide: Path, out: Path, *more: object) -> RunningCommand:
    """Start a run, and return when it is well under way."""
    running = start("emsco-train", "--data", wide, *SEARCH, "--out", out, *more)
    running.wait_until(lambda: generation(out) >= MIDDLE)
    return running


def same_front(ours: Path, theirs: Path) -> None:
    """Compare two runs to the byte."""
    for file in ("front.csv", "front.json", "splits.csv", "calibration.json"):
        assert (ours / file).read_bytes() == (theirs / file).read_bytes()


def test_killed_and_resumed(wide: Path, uninterrupted: Path, tmp_path: Path) -> None:
    """SIGKILL in the middle: no run to export yet; with --resume, the run of an undisturbed training, cross-fitted as it is."""
    out = tmp_path / "run"
    assert RunFolder(uninterrupted).read().measured.split == "cross-fitted"
    running = is_in_the_middle(wide, out)
    running.send_signal(signal.SIGKILL)
    assert running.wait().returncode == -signal.SIGKILL
    message = run_expecting_error(1, "emsco-export", out, "--out", tmp_path / "bundle")
    assert f"{out} holds an unfinished run: end it by training again with --resume" in message
    message = run_expecting_error(1, "emsco-train", "--data", wide, *SEARCH, "--folds", 4, "--out", out, "--resume")
    assert "checkpoint-1.json" in message
    assert message.endswith("Use the same ones, or start over without resuming. It was started with --folds 3"), message
    run_successfully("emsco-train", "--data", wide, *SEARCH, "--out", out, "--resume")
    same_front(out, uninterrupted)
    assert not (out / ".work").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_and_resumed(wide: Path, uninterrupted: Path, tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C or SIGTERM: exit 130 and the front so far, which can be exported; with --resume, the run of an undisturbed one."""
    out = tmp_path / "run"
    running = is_in_the_middle(wide, out)
    running.send_signal(number)
    ended = running.wait()
    assert ended.returncode == 130, ended.stderr
    assert "interrupted; the front so far is kept. Go on with the same command and --resume" in ended.stdout
    assert "Traceback" not in ended.stderr
    assert RunFolder(out).read().thresholds[0].stopped == "interrupted"
    assert len(read_rows(out / "front.csv")) > 0
    run_successfully("emsco-export", out, "--out", tmp_path / "bundle")
    message = run_expecting_error(1, "emsco-train", "--data", wide, *SEARCH, "--out", out)
    assert "already holds a run" in message
    run_successfully("emsco-train", "--data", wide, *SEARCH, "--out", out, "--resume")
    same_front(out, uninterrupted)
    message = run_expecting_error(1, "emsco-train", "--data", wide, *SEARCH, "--out", out, "--resume")
    assert "already holds a finished run, so there is nothing to resume" in message


def test_a_replacement_that_is_killed_leaves_the_old_run(wide: Path, uninterrupted: Path, tmp_path: Path) -> None:
    """--force: until the new run is complete, the old one is whole; a checkpoint of another run is refused."""
    out = tmp_path / "run"
    shutil.copytree(uninterrupted, out)
    running = is_in_the_middle(wide, out, "--seed", 1, "--force")
    running.send_signal(signal.SIGKILL)
    running.wait()
    same_front(out, uninterrupted)
    # What is left is of seed 1.
    message = run_expecting_error(1, "emsco-train", "--data", wide, *SEARCH, "--out", out, "--resume")
    assert "belongs to a run with other data, costs, thresholds or stage models" in message
    assert message.endswith("It was started with --seed 1"), message
    same_front(out, uninterrupted)
    run_successfully("emsco-train", "--data", wide, *SEARCH, "--out", out, "--seed", 1, "--resume")
    assert RunFolder(out).read().search.seed == 1
    assert (out / "splits.csv").read_bytes() != (uninterrupted / "splits.csv").read_bytes()


def test_no_time_at_all(wide: Path, uninterrupted: Path, tmp_path: Path) -> None:
    """--time-limit 0: the genetic search keeps some designs, to be gone on from; the exact one has none, and leaves nothing."""
    out = tmp_path / "run"
    ended = run("emsco-train", "--data", wide, *SEARCH, "--out", out, "--time-limit", 0)
    assert ended.returncode == 0, ended.stderr
    assert "time limit reached, the front so far is kept" in ended.stderr
    assert RunFolder(out).read().thresholds[0].stopped == "time"
    run_successfully("emsco-train", "--data", wide, *SEARCH, "--out", out, "--resume")
    same_front(out, uninterrupted)
    exact = ["--threshold", "0.8", "--search", "exhaustive", "--max-stages", "2", "--time-limit", "0"]
    message = run_expecting_error(1, "emsco-train", "--data", wide, *exact, "--out", tmp_path / "exact")
    assert "exact search" in message
    assert "evolve" in message
    assert not (tmp_path / "exact").exists()


def request(wide: Path, *thresholds: float) -> TrainRequest:
    """Return a small exact search."""
    return TrainRequest({None: str(wide)}, Columns(drop=tuple(f"f{index}" for index in range(3, 10))), thresholds)


def test_ctrl_c_in_a_later_exact_search_keeps_the_thresholds_before(
    wide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of an exact search is not a front, but those of the thresholds before it are kept; --resume adds the rest."""
    prepared, own = prepare(request(wide, 0.7, 0.8)), sweep.run_search

    def interrupted(*arguments: Any, **options: Any) -> object:
        if options["threshold"] == 1:
            raise KeyboardInterrupt
        return own(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(sweep, "run_search", interrupted)
        trained = training.train(prepared, tmp_path / "run")
    assert trained.interrupted
    assert [entry.thresholds for entry in trained.run.thresholds] == [(0.7, 0.7)]
    whole = training.train(prepared, tmp_path / "run", resume=True)
    assert not whole.interrupted
    assert len(whole.run.thresholds) == 2
    assert not whole.folder.work.exists()


def test_ctrl_c_before_anything_was_found_leaves_nothing(wide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was found, so nothing is there."""

    def interrupted(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "run_search", interrupted)
    with pytest.raises(KeyboardInterrupt):
        training.train(prepare(request(wide, 0.7)), tmp_path / "run")
    assert not (tmp_path / "run").exists()
