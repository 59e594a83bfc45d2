"""README: every block works, in order, in an empty folder, as a newcomer would type them."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from emsco_runtime import Cascade, write_bundle
from emsco_runtime.testing import sample_bundle
from tests.processes import run_successfully
from tests.train.sample_tables import write_mixed

pytest.importorskip("sklearn", reason="the README trains: it needs the train extra")

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
DEMO = "emsco-demo --out demo\n"


@dataclass(frozen=True, slots=True)
class Demonstration:
    """The folder that the README's `emsco-demo` was run in, and what it printed."""

    folder: Path
    shown: str


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Demonstration:
    """Run `emsco-demo` as the README does, once for all tests, where an earlier one is to be replaced."""
    folder = tmp_path_factory.mktemp("newcomer")
    _write_earlier_demonstration(folder / "demo", tmp_path_factory.mktemp("earlier"))
    return Demonstration(folder, _run_shell(DEMO, folder))


def _write_earlier_demonstration(folder: Path, elsewhere: Path) -> None:
    """Write everything that a demonstration replaces: quicker than one of its own."""
    from emsco_train.cli.demonstration.clinic import create_clinic
    from emsco_train.cli.export import main as export
    from emsco_train.cli.train import main as train

    create_clinic(folder)
    table = write_mixed(elsewhere)
    assert train([*map(str, table.options()), "--max-stages", "1", "--out", str(folder / "run")]) == 0
    assert export([str(folder / "run"), "--out", str(folder / "bundle")]) == 0
    (folder / "report.html").write_text("old")


def test_the_demo_goes_from_a_table_to_decisions(demonstration: Demonstration) -> None:
    """It trains, exports, certifies, decides patients with different outcomes, shows the cost, and replaces an earlier one."""
    shown, folder = demonstration.shown, demonstration.folder / "demo"
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


def test_every_block_of_the_readme_works_in_order(demonstration: Demonstration, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shell blocks run as written, Python blocks as one session; what they print is what the README shows.

    Our commands run in this process: that they are installed is proved with the demonstration, and in test_runs_end_to_end.py.
    The search is that of the demonstration, which has been made at full length.
    """
    folder = demonstration.folder
    monkeypatch.chdir(folder)
    text = README.read_text()
    assert text.count("--generations 12") == 1
    _, *blocks = BLOCK.findall(text.replace("--generations 12", "--generations 4"))
    assert [kind for kind, _ in blocks[:3]] == ["sh", "sh", "sh"]
    assert blocks[1] == ("sh", DEMO)
    assert sum(kind == "python" for kind, _ in blocks) >= 5
    # The demonstration has been run.
    del blocks[1]
    names: dict[str, object] = {}
    for kind, text in blocks:
        if kind == "python":
            _run_session(text, names)
        elif text.startswith("emsco-"):
            for line in text.replace("\\\n", " ").splitlines():
                run_successfully(*shlex.split(line, comments=True), cwd=folder)
        else:
            _run_shell(text, folder)
    assert (folder / "runs" / "clinic" / "report.html").is_file()
    assert (folder / "decisions.csv").is_file()


def test_the_first_example_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of the first screen runs as it stands, given a bundle, a message and the service that it asks."""
    monkeypatch.chdir(tmp_path)
    sample = sample_bundle()
    write_bundle(tmp_path / "bundles" / "spam", sample.manifest, sample.models)
    senders: list[str] = []

    def look_up(sender: str) -> dict[str, float]:
        senders.append(sender)
        return {"links": 0.0, "reputation": -1.0}

    names: dict[str, Any] = {
        "message": SimpleNamespace(text="hello friend", sender="a@example.com"),
        "reputation_service": SimpleNamespace(look_up=look_up),
    }
    kind, text = BLOCK.findall(README.read_text())[0]
    assert kind == "python"
    exec(compile(text, str(README), "exec"), names)
    assert (names["decision"].label, senders) == ("ham", ["a@example.com"])


def _run_shell(text: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", "-euc", text], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _run_session(text: str, names: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(text, names, "README", str(README), 0)
    runner = doctest.DocTestRunner()
    # Later blocks go on with the names of earlier ones.
    runner.run(test, clear_globs=False)
    names.update(test.globs)
    assert runner.summarize().failed == 0
