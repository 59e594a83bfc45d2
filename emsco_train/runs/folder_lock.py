"""`FolderLock`: one process at a time writes into a folder.

The lock is the operating system's own on a file in the folder: it ends with its process, however that ends, so that a killed run
blocks no other. The holder of the lock removes the file; a file that a killed process left behind has no effect.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

__all__ = ["LOCK_NAME", "FolderLock", "FolderLockedError"]

LOCK_NAME = ".emsco-lock"


class FolderLockedError(Exception):
    """Another process, or another run of this one, writes into the folder."""


class FolderLock:
    """The lock on a folder, held from the start; the folder is created if necessary.

    Raises
    ------
    FolderLockedError
        If it is held elsewhere.
    OSError
        If the folder cannot be written, or its file system has no locks.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_NAME
        descriptor = None
        while descriptor is None:
            descriptor = _try_lock(self._path)
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock, and remove the file."""
        # Before the lock ends: afterwards, the name could be that of the next holder's file.
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def _try_lock(path: Path) -> int | None:
    """Return a locked file, or None if the file was removed meanwhile: then its lock would have no effect."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Not followed if it is a link; open for writing, since network file systems lock nothing else exclusively.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except FileNotFoundError:
        return None
    held = False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held = path.exists() and os.path.samestat(os.fstat(descriptor), path.stat())
    except BlockingIOError:
        raise FolderLockedError(str(path.parent)) from None
    finally:
        if not held:
            os.close(descriptor)
    return descriptor if held else None
