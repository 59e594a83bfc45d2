"""`MaildirFolder`: one Maildir, safe against a crash at any moment.

A message is written to ``tmp/``, synced, renamed to ``new/``, and the folder is synced. Readers look at ``new/`` alone: there is
never half a message.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from spam_filter.service.folder_sync import FolderSync, sync_folder

__all__ = ["MaildirFolder"]

# As the description of the format says: no delivery takes so long.
_STALE_S: Final = 36 * 3600.0


class MaildirFolder:
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

    def __init__(self, path: Path, hostname: str) -> None:
        self.path = str(path)
        # As text: a few system calls are most of a delivery, and paths as objects would take as long again.
        self._tmp, self._new = f"{path / 'tmp'}/", f"{path / 'new'}/"
        self._host = hostname.replace("/", r"\057").replace(":", r"\072")
        for name in ("tmp", "new", "cur"):
            (path / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        # Where others may not list the parent folder, its owner has made this one.
        with suppress(PermissionError):
            sync_folder(path.parent)
        sync_folder(path)
        self._published = FolderSync(path / "new")
        self._remove_stale_files()

    def write(self, head: bytes, content: bytes) -> str:
        """Write a message to ``tmp/``, sync it, and return the name of its file; nothing is left behind by a failure.

        Raises
        ------
        OSError
            If the disk refuses it.
        """
        now = time.time_ns()
        name = f"{now // 10**9}.M{now % 10**9 // 1000}P{os.getpid()}R{secrets.token_hex(8)}.{self._host}"
        try:
            _write(self._tmp + name, head, content)
        except OSError:
            self.discard(name)
            raise
        return name

    def publish(self, name: str) -> None:
        """Let readers see a file that was written; it is safe after `sync`."""
        os.rename(self._tmp + name, self._new + name)  # noqa: PTH104

    def discard(self, name: str) -> None:
        """Remove a file that was written and not published."""
        with suppress(OSError):
            os.unlink(self._tmp + name)  # noqa: PTH108

    def sync(self) -> None:
        """Wait until what was published is on the disk."""
        self._published.sync()

    def _remove_stale_files(self) -> None:
        """Remove what a crash left in tmp/ long ago."""
        limit = time.time() - _STALE_S
        for left in Path(self._tmp).iterdir():
            # Another process may sweep as well; and what cannot be removed is no reason to refuse mail.
            with suppress(OSError):
                if left.stat().st_mtime < limit:
                    left.unlink()


def _write(path: str, head: bytes, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        written = os.writev(descriptor, (head, content))
        # A system call may write less than it was given: a large message, or a disk that is nearly full.
        rest = memoryview(head + content)[written:] if written < len(head) + len(content) else memoryview(b"")
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
