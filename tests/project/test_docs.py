"""The documentation: links lead somewhere, examples run, and commands, files and keys are those that exist."""

from __future__ import annotations

import argparse
import csv
import doctest
import importlib
import json
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from emsco_runtime.manifest import Certificate
from emsco_train.runs.preparation import prepare
from emsco_train.runs.request import TrainRequest
from emsco_train.runs.source import Columns
from emsco_train.runs.training import train
from emsco_train.search.genetic.evolution import Generation
from emsco_train.search.progress import Progress
from emsco_train.search.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", *DOCS]
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "examples").rglob("*.md"))]
RUNS = ROOT / "docs" / "runs.md"
# Keys that are names of the user's or of libraries: any word may stand there.
FREE = ("versions", "files", "rows", "designs")


def prose(page: Path) -> str:
    """Return a page without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the names by which a page's headings are linked to."""
    headings = re.findall(r"^#+ +(.*)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield the file and the heading of each relative link."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" not in target:
            name, _, heading = target.partition("#")
            yield (page.parent / name).resolve() if name else page, heading


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file of the repository, and a heading that is there."""
    dead = [
        f"{target.name}#{heading}"
        for target, heading in links(page)
        if not target.exists() or (heading and heading not in anchors(target))
    ]
    assert dead == []


def test_every_field_of_a_certificate_is_explained() -> None:
    """Who reads docs/bundle.md finds all that a certificate may hold, what was added later included."""
    assert set(Certificate.model_fields) <= table_names((ROOT / "docs" / "bundle.md").read_text(encoding="utf-8"))


def test_every_dependency_is_justified() -> None:
    """Each package that pyproject.toml names is in the table of docs/ARCHITECTURE.md."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    named = {re.split(r"[\[<>=]", line)[0] for lines in (project["dependencies"], *extras) for line in lines}
    table = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Dependencies\n")[2]
    justified = {name for cell in re.findall(r"^\| ([^|]+) \|", table, flags=re.MULTILINE) for name in cell.split(", ")}
    assert {name.removesuffix("-cpu") for name in named} - {"emsco"} <= justified


def test_the_index_names_every_page() -> None:
    """Who reads docs/README.md finds every page."""
    index = ROOT / "docs" / "README.md"
    assert {target for target, _ in links(index)} >= set(DOCS) - {index}


@pytest.mark.parametrize("page", [page for page in DOCS if ">>>" in page.read_text(encoding="utf-8")], ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example of a page gives what the page shows, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert result.attempted
    assert not result.failed


class _Caught(Exception):
    """Carries a command's parser out of it."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__(parser.prog)
        self.parser = parser


@cache
def options() -> dict[str, frozenset[str]]:
    """Return the options of every command that the distribution installs."""

    def catch(parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        raise _Caught(parser)

    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        # `parse_args` calls it, too.
        patch.setattr(argparse.ArgumentParser, "parse_known_args", catch)
        for command, place in scripts.items():
            module, _, function = place.partition(":")
            with pytest.raises(_Caught) as caught:
                getattr(importlib.import_module(module), function)([])
            found[command] = frozenset(caught.value.parser._option_string_actions)
    return found


def code_lines(page: Path) -> Iterator[str]:
    """Yield what is set as code: lines of blocks, and spans."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```.*?\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        yield from block.splitlines()
    yield from re.findall(r"`([^`\n]+)`", prose(page))


def strange_options(line: str) -> list[str]:
    """Return the options in a line of code that its command does not have; without a command, that none has."""
    command = re.search(r"\b(emsco-[a-z]+)\b", line)
    named = re.findall(r"(?<![\w-])--[a-zA-Z][\w-]*", line)
    if not named or re.search(r"\b(pip|gunicorn|uvicorn|python benchmarks)\b", line):
        return []
    known = options().get(command[1]) if command else frozenset().union(*options().values())
    return named if known is None else [option for option in named if option not in known]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_exist(page: Path) -> None:
    """Every option that a page names is one of the command next to it, or of some command where none is."""
    assert [option for line in code_lines(page) for option in strange_options(line)] == []


def test_strange_options_are_found() -> None:
    """An option of another command, or of none, does not pass."""
    assert strange_options("emsco-run BUNDLE --polish --out FILE") == ["--polish"]
    assert strange_options("--polish") == []
    assert strange_options("--deadline") == ["--deadline"]
    assert strange_options("emsco-nothing --out") == ["--out"]
    assert strange_options("gunicorn --preload") == []


class _Interrupting(Progress):
    """Stands for a user who presses Ctrl-C after the first generation."""

    def on_generation(self, generation: Generation) -> None:
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny run that was cut short, so that it has every file that a run can have."""
    folder = tmp_path_factory.mktemp("docs")
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(240, 3))
    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["size", "links", "reputation", "label"])
        writer.writerows([*map(str, row), "spam" if abs(row[0]) > 0.7 else "ham"] for row in rows.tolist())
    request = TrainRequest(
        {None: str(folder / "rows.csv")},
        Columns(),
        (0.8,),
        method="evolve",
        settings=Settings(population=20),
        jobs=1,
        stages="curved",
    )
    trained = train(prepare(request), folder / "run", watch=lambda _: _Interrupting(what="test"))
    assert trained.interrupted
    return folder / "run"


def table_names(text: str) -> set[str]:
    """Return every name set as code in the first cells of a text's tables."""
    cells = re.findall(r"^\| ?((?:[^|\\\n]|\\.)*)\|", text, flags=re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def section(title: str) -> str:
    """Return the part of docs/runs.md under a heading."""
    return re.split(r"^## ", RUNS.read_text(encoding="utf-8").split(f"## {title}\n")[1], flags=re.MULTILINE)[0]


def keys(document: Any) -> Iterator[str]:
    """Yield the keys of a document whose names are ours."""
    if isinstance(document, list):
        for part in document:
            yield from keys(part)
    elif isinstance(document, dict):
        for key, value in document.items():
            yield key
            inner = value.values() if key in FREE and isinstance(value, dict) else [value]
            for part in inner:
                yield from keys(part)


def test_files_of_a_run(run: Path) -> None:
    """The table of files names just those that a run writes, checkpoints included."""
    written = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    documented = table_names(RUNS.read_text(encoding="utf-8").partition("\n## ")[0])
    assert documented == written


def test_columns_of_a_run(run: Path) -> None:
    """The tables of columns are complete, in both directions."""
    with (run / "front.csv").open(encoding="utf-8") as file:
        documented = table_names(section("front.csv"))
        # Some columns are there for each label.
        named = {name.replace("LABEL", label) for name in documented for label in ("ham", "spam")}
        assert named == set(next(csv.reader(file)))
    with (run / "splits.csv").open(encoding="utf-8") as file:
        assert set(next(csv.reader(file))) <= set(re.findall(r"`([^`]+)`", section("splits.csv")))


@pytest.mark.parametrize("name", ["front.json", "calibration.json", "labels.json", "curves.json", "run.json"])
def test_keys_of_a_run(name: str, run: Path) -> None:
    """Every key of each document is documented under its heading, and every key in the table's first column is one."""
    found = set(keys(json.loads((run / name).read_text(encoding="utf-8"))))
    text = section(name)
    assert found <= set(re.findall(r"`([^`]+)`", text))
    assert table_names(text) <= found
