"""`emsco-profile`: the user's modules in, a costs file out; one line for each error."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emsco_train import CostModel
from emsco_train.cli.profile import main
from emsco_train.cli.progress_bar import ProgressBar

MODULE = """
import asyncio
import functools
import types
import warnings

from emsco_runtime import Acquirers

acquirers = Acquirers()
number = 5
nothing = None


class Mail:
    def __init__(self, text):
        self.text = text

    @functools.cached_property
    def words(self):
        return sorted(self.text.split() * 400)


@acquirers.feature("size")
def size(mail):
    return len(mail.text)


@acquirers.feature("first, of all")
def first(mail):
    return len(mail.words[0])


@acquirers.feature("last")
async def last(mail):
    await asyncio.sleep(0)
    return len(mail.words[-1])


@acquirers.features("capitals", "digits")
def letters(mail):
    warnings.warn("odd letters")
    return sum(map(str.isupper, mail.text)), sum(map(str.isdigit, mail.text))


def registry():
    return acquirers


def broken():
    made = Acquirers()
    made.feature("never")(lambda mail: mail.nothing)
    return made


nested = types.SimpleNamespace(acquirers=acquirers)
texts = ["to be or not 2 be", "that is THE question"]
mails = [Mail(text) for text in texts]


def failing():
    raise KeyError("no\\ndatabase")


def failing_later():
    yield Mail("a")
    raise OSError("disk gone")


def many():
    return (Mail(f"number {number}") for number in range(1000))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in a folder with a module of the user; it does not stay imported."""
    (tmp_path / "post.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "faulty.py").write_text("raise RuntimeError('no\\ndatabase')", encoding="utf-8")
    (tmp_path / "texts.jsonl").write_text('"to be or not 2 be"\n\n"that is THE question"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in ("post", "faulty"):
        sys.modules.pop(name, None)


def error_line(status: int, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run the command, which must fail with one line that begins with its name, and return the line."""
    try:
        ended: object = main(words)
    except SystemExit as exit_:
        ended = exit_.code
    message = capsys.readouterr().err
    assert ended == status, message
    assert message.startswith("emsco-profile: ")
    assert message.count("\n") == 1, message
    return message


