"""An export that is killed: a reader gets the old bundle or the new one, complete."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from emsco_runtime import Cascade
from emsco_runtime.bundle.manifest import Manifest
from tests.processes import run_successfully, start
from tests.train.sample_tables import read_rows, write_mixed

pytestmark = pytest.mark.uncounted


def load_manifest(out: Path) -> Manifest:
    """Load a bundle as production does: everything is audited, and golden items are replayed."""
    return Cascade.load(out).manifest


def leftovers(out: Path) -> set[str]:
    """Return what no manifest names."""
    named = {"manifest.json", "stages", *(stage.model.path for stage in load_manifest(out).stages)}
    return {str(entry.relative_to(out)) for entry in out.rglob("*")} - named


class ExportFolder:
    """A bundle's folder, over which exports of two designs take turns; one may be killed.

    Parameters
    ----------
    folder
        A new folder, for the run and the bundle.
    """

    def __init__(self, folder: Path) -> None:
        self.run, self.out = folder / "run", folder / "bundle"
        run_successfully("emsco-train", *write_mixed(folder).options(), "--out", self.run)
        # Of different numbers of stages, so that one of them lacks files of the other.
        rows = sorted(read_rows(self.run / "front.csv"), key=lambda row: row["stages"].count("|"))
        self.designs = (rows[0]["id"], rows[-1]["id"])
        started = time.monotonic()
        # In a child, as those that are killed.
        assert start("emsco-export", self.run, "--out", self.out, "--design", self.designs[0]).wait().returncode == 0
        self.seconds = time.monotonic() - started
        self.old = self.new = 0

    def kill(self, rng: np.random.Generator) -> None:
        """Export the other design and kill that: at any moment, or, every other time, while files are being written."""
        before = load_manifest(self.out)
        current = str(before.provenance.settings["design"])
        other = next(design for design in self.designs if design != current)
        there = self.seen()
        running = start("emsco-export", self.run, "--out", self.out, "--design", other, "--force")
        if rng.random() < 0.5:
            time.sleep(float(rng.uniform(0.0, 1.2 * self.seconds)))
        else:
            while self.seen() == there and running.process.is_alive():
                time.sleep(0.0002)
            time.sleep(float(rng.uniform(0.0, 0.02)))
        if running.process.is_alive():
            running.send_signal(signal.SIGKILL)
        ended = running.wait()
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
        after = load_manifest(self.out)
        if after.id == before.id:
            assert ended.returncode != 0
            self.old += 1
        else:
            assert after.provenance.settings["design"] == other
            self.new += 1

    def seen(self) -> set[tuple[str, int]]:
        """Return names and inodes of all files: any step of a writer shows."""
        found = set()
        for place in (self.out, self.out / "stages"):
            with os.scandir(place) as entries:
                found |= {(entry.name, entry.inode()) for entry in entries}
        return found

    def finish(self) -> None:
        """Export to the end: nothing is left of those that were killed."""
        run_successfully("emsco-export", self.run, "--out", self.out, "--design", self.designs[0], "--force")
        assert leftovers(self.out) == set()


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """Six kills: the folder always loads, as one of the two bundles, and the next export cleans up."""
    folder, rng = ExportFolder(tmp_path), np.random.default_rng(0)
    for _ in range(6):
        folder.kill(rng)
    assert folder.old > 0
    folder.finish()


@pytest.mark.proof
def test_killed_a_hundred_times(tmp_path: Path) -> None:
    """The same, a hundred times; both outcomes occur."""
    folder, rng = ExportFolder(tmp_path), np.random.default_rng(1)
    for _ in range(100):
        folder.kill(rng)
    assert folder.old > 0
    assert folder.new > 0
    folder.finish()
