"""`ModelFiles`: the files of a model as one unit, by their hashes.

``model.json`` names every file of a model's folder with its SHA-256. Training writes it last. A folder whose files are not those
is refused: one of them was changed, is missing, or comes from another training.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from spam_filter.errors import ModelError

__all__ = ["MODEL_FILE", "ModelFiles", "write_model_file"]

MODEL_FILE: Final = "model.json"
_FORMAT: Final = "emsco-spam-filter-model 1"
_REMEDY: Final = "copy the folder of one training as a whole, or train again"
_Stamp: TypeAlias = tuple[int, int, int, int] | None


def write_model_file(folder: Path) -> None:
    """Write ``model.json`` for all files that are in a folder now; a crash leaves the old one or the new one.

    Parameters
    ----------
    folder
        The model's folder, complete.
    """
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    # Names that begin with a dot are temporary files.
    listed = [name for name in names if name != MODEL_FILE and not any(part.startswith(".") for part in name.split("/"))]
    hashes = {name: _sha256((folder / name).read_bytes()) for name in listed}
    text = json.dumps({"format": _FORMAT, "files": hashes}, indent=1) + "\n"
    new = folder / f".{MODEL_FILE}.{os.getpid()}.new"
    try:
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(folder / MODEL_FILE)
    finally:
        new.unlink(missing_ok=True)


class ModelFiles:
    """The files that a model's folder should hold.

    Parameters
    ----------
    folder
        The model's folder.

    Raises
    ------
    ModelError
        If the folder or its ``model.json`` is missing or cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise ModelError(f"{folder}: the folder does not exist: give the one that train wrote")
        self._folder = folder
        index = _read(folder / MODEL_FILE)
        self._hashes = {MODEL_FILE: _sha256(index), **_parse(folder / MODEL_FILE, index)}
        # Before the files are read: what is changed from now on is noticed.
        self._stamps = {name: _stamp(folder / name) for name in self._hashes}

    def read(self, name: str) -> bytes:
        """Return the bytes of a file.

        Raises
        ------
        ModelError
            If it is missing, or not the file that the model was trained with.
        """
        wanted = self._hashes.get(name)
        if wanted is None:
            raise ModelError(f"{self._folder / MODEL_FILE}: does not name {name}: {_REMEDY}")
        content = _read(self._folder / name)
        if _sha256(content) != wanted:
            raise ModelError(f"{self._folder / name}: is not the file that {MODEL_FILE} names (its SHA-256 differs): {_REMEDY}")
        return content

    def check(self) -> None:
        """Check every file.

        Raises
        ------
        ModelError
            As `read`.
        """
        for name in self._hashes:
            self.read(name)

    def find_change(self) -> str | None:
        """Return the name of a file that is not what it was; None if there is none.

        A file is read only if its place on the disk, its size or its time is another than before.
        """
        for name, known in self._stamps.items():
            stamp = _stamp(self._folder / name)
            if stamp == known:
                continue
            try:
                self.read(name)
            except ModelError:
                return name
            self._stamps[name] = stamp
        return None


def _parse(path: Path, content: bytes) -> Mapping[str, str]:
    try:
        found = json.loads(content)
    except ValueError:
        raise ModelError(f"{path}: is not JSON: {_REMEDY}") from None
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise ModelError(f"{path}: expected the format {_FORMAT!r}: train again")
    files = found.get("files")
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise ModelError(f"{path}: expected files with their SHA-256: {_REMEDY}")
    for name in files:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ModelError(f"{path}: {name!r} is outside the folder: {_REMEDY}")
    return files


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}): {_REMEDY}") from None


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
