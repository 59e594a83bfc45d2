"""Files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

__all__ = ["locked_folder", "open_output", "replace_file", "sync_folder"]

_STDOUT = 1
# What a write raises without the name of its file.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextlib.contextmanager
def replace_file(path: Path, *, sync: bool = False) -> Iterator[BinaryIO]:
    """Write to a temporary file next to `path`, then move it into place: a reader, or a crash, sees the old file or the new one.

    The new file has the permissions of the one that it replaces. With `sync`, the content is on the disk before it is moved.
    """
    temporary = path.with_name(f".emsco-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.errno in _DISK_ERRORS and error.filename is None:
            error.filename = str(path)
        raise
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


@contextlib.contextmanager
def open_output(path: Path) -> Iterator[TextIO]:
    """Open a text file of results for writing, as `replace_file` does.

    A link stays a link: the file that it points to is replaced. A pipe, a terminal or a device is written to directly, and so is
    whatever standard output is, such as the file that /dev/stdout stands for.
    """
    if path.exists() and _is_stdout(path):
        # The same open file, so that what is printed afterwards comes after it.
        with os.fdopen(os.dup(_STDOUT), "w", encoding="utf-8", newline="") as text:
            yield text
    elif path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="") as text:
            yield text
    else:
        with replace_file(path.resolve()) as file, io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
            yield text


def _is_stdout(path: Path) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(_STDOUT))
    except OSError:
        return False


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, after those who have it. The operating system ends it with its process, however that ends."""
    with _open_folder(folder) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def sync_folder(folder: Path) -> None:
    """Bring the names of a folder's files to the disk: files that were moved into place stay there after a crash."""
    with _open_folder(folder) as descriptor:
        try:
            os.fsync(descriptor)
        except OSError as error:
            # Some network file systems cannot sync a folder; the rename is still atomic there.
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise


@contextlib.contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
