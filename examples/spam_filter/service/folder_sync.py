"""`FolderSync`: threads that wait for the same folder to be on the disk share the wait."""

from __future__ import annotations

import os
import threading
from pathlib import Path

__all__ = ["FolderSync", "sync_folder"]


class FolderSync:
    """Syncs one folder for many threads.

    What a thread has done before it asks is covered by any sync that begins later. So while one sync is under way, all that come
    wait for the next one, which one of them makes for all.

    Parameters
    ----------
    path
        The folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._running = False
        self._started = self._done = 0

    def sync(self) -> None:
        """Return when what was done in the folder before is on the disk.

        Raises
        ------
        OSError
            If it cannot be synced; each thread that asked tries for itself then.
        """
        with self._changed:
            wanted = self._started + 1
            while self._running and self._done < wanted:
                self._changed.wait()
            if self._done >= wanted:
                return
            self._running = True
            self._started += 1
            number = self._started
        done = False
        try:
            sync_folder(self._path)
            done = True
        finally:
            with self._changed:
                self._running = False
                self._done = number if done else self._done
                self._changed.notify_all()


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
