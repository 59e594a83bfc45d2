"""`emsco-demo`: folders that it leaves alone. What it shows is tested with the README, which begins with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from emsco_train.cli.demo import main as demo
from emsco_train.cli.demonstration.clinic import create_clinic
from emsco_train.errors import DesignError


def test_the_demo_in_an_impossible_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An output folder that cannot be created: one line, status 1."""
    (tmp_path / "file").write_text("")
    assert demo(["--out", str(tmp_path / "file")]) == 1
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 1
    assert "Traceback" not in shown


def test_the_demo_overwrites_no_file_of_the_user(tmp_path: Path) -> None:
    """A folder with the user's own patients.csv is refused and stays as it is; the demonstration's own is written again."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "patients.csv").write_text("mine")
    with pytest.raises(DesignError, match="holds files that are not of a demonstration: choose an empty or a new folder"):
        create_clinic(tmp_path / "mine")
    assert [(entry.name, entry.read_text()) for entry in (tmp_path / "mine").iterdir()] == [("patients.csv", "mine")]
    for _ in range(2):
        assert create_clinic(tmp_path / "demo").table.exists()