def test_a_costs_file_from_a_module(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All features have a price, one call is a group, the named group is one; the file is the one to train with."""
    words = ("post:acquirers", "--items", "post:mails", "--group", 'words="first, of all",last', "--out", "costs.toml")
    assert main(words) == 0
    costs = CostModel.from_file(folder / "costs.toml")
    assert list(costs.features) == ["size", "first, of all", "last", "capitals", "digits"]
    assert {group.name: group.features for group in costs.groups} == {
        "words": ("first, of all", "last"),
        "letters": ("capitals", "digits"),
    }
    assert costs.unit == "us of CPU time"
    shown = capsys.readouterr()
    assert "measured  2 of 2 items, 5 repeats; prices in us of CPU time" in shown.out
    assert "total     all features: " in shown.out
    assert "next      emsco-train --data TABLE --label COL --costs costs.toml" in shown.out
    # A warning of the user's code is printed once, in one line; on a slow machine, there are lines about progress as well.
    assert [line for line in shown.err.splitlines() if "% of" not in line] == ["emsco-profile: warning: odd letters"]


def test_lines_of_json_made_into_items(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of samples, a function that makes items of them, a function that returns the registry, and the options."""
    words = ("post:registry", "--items", "texts.jsonl", "--make", "post:Mail", "--out", "costs.toml", "--unit", "ms")
    assert main((*words, "--clock", "wall", "--statistic", "mean", "--repeats", "2", "--seed", "3")) == 0
    text = (folder / "costs.toml").read_text(encoding="utf-8")
    assert 'unit = "ms of wall time"' in text
    assert "wall time, 2 items, 2 repeats." in text
    assert "the mean over the items" in text
    assert main((*words, "--force", "--repeats", "1")) == 0
    assert "CPU time, 2 items, 1 repeat." in (folder / "costs.toml").read_text(encoding="utf-8")
    capsys.readouterr()


def test_a_list_in_a_json_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The values of the list are the items, on one line or on many."""
    (folder / "texts.json").write_text('["to be", "or not",\n "2 be"]', encoding="utf-8")
    words = ("post:acquirers", "--items", "texts.json", "--make", "post:Mail", "--repeats", "1", "--out", "costs.toml")
    assert main(words) == 0
    assert "measured  3 of 3 items" in capsys.readouterr().out


def test_no_more_items_than_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Items are drawn by the seed where there are more; dots lead into an object."""
    assert main(("post:nested.acquirers", "--items", "post:many", "--limit", "3", "--repeats", "1", "--out", "costs.toml")) == 0
    assert "measured  3 of 1,000 items" in capsys.readouterr().out


def test_failed_calls_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines that are not mail make every acquirer fail on them: the table counts them, and a caution reports them."""
    (folder / "some.jsonl").write_text(json.dumps("ab") + "\n[]\n", encoding="utf-8")
    lines = (
        "from emsco_runtime import Acquirers",
        "acquirers = Acquirers()",
        "acquirers.feature('upper')(lambda text: text.upper())",
    )
    (folder / "sizes.py").write_text("\n".join(lines), encoding="utf-8")
    assert main(("sizes:acquirers", "--items", "some.jsonl", "--repeats", "2", "--out", "costs.toml")) == 0
    shown = capsys.readouterr().out
    assert "caution   upper failed in 4 of 8 calls, which are left out; the first: AttributeError: 'list' object" in shown
    assert "8 calls, 4 failed" in (folder / "costs.toml").read_text(encoding="utf-8")
    sys.modules.pop("sizes")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("post", "--items", "post:mails"), "expected MODULE:NAME of the acquirers"),
        (("post:acquirers", "--items", "post:mails", "--group", "words"), "expected NAME=F1,F2"),
        (("post:acquirers", "--items", "post:mails", "--group", "words=last"), "at least two features"),
        (("post:acquirers", "--items", "post:mails", "--group", "w="), "expected NAME=F1,F2"),
        (("post:acquirers", "--items", "post:mails", *("--group", "w=size,last") * 2), "'w' is given twice"),
        (
            ("post:acquirers", "--items", "post:mails", "--repeats", "0"),
            "argument --repeats: expected a whole number of at least 1, got '0'",
        ),
        (
            ("post:acquirers", "--items", "post:mails", "--repeats", "many"),
            "argument --repeats: expected a whole number of at least 1, got 'many'",
        ),
        (("post:acquirers", "--items", "post:mails", "--limit", "x"), "argument --limit"),
        (("post:acquirers", "--items", "post:mails", "--seed", "-1"), "--seed is -1: expected a whole number, 0 or more"),
        (("post:acquirers",), "the following arguments are required: --items"),
    ],
)
def test_wrong_use(folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    """Status 2, one line, nothing imported and nothing written."""
    assert message in error_line(2, capsys, *words, "--out", "costs.toml")
    assert "post" not in sys.modules
    assert not (folder / "costs.toml").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("past:acquirers", "--items", "post:mails"), "module past cannot be imported: ModuleNotFoundError"),
        (("faulty:acquirers", "--items", "post:mails"), "cannot be imported: RuntimeError: no database"),
        (("post:acquirer", "--items", "post:mails"), "no attribute 'acquirer'. Available: asyncio"),
        (("post:number.real.x", "--items", "post:mails"), "no attribute 'x'. Available: none"),
        (
            ("post:number", "--items", "post:mails"),
            "post:number: expected an Acquirers object, or a function that returns one, got int",
        ),
        (
            ("post:many", "--items", "post:mails"),
            "post:many: expected an Acquirers object, or a function that returns one, got generator",
        ),
        ((":x", "--items", "post:mails"), "':x': expected MODULE:NAME"),
        (
            ("post:acquirers", "--items", "post:number"),
            "post:number: expected a list of items, or a function that returns one, got int",
        ),
        (("post:acquirers", "--items", "post:__name__"), "expected a list of items, or a function that returns one, got str"),
        (("post:failing", "--items", "post:mails"), "post:failing failed: KeyError: 'no\\ndatabase'. Correct it"),
        (("post:acquirers", "--items", "post:failing"), "post:failing failed: KeyError"),
        (("post:acquirers", "--items", "post:failing_later"), "post:failing_later failed: OSError: disk gone"),
        (("post:acquirers", "--items", "one.json"), "one.json: expected a list of items, got str. One value per line"),
        (("post:acquirers", "--items", "lines.json"), "lines.json: not JSON: Extra data"),
        (("post:acquirers", "--items", "none.jsonl"), "none.jsonl: No such file"),
        (("post:acquirers", "--items", "post.py"), "post.py, line 2: not JSON"),
        (("post:acquirers", "--items", "bad.jsonl"), "bad.jsonl, line 1: not JSON"),
        (("post:acquirers", "--items", "deep.json"), "deep.json: not JSON: maximum recursion depth"),
        (("post:acquirers", "--items", "deep.jsonl"), "deep.jsonl, line 1: not JSON: maximum recursion depth"),
        (("post:acquirers", "--items", "post:texts", "--make", "post:number"), "no item can be made from sample 0"),
        (("post:broken", "--items", "post:mails"), "(never) failed on every item; the first time: AttributeError"),
        (("post:acquirers", "--items", "post:mails", "--group", "w=size,most"), "'w' holds 'most', which no acquirer returns"),
    ],
)
def test_what_cannot_be_done(folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    """Status 1, one line that says what and where, and no file."""
    (folder / "bad.jsonl").write_bytes(b'"\xff"\n')
    for name in ("deep.json", "deep.jsonl"):
        (folder / name).write_text("[" * 100_000)
    (folder / "one.json").write_text('"a"')
    (folder / "lines.json").write_text('"a"\n"b"\n')
    assert message in error_line(1, capsys, *words, "--out", "costs.toml")
    assert not (folder / "costs.toml").exists()


def test_a_costs_file_is_not_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prices written by hand are not overwritten; and a missing folder is reported before the work, not after."""
    (folder / "costs.toml").write_text("mine", encoding="utf-8")
    words = ("post:acquirers", "--items", "post:mails", "--out")
    assert "costs.toml already exists: choose another name, or use --force" in error_line(1, capsys, *words, "costs.toml")
    assert "the folder deep does not exist: create it first" in error_line(1, capsys, *words, "deep/costs.toml")
    assert "post" not in sys.modules
    assert (folder / "costs.toml").read_text(encoding="utf-8") == "mine"


def test_as_a_command_of_its_own(folder: Path) -> None:
    """Started from a shell in the user's folder, it finds the modules there."""
    words = ("post:acquirers", "--items", "post:mails", "--repeats", "1", "--out", "costs.toml")
    ended = subprocess.run([sys.executable, "-P", "-m", "emsco_train.cli.profile", *words], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert CostModel.from_file(folder / "costs.toml").features["size"] > 0


def test_help_loads_nothing_heavy() -> None:
    """`--help` answers at once because nothing but the parser is imported."""
    report = "import sys; print('LOADED', *sorted({name.split('.')[0] for name in sys.modules}))"
    code = f"import atexit; atexit.register(lambda: exec({report!r})); from emsco_train.cli.profile import main; main(['--help'])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    shown, _, loaded = ended.stdout.partition("LOADED")
    assert "usage: emsco-profile" in shown
    assert {"numpy", "sklearn", "pydantic", "numba", "onnxruntime", "asyncio"}.isdisjoint(loaded.split())


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def test_a_bar_on_a_terminal_and_lines_elsewhere() -> None:
    """The bar updates itself and ends full; lines come every few seconds only; nothing is printed where nothing was counted."""
    terminal, plain, quiet = Terminal(), io.StringIO(), Terminal()
    with ProgressBar("items", terminal) as bar:
        for done in range(1, 101):
            bar.show(done, 100)
    assert "\r" in terminal.getvalue()
    assert "100/100" in terminal.getvalue()
    seconds = iter([0.0, 1.0, 5.0, 6.0, 10.0])
    with ProgressBar("items", plain, clock=lambda: next(seconds)) as bar:
        for done in (10, 20, 30, 40):
            bar.show(done, 40)
    assert plain.getvalue() == "50 % of 40 items\n100 % of 40 items\n"
    with ProgressBar("items", quiet):
        pass
    assert quiet.getvalue() == ""
