"""`emsco-demo`, as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from emsco_runtime import Cascade
from emsco_train.demo.clinic import create_clinic
from emsco_train.errors import DesignError

# Much of it repeats what other tests have counted.
pytestmark = pytest.mark.uncounted

DEMO = Path(sys.executable).parent / "emsco-demo"


def test_the_demo_walks_the_whole_way(tmp_path: Path) -> None:
    """It trains, exports, certifies, decides patients that end in different ways, tells the bill, and leaves what it made."""
    folder = tmp_path / "demo"
    done = subprocess.run([DEMO, "--out", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = done.stdout
    for words in ("$ emsco-train", "$ emsco-export", "569 rows replayed", "certificate  error among accepted <=", "saved"):
        assert words in said
    # Items that leave at the first stage ask for nothing that a later stage needs, and pay for the first stage alone.
    patients = said.split("4. Decide")[1].split("5. In short")[0].split("   patient ")[1:]
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
    # The command that it shows for the next step is there, and a second visit replaces the first.
    again = subprocess.run([DEMO, "--out", folder], capture_output=True, text=True)
    assert again.returncode == 0, again.stderr


def test_the_demo_in_a_place_that_is_none(tmp_path: Path) -> None:
    """An output folder that cannot be made: one line, status 1."""
    (tmp_path / "file").write_text("")
    done = subprocess.run([DEMO, "--out", tmp_path / "file"], capture_output=True, text=True)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_the_demo_writes_over_nothing_of_the_users(tmp_path: Path) -> None:
    """A folder with the user's own patients.csv is refused and left as it is; the demonstration's own is written again."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "patients.csv").write_text("mine")
    with pytest.raises(DesignError, match="holds files that are not of a demonstration: choose an empty or a new folder"):
        create_clinic(tmp_path / "mine")
    assert [(entry.name, entry.read_text()) for entry in (tmp_path / "mine").iterdir()] == [("patients.csv", "mine")]
    for _ in range(2):
        assert create_clinic(tmp_path / "demo").table.exists()
