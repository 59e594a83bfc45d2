"""`emsco-demo`, as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from emsco_runtime import Cascade
from emsco_train.cli.demo import main as demo
from emsco_train.cli.export import main as export
from emsco_train.cli.train import main as train
from emsco_train.demo.clinic import create_clinic
from emsco_train.errors import DesignError
from tests.train.sample_tables import write_mixed

# Much of it repeats what other tests have counted.
pytestmark = pytest.mark.uncounted

DEMO = Path(sys.executable).parent / "emsco-demo"


def test_the_demo_goes_from_a_table_to_decisions(tmp_path: Path) -> None:
    """It trains, exports, certifies, decides patients with different outcomes, shows the cost, and replaces an earlier one."""
    folder = tmp_path / "demo"
    _write_earlier_demonstration(folder)
    done = subprocess.run([DEMO, "--out", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    for words in ("$ emsco-train", "$ emsco-export", "569 rows replayed", "certificate  error among accepted <=", "saved"):
        assert words in shown
    # Items that leave at the first stage query nothing that a later stage needs, and pay for the first stage alone.
    patients = shown.split("4. Decide")[1].split("5. In short")[0].split("   patient ")[1:]
    first = [output for output in patients if "after 1 of " in output]
    assert first
    for output in first:
        assert "asking whole slide" not in output
    assert any("rejected (inconclusive)" in output for output in patients)
    assert any("asking whole slide" in output for output in patients)
    manifest = Cascade.load(folder / "bundle").manifest
    assert manifest.name == "clinic"
    assert manifest.certificate is not None
    assert "<svg" in (folder / "report.html").read_text()


def _write_earlier_demonstration(folder: Path) -> None:
    """Write everything that a demonstration replaces: quicker than one of its own."""
    create_clinic(folder)
    table = write_mixed(folder.parent)
    assert train([*map(str, table.options()), "--max-stages", "1", "--out", str(folder / "run")]) == 0
    assert export([str(folder / "run"), "--out", str(folder / "bundle")]) == 0
    (folder / "report.html").write_text("old")


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
