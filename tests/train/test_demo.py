"""`emsco-demo`, as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from emsco_runtime import Cascade

DEMO = Path(sys.executable).parent / "emsco-demo"


def test_the_demo_shows_every_way_an_item_can_end(tmp_path: Path) -> None:
    """It exports, decides patients that leave at each stage or are rejected, tells the bill, and leaves a bundle that loads."""
    done = subprocess.run([DEMO, "--out", tmp_path / "demo"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for said in (
        "after 1 of 3 stages for 3 of 65 EUR",
        "after 2 of 3",
        "after 3 of 3",
        "rejected (inconclusive)",
        "acquiring",
        "saved",
    ):
        assert said in done.stdout
    # Stage 1 items acquire nothing of the later stages.
    first = done.stdout.split("patient")[2]
    assert "worst" not in first
    assert "error" not in first
    assert Cascade.load(tmp_path / "demo" / "bundle").manifest.name == "breast-cancer-demo"
    again = subprocess.run([DEMO, "--out", tmp_path / "demo"], capture_output=True, text=True)
    assert again.returncode == 0, again.stderr


def test_the_demo_in_a_place_that_is_none(tmp_path: Path) -> None:
    """An output folder that cannot be made: one line, status 1."""
    (tmp_path / "file").write_text("")
    done = subprocess.run([DEMO, "--out", tmp_path / "file"], capture_output=True, text=True)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
