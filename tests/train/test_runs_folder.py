"""A run's folder: complete or not at all, and never a stranger's."""

from __future__ import annotations

from pathlib import Path

import pytest

from emsco_train.errors import DataError, DesignError
from emsco_train.runs.folder import RunFolder
from emsco_train.runs.run_file import DataEntry, RunFile, SearchEntry

FILES = ("front.csv", "front.json", "splits.csv")


def record(created: str) -> RunFile:
    """Return a small record."""
    return RunFile(
        created=created,
        versions={"emsco": "1"},
        data=DataEntry(files=(), label="label", group_column=None, time_column=None, drop=(), fingerprint="0"),
        columns=(),
        labels=("a", "b"),
        C=1.0,
        class_weight=None,
        search=SearchEntry(method="auto", settings={}, seed=0, max_search_rows=None, time_limit=None),
        thresholds=(),
        rows={},
        files={},
    )


def write(folder: RunFolder, created: str, *, force: bool = False) -> None:
    """Write a whole run whose files all hold its name."""
    folder.begin(resume=False, force=force)
    folder.finish(dict.fromkeys(FILES, created), record(created))


def test_a_run_is_written_and_read_back(tmp_path: Path) -> None:
    """Files, their hashes and the record; nothing of the work is left."""
    folder = RunFolder(tmp_path / "deep" / "run")
    write(folder, "first")
    assert folder.read().created == "first"
    assert folder.text("front.csv") == "first"
    assert sorted(entry.name for entry in folder.path.iterdir()) == sorted([*FILES, "run.json"])


class Killed(BaseException):
    """Stands for a process that ends here."""


def test_killed_at_any_step_the_folder_is_the_old_run_or_the_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replacement cut off before any of its renamings and moves: one whole run is there, and the next one can be written."""
    seen = set()
    for steps in range(2 + len(FILES)):
        folder = RunFolder(tmp_path / str(steps))
        write(folder, "old")
        (folder.path / "report.html").write_text("of the old run")
        left = [steps]

        def counted(given: Path, target: Path, left: list[int] = left, *, own: object) -> Path:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return own(given, target)  # type: ignore[operator,no-any-return]

        with monkeypatch.context() as patched:
            for name in ("rename", "replace"):
                own = getattr(Path, name)
                patched.setattr(Path, name, lambda given, target, own=own: counted(given, target, own=own))
            with pytest.raises(Killed):
                write(folder, "new", force=True)
        run = folder.read()
        assert run.created == ("new" if steps else "old")
        assert {folder.text(name) for name in FILES} == {run.created}
        assert (folder.path / "report.html").exists() == (run.created == "old")
        seen.add(run.created)
        write(folder, "third", force=True)
        assert folder.read().created == "third"
        assert not folder.work.exists()
    assert seen == {"old", "new"}


def test_a_killed_replacement_is_settled_by_the_next_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who begins without force finds the run that was complete, and is refused."""
    folder = RunFolder(tmp_path / "run")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda given, target: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            write(folder, "only")
    assert not folder.is_complete()
    with pytest.raises(DesignError, match="already holds a run: choose another folder, or say --force"):
        folder.begin(resume=False, force=False)
    assert folder.read().created == "only"


def test_what_is_not_written_to(tmp_path: Path) -> None:
    """A file, a stranger's folder, another program's run.json, a place that cannot be made: each refused, and left as it was."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text('{"format": "another program"}')
    for name, told in (
        ("file", "is a file: name a folder"),
        ("full", "holds files that are no run's (thesis.tex): choose an empty or a new folder"),
        ("other", "holds files that are no run's (run.json)"),
        ("file/run", "cannot be written: Not a directory. Check the path"),
    ):
        with pytest.raises(DesignError) as caught:
            RunFolder(tmp_path / name).begin(resume=False, force=True)
        assert told in str(caught.value)
    assert (tmp_path / "other" / "run.json").read_text() == '{"format": "another program"}'
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "full", "other"]


def test_resuming_needs_something_unfinished(tmp_path: Path) -> None:
    """A finished run is neither resumed nor replaced by the wish to resume; one that was cut short is."""
    folder = RunFolder(tmp_path / "run")
    folder.begin(resume=True, force=False)
    folder.finish(dict.fromkeys(FILES, "cut short"), record("cut short"), keep_work=True)
    folder.begin(resume=True, force=False)
    # Half-written files of the process before.
    (folder.work / "new").mkdir()
    (folder.work / "new" / "stray.csv").write_text("half")
    folder.finish(dict.fromkeys(FILES, "whole"), record("whole"))
    assert not (folder.path / "stray.csv").exists()
    with pytest.raises(DesignError, match="already holds a finished run, so there is nothing to resume"):
        folder.begin(resume=True, force=False)
    assert folder.read().created == "whole"


def test_what_came_to_nothing_leaves_nothing(tmp_path: Path) -> None:
    """An abandoned run takes its folder with it, but neither checkpoints, unless told to, nor an older run."""
    folder = RunFolder(tmp_path / "run")
    folder.begin(resume=False, force=False)
    folder.abandon()
    assert not folder.path.exists()
    folder.begin(resume=False, force=False)
    (folder.work / "checkpoint-1.json").write_text("{}")
    folder.abandon()
    assert (folder.work / "checkpoint-1.json").exists()
    folder.abandon(checkpoints=True)
    assert not folder.path.exists()
    write(folder, "old")
    folder.begin(resume=False, force=True)
    folder.abandon()
    assert folder.read().created == "old"
    assert not folder.work.exists()


def test_what_cannot_be_read(tmp_path: Path) -> None:
    """Not there, no run, unfinished, damaged, of another version: one sentence each, with the remedy."""
    folder = RunFolder(tmp_path / "run")

    def told() -> str:
        with pytest.raises(DataError) as caught:
            folder.read()
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "does not exist: give the folder that emsco-train wrote" in told()
    folder.path.mkdir()
    assert "holds no run.json: give the folder that emsco-train wrote" in told()
    folder.work.mkdir()
    assert "holds an unfinished run: end it with emsco-train --resume" in told()
    write(folder, "first")
    (folder.path / "front.csv").write_text("edited")
    assert "front.csv is missing or is not the file that this run wrote: restore it, or train again" in told()
    (folder.path / "front.csv").unlink()
    assert "front.csv is missing" in told()
    good = record("x").text()
    for text, part in (
        (good.replace('"version": 1', '"version": 2'), "this run has version 2, this emsco reads version 1. Train again"),
        (
            good.replace('"C": 1.0', '"C": "one"'),
            "run.json: C: Input should be a valid number. Give a run that emsco-train wrote",
        ),
        (good[:100], "run.json: the text: Invalid JSON"),
        ('{"format": "emsco-bundle", "version": 1}', "run.json: format: Input should be 'emsco-run'"),
    ):
        (folder.path / "run.json").write_text(text)
        assert part in told()
