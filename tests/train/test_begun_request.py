"""What an unfinished run was asked for, next to what a resume asks for."""

from __future__ import annotations

from pathlib import Path

from emsco_train.cli.option_names import translate_quoted
from emsco_train.data.splits import Shares
from emsco_train.runs.begun_request import BegunRequest
from emsco_train.runs.request import TrainRequest
from emsco_train.runs.source import Columns
from emsco_train.search.settings import Settings

PATHS = {None: "table.csv"}


def test_the_first_request_of_a_work_folder_is_kept(tmp_path: Path) -> None:
    """A later one does not replace it, and the same one differs in nothing; nor do threads, a time limit or more thresholds."""
    first = TrainRequest(PATHS, Columns("y"), (0.9,), seed=1)
    again = TrainRequest({None: "moved.csv"}, Columns("y"), (0.9, 0.8), seed=1, jobs=2, time_limit=5.0)
    begun = BegunRequest.keep(first, tmp_path)
    assert BegunRequest.keep(TrainRequest(PATHS, Columns("x"), (0.9,)), tmp_path) == begun
    assert begun.differences(first) == begun.differences(again) == []


def test_differences_are_what_one_types_to_go_on(tmp_path: Path) -> None:
    """Of settings and columns, too; what was not given is to be left out."""
    columns = Columns("y", group="person", drop=("a", "b"), missing=frozenset({"x", "?"}), weight="w")
    settings = Settings(max_stages=3, keep_all=True)
    first = TrainRequest(PATHS, columns, (0.9,), shares=Shares(0.5, 0.2, 0.2, 0.1), settings=settings)
    begun = BegunRequest.keep(first, tmp_path)
    asked = TrainRequest(PATHS, Columns("y", kinds={"c": "numeric"}), (0.9,), pinned=("c",))
    assert translate_quoted(" ".join(begun.differences(asked))) == (
        "--group-column person --drop a --drop b no --kind --weight-column w --missing '?,x' --shares 0.5,0.2,0.2,0.1 "
        "--max-stages 3 --keep-all no --pin"
    )
