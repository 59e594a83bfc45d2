"""A run's folder: complete or not at all, and never another program's."""

from __future__ import annotations

import errno
import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from emsco_train.errors import DataError, DesignError
from emsco_train.runs.folder import REPORT_MARK, RunFolder
from emsco_train.runs.run_file import DataEntry, MeasuredRows, RunFile, SearchEntry

FILES = ("front.csv", "front.json", "splits.csv")


def record(created: str) -> RunFile:
    """Return a small record."""
    return RunFile(
        created=created,
        versions={"emsco": "1"},
        data=DataEntry(files=(), label="label", group_column=None, time_column=None, drop=(), folds=0, fingerprint="0"),
        columns=(),
        labels=("a", "b"),
        C=1.0,
        class_weight=None,
        search=SearchEntry(method="auto", settings={}, seed=0, max_search_rows=None, time_limit=None),
        thresholds=(),
        rows={},
        measured=MeasuredRows(split="validation", rows=0),
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


def test_files_that_only_an_earlier_run_had_are_removed(tmp_path: Path) -> None:
    """Curves of a run that is replaced by one without do not stay next to it; what was changed since, or is outside, does."""
    folder = RunFolder(tmp_path / "run")
    extra = ("curves.json", "changed.json", "../outside.json")
    folder.begin(resume=False, force=False)
    (tmp_path / "outside.json").write_text("old")
    folder.finish(dict.fromkeys((*FILES, *extra[:2]), "old"), record("old"))
    (folder.path / "changed.json").write_text("mine")
    run_file = folder.path / "run.json"
    entry = f'"{extra[0]}":'
    digest = RunFile.read(run_file.read_bytes(), "run.json").files[extra[0]]
    run_file.write_text(run_file.read_text().replace(entry, f'"{extra[2]}": "{digest}", {entry}'))
    write(folder, "new", force=True)
    assert sorted(entry.name for entry in folder.path.iterdir()) == sorted([*FILES, "changed.json", "run.json"])
    assert (tmp_path / "outside.json").read_text() == "old"


def test_a_run_whose_record_cannot_be_read_is_replaced(tmp_path: Path) -> None:
    """Of another version, it does not say which files are its own: all but those of the new run stay."""
    folder = RunFolder(tmp_path / "run")
    write(folder, "old")
    run_file = folder.path / "run.json"
    run_file.write_text(run_file.read_text().replace('"version": 2', '"version": 1'))
    write(folder, "new", force=True)
    assert folder.read().created == "new"


class Killed(BaseException):
    """Simulates a process that is killed here."""


def test_killed_at_any_step_the_folder_is_the_old_run_or_the_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replacement cut off before any of its renamings and moves: one whole run is there, and the next one can be written."""
    seen = set()
    for steps in range(2 + len(FILES)):
        folder = RunFolder(tmp_path / str(steps))
        write(folder, "old")
        (folder.path / "report.html").write_text(f"{REPORT_MARK} of the old run")
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
    """Training without force finds the run that was complete, and is refused."""
    folder = RunFolder(tmp_path / "run")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda given, target: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            write(folder, "only")
    assert not folder.is_complete()
    with pytest.raises(DesignError, match="already holds a run: choose another folder, or use `force=True`"):
        folder.begin(resume=False, force=False)
    assert folder.read().created == "only"


def test_what_is_not_written_to(tmp_path: Path) -> None:
    """A file, other files, another run.json, a place that cannot be created: each refused, and left as it was."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text('{"format": "another program"}')
    for name, message in (
        ("file", "is a file: name a folder"),
        ("full", "holds files that are not an emsco run's (thesis.tex): choose an empty or a new folder"),
        ("other", "holds files that are not an emsco run's (run.json)"),
        ("file/run", "cannot be written: Not a directory. Check the path"),
    ):
        with pytest.raises(DesignError) as caught:
            RunFolder(tmp_path / name).begin(resume=False, force=True)
        assert message in str(caught.value)
    assert (tmp_path / "other" / "run.json").read_text() == '{"format": "another program"}'
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "full", "other"]


