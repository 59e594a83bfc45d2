"""README: every block works, in order, in an empty folder, as a newcomer would type them."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from emsco_runtime import write_bundle
from emsco_runtime.testing import sample_bundle

pytest.importorskip("sklearn", reason="the README trains: it needs the train extra")

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def test_every_block_of_the_readme_works_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shell blocks run as written, Python blocks as one session; what they print is what the README shows."""
    monkeypatch.chdir(tmp_path)
    _, *blocks = BLOCK.findall(README.read_text())
    assert [kind for kind, _ in blocks[:3]] == ["sh", "sh", "sh"]
    assert sum(kind == "python" for kind, _ in blocks) >= 5
    names: dict[str, object] = {}
    for kind, text in blocks:
        if kind == "sh":
            _run_shell(text, tmp_path)
        else:
            _run_session(text, names)
    assert (tmp_path / "runs" / "clinic" / "report.html").is_file()
    assert (tmp_path / "decisions.csv").is_file()


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


def _run_shell(text: str, folder: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", "-euc", text], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def _run_session(text: str, names: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(text, names, "README", str(README), 0)
    runner = doctest.DocTestRunner()
    # Later blocks go on with the names of earlier ones.
    runner.run(test, clear_globs=False)
    names.update(test.globs)
    assert runner.summarize().failed == 0
