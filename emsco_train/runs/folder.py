"""`RunFolder`: the files of a run, complete or not at all.

While a run is under way, ``.work`` holds its checkpoints. At the end, new files are written to ``.work/new``, which is renamed to
``.work/ready`` in one step: from then on the new run is in force. Its files are moved into place, ``run.json`` last; whoever is
killed while doing so leaves the rest to the next reader. ``run.json`` holds the hash of each other file, so that a folder whose
files belong to different runs is noticed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from emsco_train.errors import DataError, DesignError
from emsco_train.runs.run_file import RunFile

__all__ = ["RunFolder"]

_RUN = "run.json"
_NEW, _READY = "new", "ready"


class RunFolder:
    """A run's folder.

    Parameters
    ----------
    path
        The folder; need not exist yet.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def work(self) -> Path:
        """Where a run under way keeps its state."""
        return self.path / ".work"

    def is_complete(self) -> bool:
        """Return whether a finished run is there."""
        return (self.path / _RUN).is_file()

    def begin(self, *, resume: bool, force: bool) -> None:
        """Make room for a run, or find what is left of an unfinished one.

        Parameters
        ----------
        resume
            Go on from checkpoints, if there are any.
        force
            Replace a finished run; it stays until the new one is complete.
        """
        if self.path.exists() and not self.path.is_dir():
            raise DesignError(f"{self.path} is a file: name a folder for the run")
        strangers = self._strangers()
        if strangers:
            told = f"{self.path} holds files that are no run's ({', '.join(strangers[:3])})"
            raise DesignError(f"{told}: choose an empty or a new folder")
        self._settle()
        unfinished = resume and self.work.is_dir()
        if self.is_complete() and not (force or unfinished):
            told = "a finished run, so there is nothing to resume" if resume else "a run"
            raise DesignError(f"{self.path} already holds {told}: choose another folder, or say --force to replace it")
        try:
            if self.work.is_dir() and not resume:
                shutil.rmtree(self.work)
            self.work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            told = f"{self.path} cannot be written: {error.strerror or error}"
            raise DesignError(f"{told}. Check the path and its permissions") from None

    def abandon(self, *, checkpoints: bool = False) -> None:
        """Leave nothing behind of a run that came to nothing.

        Parameters
        ----------
        checkpoints
            Whether they go too; else a run that has some stays, to be resumed.
        """
        with contextlib.suppress(OSError):
            if checkpoints:
                shutil.rmtree(self.work)
            else:
                self.work.rmdir()
            # Fails, as it should, where an older run is there.
            self.path.rmdir()

    def finish(self, files: Mapping[str, str], run: RunFile, *, keep_work: bool = False) -> None:
        """Put the files of a finished run into place.

        Parameters
        ----------
        files
            Name -> text, beside run.json.
        run
            The record; the hashes of the files are added to it.
        keep_work
            Leave the checkpoints: the run was cut short, and may be resumed.
        """
        hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
        document = run.model_copy(update={"files": hashes})
        new = self.work / _NEW
        if new.is_dir():
            shutil.rmtree(new)
        new.mkdir()
        for name, text in {**files, _RUN: document.text()}.items():
            _write_synced(new / name, text)
        new.rename(self.work / _READY)
        self._settle()
        if not keep_work:
            shutil.rmtree(self.work)

    def read(self) -> RunFile:
        """Return the record of a finished run; every named file is there and is the one that was written."""
        if not self.path.is_dir():
            raise DataError(f"{self.path} does not exist: give the folder that emsco-train wrote")
        self._settle()
        if not self.is_complete():
            unfinished = f"an unfinished run: end it with emsco-train --resume --out {self.path}"
            told = unfinished if self.work.is_dir() else f"no {_RUN}: give the folder that emsco-train wrote"
            raise DataError(f"{self.path} holds {told}")
        run = RunFile.read((self.path / _RUN).read_bytes(), str(self.path / _RUN))
        for name, digest in run.files.items():
            content = (self.path / name).read_bytes() if (self.path / name).is_file() else b""
            if hashlib.sha256(content).hexdigest() != digest:
                told = f"{self.path / name} is missing or is not the file that this run wrote"
                raise DataError(f"{told}: restore it, or train again with emsco-train --force")
        return run

    def text(self, name: str) -> str:
        """Return the text of one of the files."""
        return (self.path / name).read_text(encoding="utf-8")

    def _strangers(self) -> list[str]:
        """Return what is in a folder that is not a run's."""
        if not self.path.is_dir() or self.work.is_dir():
            return []
        if self.is_complete() and b'"emsco-run"' in (self.path / _RUN).read_bytes():
            return []
        return sorted(entry.name for entry in self.path.iterdir())

    def _settle(self) -> None:
        """Move the files of a complete run into place, all that are not there yet."""
        ready = self.work / _READY
        if not ready.is_dir():
            return
        names = {entry.name for entry in ready.iterdir()}
        for name in (*sorted(names - {_RUN}), *(names & {_RUN})):
            (ready / name).replace(self.path / name)
        # A page of the run that was here before would show other designs.
        (self.path / "report.html").unlink(missing_ok=True)
        ready.rmdir()


def _write_synced(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