def test_resuming_needs_something_unfinished(tmp_path: Path) -> None:
    """A finished run is neither resumed nor replaced by `resume`; one that was cut short is."""
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


def test_an_abandoned_run_leaves_nothing(tmp_path: Path) -> None:
    """An abandoned run is removed with its folder, but not with checkpoints, unless asked to, nor with an older run."""
    folder = RunFolder(tmp_path / "run")
    folder.begin(resume=False, force=False)
    folder.abandon()
    assert not folder.path.exists()
    folder.begin(resume=False, force=False)
    (folder.work / "checkpoint-1.json").write_text("{}")
    folder.abandon()
    assert (folder.work / "checkpoint-1.json").exists()
    folder.begin(resume=True, force=False)
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

    def message() -> str:
        with pytest.raises(DataError) as caught:
            folder.read()
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "does not exist: give the folder that emsco-train wrote" in message()
    folder.path.mkdir()
    assert "holds no run.json: give the folder that emsco-train wrote" in message()
    folder.work.mkdir()
    assert "holds an unfinished run: end it by training again with `resume=True`" in message()
    write(folder, "first")
    (folder.path / "front.csv").write_text("edited")
    assert "front.csv is missing or is not the file that this run wrote: restore it, or train again" in message()
    (folder.path / "front.csv").unlink()
    assert "front.csv is missing" in message()
    good = record("x").text()
    for text, part in (
        (good.replace('"version": 2', '"version": 1'), "this run has version 1, this emsco reads version 2. Train again"),
        (
            good.replace('"C": 1.0', '"C": "one"'),
            "run.json: C: Input should be a valid number. Give a run that emsco-train wrote",
        ),
        (good[:100], "run.json: the text: Invalid JSON"),
        ('{"format": "emsco-bundle", "version": 1}', "run.json: format: Input should be 'emsco-run'"),
    ):
        (folder.path / "run.json").write_text(text)
        assert part in message()


def test_a_work_folder_that_is_not_ours_is_never_removed(tmp_path: Path) -> None:
    """Another program's .work, alone or next to a run of ours, is refused with the remedy; force changes nothing."""
    for name in ("alone", "beside"):
        folder = RunFolder(tmp_path / name)
        if name == "beside":
            write(folder, "old")
        folder.work.mkdir(parents=True)
        (folder.work / "thesis.tex").write_text("years of work")
        for force in (False, True):
            with pytest.raises(
                DesignError, match=r"files that are not an emsco run's \(\.work\): choose an empty or a new folder"
            ):
                folder.begin(resume=False, force=force)
        assert (folder.work / "thesis.tex").read_text() == "years of work"


def test_a_work_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """What .work points to is another's, even if it is empty."""
    (tmp_path / "elsewhere").mkdir()
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.work.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DesignError, match=r"not an emsco run's \(\.work\)"):
        folder.begin(resume=False, force=True)
    assert folder.work.is_symlink()


def test_files_that_a_run_did_not_write_stay(tmp_path: Path) -> None:
    """Replacing a run leaves the user's notes and the user's own report.html; our own page of the old run goes."""
    folder = RunFolder(tmp_path / "run")
    write(folder, "old")
    (folder.path / "notes.md").write_text("mine")
    (folder.path / "report.html").write_text("<html>mine</html>")
    write(folder, "new", force=True)
    assert folder.read().created == "new"
    assert (folder.path / "notes.md").read_text() == "mine"
    assert (folder.path / "report.html").read_text() == "<html>mine</html>"


