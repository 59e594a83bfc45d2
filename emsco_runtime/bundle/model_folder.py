"""`ModelFolder`: a bundle and the files that belong to it, such as a store that acquirers read, as one unit by their hashes.

``model.json`` names every file of the folder with its SHA-256; `write_model_index` writes it when all others are there. A folder
whose files are not those is refused: one of them was changed, is missing, or comes from another training. A bundle alone needs
none of this: its manifest has the hashes of its models.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from emsco_runtime.errors import BundleError
from emsco_runtime.support.files import replace_file

__all__ = ["MODEL_FILE", "ModelFolder", "write_model_index"]

MODEL_FILE: Final = "model.json"
_FORMAT: Final = "emsco-model 1"
_REMEDY: Final = "copy the folder of one training as a whole, or train again"
_Stamp: TypeAlias = tuple[int, int, int, int] | None


def write_model_index(folder: str | os.PathLike[str]) -> None:
    """Write ``model.json`` for all files that are in a folder now; a crash leaves the old one or the new one.

    Parameters
    ----------
    folder
        The model's folder, complete. Names that begin with a dot are temporary files, and left out.
    """
    root = Path(folder)
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    listed = [name for name in names if name != MODEL_FILE and not any(part.startswith(".") for part in name.split("/"))]
    hashes = {name: _sha256((root / name).read_bytes()) for name in listed}
    with replace_file(root / MODEL_FILE, sync=True) as file:
        file.write((json.dumps({"format": _FORMAT, "files": hashes}, indent=1) + "\n").encode())


class ModelFolder:
    """The files that a model's folder should hold.

    Parameters
    ----------
    folder
        The model's folder.

    Raises
    ------
    BundleError
        If the folder or its ``model.json`` is missing or cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "store").write_bytes(b"what acquirers read")
    >>> write_model_index(folder)
    >>> files = ModelFolder(folder)
    >>> files.read("store"), files.find_change()
    (b'what acquirers read', None)
    >>> _ = (folder / "store").write_bytes(b"of another training")
    >>> files.find_change()
    'store'
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        if not self._folder.is_dir():
            raise BundleError("the folder does not exist: give that of a trained model", str(folder))
        index = _read(self._folder / MODEL_FILE)
        self._hashes = {MODEL_FILE: _sha256(index), **_parse(self._folder / MODEL_FILE, index)}
        # Before the files are read: what is changed from now on is noticed.
        self._stamps = {name: _stamp(self._folder / name) for name in self._hashes}

    def read(self, name: str) -> bytes:
        """Return the bytes of a file.

        Raises
        ------
        BundleError
            If it is missing, or not the file that the model was trained with.
        """
        wanted = self._hashes.get(name)
        if wanted is None:
            raise BundleError(f"does not name {name}: {_REMEDY}", str(self._folder / MODEL_FILE))
        content = _read(self._folder / name)
        if _sha256(content) != wanted:
            detail = f"is not the file that {MODEL_FILE} names (its SHA-256 differs)"
            raise BundleError(f"{detail}: {_REMEDY}", str(self._folder / name))
        return content

    def check(self) -> None:
        """Check every file; raises as `read`."""
        for name in self._hashes:
            self.read(name)

    def find_change(self) -> str | None:
        """Return the name of a file that is not what it was; None if there is none.

        A file is read only if its place on the disk, its size or its time is another than before: this may be asked often.
        """
        for name, known in self._stamps.items():
            stamp = _stamp(self._folder / name)
            if stamp == known:
                continue
            try:
                self.read(name)
            except BundleError:
                return name
            self._stamps[name] = stamp
        return None

    def check_unchanged(self) -> None:
        """Raise `BundleError` if a file was changed since this object was made: what was read then is not one unit."""
        if (name := self.find_change()) is not None:
            raise BundleError("was changed while the model was read: try again", str(self._folder / name))


def _parse(path: Path, content: bytes) -> Mapping[str, str]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise BundleError(f"is not JSON: {_REMEDY}", str(path)) from None
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise BundleError(f"expected the format {_FORMAT!r}: train again", str(path))
    files = found.get("files")
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise BundleError(f"expected files with their SHA-256: {_REMEDY}", str(path))
    for name in files:
        if not _can_be_a_file(name):
            raise BundleError(f"{name!r} cannot be the name of a file: {_REMEDY}", str(path))
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise BundleError(f"{name!r} is outside the folder: {_REMEDY}", str(path))
    return files


def _can_be_a_file(name: str) -> bool:
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"cannot be read ({error.strerror}): {_REMEDY}", str(path)) from None


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
