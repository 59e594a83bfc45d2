"""What an unfinished run was asked for, next to what a resume asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emsco_train.cli.option_names import translate_quoted
from emsco_train.data.splits import Shares
from emsco_train.errors import DesignError
from emsco_train.runs.request import TrainRequest
from emsco_train.runs.saved_request import REQUEST_NAME, SavedRequest
from emsco_train.runs.source import Columns
from emsco_train.search.settings import Settings

PATHS = {None: "table.csv"}


def test_a_run_with_checkpoints_keeps_its_request(tmp_path: Path) -> None:
    """A later one does not replace it, and the same one differs in nothing; nor do threads, a time limit or more thresholds."""
    first = TrainRequest(PATHS, Columns("y"), (0.9,), seed=1)
    again = TrainRequest({None: "moved.csv"}, Columns("y"), (0.9, 0.8), seed=1, jobs=2, time_limit=5.0)
    saved = SavedRequest.load_or_save(first, tmp_path)
    (tmp_path / "checkpoint-1.json").touch()
    assert SavedRequest.load_or_save(TrainRequest(PATHS, Columns("x"), (0.9,)), tmp_path) == saved
    assert saved.differences(first) == saved.differences(again) == []


def test_before_the_first_checkpoint_the_latest_request_counts(tmp_path: Path) -> None:
    """There is nothing to go on from, so a resume begins with its own options."""
    SavedRequest.load_or_save(TrainRequest(PATHS, Columns("y"), (0.9,), seed=1), tmp_path)
    second = TrainRequest(PATHS, Columns("y"), (0.9,), seed=2)
    SavedRequest.load_or_save(second, tmp_path)
    (tmp_path / "checkpoint-1.json").touch()
    assert SavedRequest.load_or_save(second, tmp_path).differences(second) == []


@pytest.mark.parametrize("content", [None, b"", b"[1]", b"\xff"])
def test_a_request_that_cannot_be_read_names_nothing(tmp_path: Path, content: bytes | None) -> None:
    """Of an earlier emsco, or damaged: the run is resumed all the same."""
    (tmp_path / "checkpoint-1.json").touch()
    if content is not None:
        (tmp_path / REQUEST_NAME).write_bytes(content)
    assert (
        SavedRequest.load_or_save(TrainRequest(PATHS, Columns("y"), (0.9,)), tmp_path).differences(
            TrainRequest(PATHS, Columns("x"), (0.8,))
        )
        == []
    )


@pytest.mark.parametrize(
    ("given", "other", "shown"),
    [
        ({"seed": np.int64(3)}, {"seed": 3}, None),
        ({"C": np.float32(2)}, {"C": 2.0}, None),
        ({"costs": Path("costs.toml")}, {"costs": "costs.toml"}, None),
        ({"class_weight": {np.int64(0): 1.0, 1: 2.0}}, {}, "`class_weight='0=1,1=2'`"),
        ({"thresholds": (0.9999999,)}, {"thresholds": (1.0,)}, "`threshold=['0.9999999']`"),
    ],
)
def test_values_of_other_types_are_kept_and_shown(
    tmp_path: Path, given: dict[str, Any], other: dict[str, Any], shown: str | None
) -> None:
    """Numbers of numpy, paths and numbers as labels are kept as plain ones, to the last digit that matters."""
    options = {"paths": PATHS, "columns": Columns("y"), "thresholds": (0.9,)}
    saved = SavedRequest.load_or_save(TrainRequest(**options | given), tmp_path)
    assert saved.differences(TrainRequest(**options | given)) == []
    assert saved.differences(TrainRequest(**options | other)) == ([] if shown is None else [shown])


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    """As any other file of a run."""
    with pytest.raises(DesignError, match=r"request.json cannot be written: No such file or directory"):
        SavedRequest.load_or_save(TrainRequest(PATHS, Columns("y"), (0.9,)), tmp_path / "gone")


def test_differences_are_what_one_types_to_go_on(tmp_path: Path) -> None:
    """Of settings and columns, too; what was not given is to be left out."""
    columns = Columns("y", group="person", drop=("a", "b"), missing=frozenset({"x", "?"}), weight="w")
    settings = Settings(max_stages=3, keep_all=True)
    thresholds = ({"a": 0.9, "b": 0.8}, 0.7)
    shares, unknown = Shares(0.5, 0.2, 0.2, 0.1), {"": "ignore", "c": "fail"}
    first = TrainRequest(PATHS, columns, thresholds, shares=shares, settings=settings, unknown=unknown)
    saved = SavedRequest.load_or_save(first, tmp_path)
    asked = TrainRequest(PATHS, Columns("y", kinds={"c": "numeric"}), (0.9,), pinned=("c",), settings=Settings(polish=True))
    assert translate_quoted(" ".join(saved.differences(asked))) == (
        "--group-column person --drop a --drop b no --kind --weight-column w --missing '?,x' --threshold a=0.9,b=0.8 "
        "--threshold 0.7 --shares 0.5,0.2,0.2,0.1 --max-stages 3 --keep-all no --pin no --polish --unknown ignore "
        "--unknown c=fail"
    )