def test_a_file_that_came_while_the_run_was_under_way_is_not_overwritten(tmp_path: Path) -> None:
    """A front.csv that was put there meanwhile: refused before anything is moved, the checkpoints stay for a resume."""
    folder = RunFolder(tmp_path / "run")
    folder.begin(resume=False, force=False)
    (folder.work / "checkpoint-1.json").write_text("{}")
    (folder.path / "front.csv").write_text("mine")
    with pytest.raises(DesignError, match=r"front\.csv is not an emsco run's: move it away, then resume the run"):
        folder.finish(dict.fromkeys(FILES, "new"), record("new"))
    assert (folder.path / "front.csv").read_text() == "mine"
    assert (folder.work / "checkpoint-1.json").exists()
    (folder.path / "front.csv").unlink()
    folder.begin(resume=True, force=False)
    folder.finish(dict.fromkeys(FILES, "new"), record("new"))
    assert folder.read().created == "new"


def test_two_runs_into_one_folder_at_a_time_are_refused(tmp_path: Path) -> None:
    """The second is refused and touches nothing; when the first has ended, or was abandoned, the folder is free again."""
    first, second = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    first.begin(resume=False, force=False)
    (first.work / "checkpoint-1.json").write_text("{}")
    for resume in (False, True):
        with pytest.raises(DesignError, match=r"another run is being written into .*: wait for it to end, or choose another"):
            second.begin(resume=resume, force=True)
    assert (first.work / "checkpoint-1.json").exists()
    first.finish(dict.fromkeys(FILES, "first"), record("first"))
    write(second, "second", force=True)
    first.begin(resume=False, force=True)
    first.abandon()
    write(second, "third", force=True)
    assert second.read().created == "third"
    assert sorted(entry.name for entry in second.path.iterdir()) == sorted([*FILES, "run.json"])


def test_a_killed_run_leaves_the_folder_free(tmp_path: Path) -> None:
    """A process that holds the folder and is killed: its lock file stays, its lock does not; the run can be resumed."""
    script = (
        "import sys, time; from emsco_train.runs.folder import RunFolder\n"
        "folder = RunFolder(sys.argv[1]); folder.begin(resume=False, force=False)\n"
        "(folder.work / 'checkpoint-1.json').write_text('{}'); print('held', flush=True); time.sleep(600)"
    )
    folder = RunFolder(tmp_path / "run")
    with subprocess.Popen([sys.executable, "-c", script, str(folder.path)], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(DesignError, match="another run is being written into"):
                folder.begin(resume=True, force=False)
        finally:
            holder.kill()
    folder.begin(resume=True, force=False)
    assert (folder.work / "checkpoint-1.json").exists()
    folder.abandon(checkpoints=True)
    assert not folder.path.exists()


def test_a_reader_does_not_disturb_a_writer_that_moves_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a live run moves its files into place, another process that reads is refused, and moves nothing."""
    writer, reader = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    message: list[str] = []
    own = Path.replace

    def replace(given: Path, target: Path) -> Path:
        if not message:
            with pytest.raises(DataError) as caught:
                reader.read()
            message.append(str(caught.value))
        return own(given, target)

    monkeypatch.setattr(Path, "replace", replace)
    write(writer, "only")
    assert "is being written at this moment: try again" in message[0]
    assert reader.read().created == "only"


def test_a_lock_file_that_went_away_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder removes the folder between our opening of the lock file and our locking it: the new file is locked."""
    path = tmp_path / "run"
    own = fcntl.flock
    gone: list[int] = []

    def flock(descriptor: int, operation: int) -> None:
        if not gone:
            gone.append(descriptor)
            shutil.rmtree(path)
        own(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    folder = RunFolder(path)
    folder.begin(resume=False, force=False)
    with pytest.raises(DesignError, match="another run is being written into"):
        RunFolder(path).begin(resume=False, force=True)
    folder.abandon()


def test_a_place_that_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without locks is refused with the reason and the remedy, not used unguarded."""

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(DesignError, match=r"run cannot be written: No locks available\. Check the path"):
        RunFolder(tmp_path / "run").begin(resume=False, force=False)
