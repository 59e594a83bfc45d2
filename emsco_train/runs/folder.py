"""`RunFolder`: the files of a run, complete or not at all.

While a run is under way, it holds the lock of the folder, and ``.work`` holds its checkpoints and a mark that it is ours. At the
end, new files are written to ``.work/new``, which is renamed to ``.work/ready`` in one step: from then on the new run counts.
Its files are moved into place, ``run.json`` last; if a process is killed while doing so, the next reader completes it.
``run.json`` holds the hash of each other file, so that a folder whose files belong to different runs is noticed.

What does not carry our mark is never removed or overwritten: a folder with other files, and without a run, is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from emsco_train.errors import DataError, DesignError
from emsco_train.runs.folder_lock import LOCK_NAME, FolderLock, FolderLockedError
from emsco_train.runs.run_file import RunFile
from emsco_train.runs.saved_request import REQUEST_NAME

__all__ = ["REPORT_MARK", "REPORT_NAME", "RunFolder", "is_report"]

_RUN_NAME = "run.json"
_RUN_MARK = b'"emsco-run"'
_NEW_NAME, _READY_NAME = "new", "ready"
_WORK_MARK = "emsco-run"
# The page of a run in its folder, and the mark by which it is recognised.
REPORT_NAME = "report.html"
REPORT_MARK = '<meta name="generator" content="emsco-report">'


class RunFolder:
    """A run's folder; it need not exist yet."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock: FolderLock | None = None

    @property
    def work(self) -> Path:
        """Where a run under way keeps its state."""
        return self.path / ".work"

    def is_complete(self) -> bool:
        """Return whether a finished run is there."""
        return (self.path / _RUN_NAME).is_file()

    def check_free(self, *, resume: bool, force: bool) -> None:
        """Raise where `begin` would refuse the folder for what it holds; nothing is created, locked or changed."""
        with self._explained_faults():
            self._refuse_other_files()
            self._refuse_finished_run(resume=resume, force=force)

    def check_finished(self) -> None:
        """Raise where there is no finished run to read; its files are not looked at, and nothing is changed."""
        if not self.path.is_dir():
            fault = "is not a folder" if self.path.exists() else "does not exist"
            raise DataError(f"{self.path} {fault}: give the folder that emsco-train wrote")
        # In this order: another process may just move the files into place, and the last of them makes it complete.
        if not self._holds_killed_write() and not self.is_complete():
            if self.work.is_dir():
                raise DataError(f"{self.path} holds an unfinished run: end it by training again with `resume=True`")
            raise DataError(f"{self.path} holds no {_RUN_NAME}: give the folder that emsco-train wrote")

    def begin(self, *, resume: bool, force: bool) -> None:
        """Lock the folder for a run, or for the rest of an unfinished one; `finish` and `abandon` release it.

        Parameters
        ----------
        resume
            Continue from checkpoints, if there are any.
        force
            Replace a finished run; it stays until the new one is complete. Files that are not an emsco run's are never replaced.
        """
        try:
            with self._explained_faults():
                self._refuse_other_files()
                self._lock = FolderLock(self.path)
                self._prepare_work_folder(resume=resume, force=force)
        except FolderLockedError:
            raise DesignError(
                f"another run is being written into {self.path}: wait for it to end, or choose another folder"
            ) from None
        except DesignError:
            self._release()
            raise

    def abandon(self, *, checkpoints: bool = False) -> None:
        """Remove what a failed run left, and release the folder; do nothing if no run is under way.

        A run that has checkpoints stays, to be resumed, unless `checkpoints` says to remove them too.
        """
        if self._lock is None:
            return
        with contextlib.suppress(OSError):
            if checkpoints or {entry.name for entry in self.work.iterdir()} <= {_WORK_MARK, REQUEST_NAME}:
                shutil.rmtree(self.work)
        self._release()
        # Fails, as it should, if checkpoints or an older run are there.
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def finish(
        self, files: Mapping[str, str], run: RunFile, *, initial_files: Mapping[str, str] | None = None, keep_work: bool = False
    ) -> None:
        """Put the files of a finished run into place, and release the folder.

        Parameters
        ----------
        files
            Name -> text, in addition to run.json.
        run
            The record; the hashes of the files are added to it.
        initial_files
            Name -> text of files that this run begins and later commands continue, so that they have no hash.
        keep_work
            Keep the checkpoints: the run was cut short, and may be resumed.
        """
        try:
            initial_files = initial_files or {}
            self._refuse_overwrite([*files, *initial_files])
            hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
            document = run.model_copy(update={"files": hashes})
            new = self.work / _NEW_NAME
            if new.is_dir():
                shutil.rmtree(new)
            new.mkdir()
            for name, text in {**files, **initial_files, _RUN_NAME: document.text()}.items():
                _write_synced(new / name, text)
            new.rename(self.work / _READY_NAME)
            earlier = self._earlier_hashes()
            self._install_ready_files()
            self._remove_earlier({name: digest for name, digest in earlier.items() if name not in files})
            if not keep_work:
                shutil.rmtree(self.work)
        finally:
            self._release()

    def read(self) -> RunFile:
        """Return the record of a finished run, after checking that its files are there and are those that it wrote."""
        self.check_finished()
        self._complete_killed_write()
        run = RunFile.read((self.path / _RUN_NAME).read_bytes(), str(self.path / _RUN_NAME))
        for name, digest in run.files.items():
            if not self._is_unchanged(name, digest):
                raise DataError(
                    f"{self.path / name} is missing or is not the file that this run wrote: restore it, or train again"
                )
        return run

    def text(self, name: str) -> str:
        """Return the text of one of the files."""
        return (self.path / name).read_text(encoding="utf-8")

    def _is_unchanged(self, name: str, digest: str) -> bool:
        content = (self.path / name).read_bytes() if (self.path / name).is_file() else b""
        return hashlib.sha256(content).hexdigest() == digest

    def _earlier_hashes(self) -> dict[str, str]:
        """Return the files of a run that is being replaced, with their hashes; none if this emsco cannot read its record."""
        if not self.is_complete():
            return {}
        try:
            return RunFile.read((self.path / _RUN_NAME).read_bytes(), str(self.path / _RUN_NAME)).files
        except DataError:
            return {}

    def _remove_earlier(self, hashes: Mapping[str, str]) -> None:
        """Remove files of an earlier run, such as its curves, that would seem to belong to this one; changed ones stay."""
        for name, digest in hashes.items():
            if Path(name).name == name and self._is_unchanged(name, digest):
                (self.path / name).unlink()

    def _holds_run(self) -> bool:
        return self.is_complete() and _RUN_MARK in (self.path / _RUN_NAME).read_bytes()

    def _holds_work(self) -> bool:
        """Return whether the work folder is ours; an empty one may belong to a run that was killed as it started."""
        if not self.work.is_dir() or self.work.is_symlink():
            return False
        return (self.work / _WORK_MARK).is_file() or not any(self.work.iterdir())

    def _holds_killed_write(self) -> bool:
        """Return whether a complete run is there whose files are still to be moved into place."""
        return (self.work / _READY_NAME).is_dir() and self._holds_work()

    @contextlib.contextmanager
    def _explained_faults(self) -> Iterator[None]:
        """Say what is wrong with the folder, where it is a file or the operating system refuses it."""
        if self.path.exists() and not self.path.is_dir():
            raise DesignError(f"{self.path} is a file: name a folder for the run")
        try:
            yield
        except OSError as error:
            raise DesignError(
                f"{self.path} cannot be written: {error.strerror or error}. Check the path and its permissions"
            ) from None

    def _refuse_other_files(self) -> None:
        """Refuse a folder that holds other files and no run, or another program's work folder."""
        if not self.path.is_dir():
            return
        ours = {LOCK_NAME} | ({self.work.name} if self._holds_work() else set())
        foreign = sorted(entry.name for entry in self.path.iterdir() if entry.name not in ours)
        if self._holds_run() or self.work.name in ours:
            foreign = [name for name in foreign if name == self.work.name]
        if foreign:
            raise DesignError(
                f"{self.path} holds files that are not an emsco run's ({', '.join(foreign[:3])}): choose an empty or a new folder"
            )

    def _refuse_overwrite(self, names: Iterable[str]) -> None:
        """Refuse to overwrite a file that was put there by others after this run began."""
        for name in () if self._holds_run() else (*names, _RUN_NAME):
            if (self.path / name).exists():
                raise DesignError(f"{self.path / name} is not an emsco run's: move it away, then resume the run")

    def _refuse_finished_run(self, *, resume: bool, force: bool) -> None:
        """Refuse a folder whose run would be replaced without the user's word; one that was cut short may be resumed."""
        unfinished = resume and self.work.is_dir()
        if (self.is_complete() or self._holds_killed_write()) and not (force or unfinished):
            detail = "a finished run, so there is nothing to resume" if resume else "a run"
            raise DesignError(f"{self.path} already holds {detail}: choose another folder, or use `force=True` to replace it")

    def _prepare_work_folder(self, *, resume: bool, force: bool) -> None:
        self._install_ready_files()
        self._refuse_finished_run(resume=resume, force=force)
        if self.work.is_dir() and not resume:
            shutil.rmtree(self.work)
        self.work.mkdir(exist_ok=True)
        (self.work / _WORK_MARK).touch()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _complete_killed_write(self) -> None:
        """Finish moving the files of a killed writer; a living one does it itself."""
        if not self._holds_killed_write():
            return
        try:
            self._lock = FolderLock(self.path)
        except FolderLockedError:
            raise DataError(f"{self.path} is being written at this moment: try again") from None
        try:
            self._install_ready_files()
        finally:
            self._release()

    def _install_ready_files(self) -> None:
        """Move those files of a complete run into place that are not there yet."""
        ready = self.work / _READY_NAME
        if not ready.is_dir():
            return
        names = {entry.name for entry in ready.iterdir()}
        for name in (*sorted(names - {_RUN_NAME}), *(names & {_RUN_NAME})):
            (ready / name).replace(self.path / name)
        # A page of the run that was here before would show other designs.
        if is_report(self.path / REPORT_NAME):
            (self.path / REPORT_NAME).unlink()
        ready.rmdir()


def is_report(path: Path) -> bool:
    """Return whether a file is a page of ours."""
    return path.is_file() and REPORT_MARK.encode() in path.read_bytes()


def _write_synced(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
