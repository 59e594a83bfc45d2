"""The README of the example: every block works, in order, as an administrator would type them, on synthetic mail."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.test_readme import BLOCK, _run_session as run_session, _run_shell as run_shell
from tests.spam_filter.service_under_test import free_port

TOP = Path(__file__).resolve().parents[2]
README = TOP / "examples" / "spam_filter" / "README.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return an empty folder with nothing but the example in it; a service that is left over is stopped."""
    (tmp_path / "examples").symlink_to(TOP / "examples")
    monkeypatch.chdir(tmp_path)
    # The demonstration with less mail: what it shows is the same.
    monkeypatch.setenv("COUNT", "400")
    yield tmp_path
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int((tmp_path / "serve.pid").read_text(encoding="utf-8")), signal.SIGKILL)


@pytest.mark.proof
def test_every_block_of_the_readme_works_in_order(folder: Path) -> None:
    """Demo, training, checks, service, reload and load driver run as written, on a port that is free here, with less to do."""
    text = README.read_text(encoding="utf-8").replace("10025", str(free_port()))
    for written, short in (
        ("--count 600", "--count 450"),
        ("--generations 15", "--generations 3"),
        ("--count 200", "--count 60"),
    ):
        assert written in text
        text = text.replace(written, short)
    blocks = BLOCK.findall(text)
    assert [kind for kind, _ in blocks] == ["sh", "sh", "sh", "sh", "python", "sh", "sh"]
    names: dict[str, object] = {}
    for kind, block in blocks:
        if kind == "sh":
            run_shell(block, folder)
        else:
            run_session(block, names)
    assert (folder / "model" / "bundle" / "manifest.json").is_file()
    assert (folder / "audit.jsonl").read_text(encoding="utf-8").count("\n") == 1


def test_every_module_and_page_that_it_names_is_there() -> None:
    """Links and names of modules in the README are those of files."""
    text = README.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert (README.parent / link).exists(), link
    named = set(re.findall(r"`([a-z_]+(?:/|\.py))`", text.partition("## Where things are")[2]))
    rooms = {f"{path.name}/" for path in README.parent.iterdir() if (path / "__init__.py").is_file()}
    assert rooms <= named
    for name in named:
        assert (README.parent / name).exists(), name
