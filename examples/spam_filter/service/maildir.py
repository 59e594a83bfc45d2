"""`Maildir`: delivery into a folder, safe against a crash at any moment.

A message is written to ``tmp/``, synced, renamed to ``new/``, and the folder is synced. Readers look at ``new/`` alone: there is
never half a message. The bytes are those that came over SMTP, line ends included.
"""

from __future__ import annotations

import itertools
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from spam_filter.service.outgoing import DeliveryResult, OutgoingMessage, one_line

__all__ = ["Maildir"]

# As the description of the format says: no delivery takes so long.
_STALE_S: Final = 36 * 3600.0


class Maildir:
    """A Maildir; thread-safe, and several processes may deliver to it.

    Parameters
    ----------
    path
        Its folder; created if it does not exist.
    hostname
        Part of the file names, so that several machines may share it.

    Raises
    ------
    OSError
        If the folder cannot be created.
    """

    max_recipients: Final = 1000

    def __init__(self, path: Path, hostname: str) -> None:
        self._path = path
        self._host = hostname.replace("/", r"\057").replace(":", r"\072")
        self._count = itertools.count()
        for name in ("tmp", "new", "cur"):
            (path / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in (path.parent, path):
            _sync(folder)
        self._remove_stale_files()

    def deliver(self, parcel: OutgoingMessage) -> DeliveryResult:
        """Write a message; what the disk refuses, the sender keeps."""
        now = time.time_ns()
        name = f"{now // 10**9}.M{now % 10**9 // 1000}P{os.getpid()}Q{next(self._count)}.{self._host}"
        temporary = self._path / "tmp" / name
        try:
            _write(temporary, parcel.content)
            temporary.rename(self._path / "new" / name)
            _sync(self._path / "new")
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            return DeliveryResult("deferred", f"452 4.3.1 not stored: {one_line(error.strerror or type(error).__name__)}")
        return DeliveryResult("delivered", "250 2.0.0 stored")

    def _remove_stale_files(self) -> None:
        """Remove what a crash left in tmp/ long ago."""
        limit = time.time() - _STALE_S
        for left in (self._path / "tmp").iterdir():
            # Another process may sweep as well.
            with suppress(FileNotFoundError):
                if left.stat().st_mtime < limit:
                    left.unlink()


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
