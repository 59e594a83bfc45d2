"""`AuditWriter`: one line of JSON per decision, in a file that only grows.

A line holds the time (UTC), the id of the item if you give one (else the decision's key), and the decision in the form of
``schemas/decision.v1.schema.json``::

    {"time": "2026-01-01T12:00:00.000000Z", "item": "message-17", "decision": {"status": "accepted", ...}}

Several threads and processes may write to the same file: it is opened for appending, and each line is one call of the operating
system, which does not mix such calls on a local file system. (A network file system may; give each machine a file of its own.)
Nothing is buffered, so the end of the process loses nothing; a decision waits for its line, in an event loop too.

Rotation is left to the platform: when the file at the path was replaced or removed, it is opened again.

A process that is killed while it writes, or a full disk, can leave half a line: the next writer, even one that has the file
open already, starts on a new line and logs a warning, if it may read the file. So only one record is lost; half a line is not
JSON, and readers skip it. (The end of the file is read only when its size is not what this writer has left.)
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import stat
import time
from collections.abc import Callable
from datetime import UTC, datetime
from io import FileIO
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from emsco_runtime.decision import Decision
from emsco_runtime.errors import InputError
from emsco_runtime.support.fork import PickledBySettings

__all__ = ["AuditWriter", "Values"]

Values: TypeAlias = Literal["keep", "drop", "hash"]

_log = logging.getLogger("emsco_runtime.audit")
# A line that another process is still writing is complete after this time; half a line stays as it is.
_PARTIAL_LINE_WAIT_S = 0.05


class _Settings(NamedTuple):
    path: str
    values: Values
    key: bytes | None
    item: Callable[[], object] | None
    sync: bool
    mode: int
    clock: Callable[[], datetime]


def _now() -> datetime:
    return datetime.now(UTC)


class AuditWriter(PickledBySettings[_Settings]):
    """An observer that writes each decision to a file.

    Parameters
    ----------
    path
        The file; created if it does not exist. Its folder must exist.
    values
        What to do with text that may quote values of the item, which is the messages of failures: "keep" them, "drop" them (they
        are empty then), or "hash" them, so that equal ones can be recognised without being read.
    key
        The secret of the hash (HMAC with SHA-256), required for "hash": without it, short values could be guessed.
    item
        Returns the id of the item that is being decided, of a type that JSON has; called without arguments in the context of
        `decide`, so that it can be the getter of a context variable. `decide_many` has one context for all of its items. None:
        the id is the key given to `decide`.
    sync
        Wait for the disk after each line. Slow; without it a crash of the machine, not of the process, may lose lines.
    mode
        Permissions of a file that is created.
    clock
        Returns the time.

    Examples
    --------
    The id of the item comes from a context variable, of which every thread and task has its own:

    >>> import tempfile
    >>> from contextvars import ContextVar
    >>> from emsco_runtime import Cascade
    >>> from emsco_runtime.testing import sample_bundle
    >>> message_id = ContextVar("message_id", default=None)
    >>> folder = tempfile.TemporaryDirectory()
    >>> with folder, AuditWriter(folder.name + "/audit.jsonl", values="drop", item=message_id.get) as writer:
    ...     cascade = Cascade(sample_bundle(), observers=[writer])
    ...     _ = message_id.set("message-17")
    ...     _ = cascade.decide({"size": 2.0})
    ...     with open(folder.name + "/audit.jsonl") as lines:
    ...         line = json.loads(next(lines))
    >>> line["item"], line["decision"]["label"]
    ('message-17', 'spam')
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        values: Values = "keep",
        key: bytes | None = None,
        item: Callable[[], object] | None = None,
        sync: bool = False,
        mode: int = 0o640,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        if values not in ("keep", "drop", "hash"):
            raise InputError(f'values: expected "keep", "drop" or "hash", got {values!r}')
        if (values == "hash") != (key is not None):
            detail = "got None" if key is None else f'got values="{values}"'
            raise InputError(f'key: a secret must be given with values="hash", and only then; {detail}')
        secret: object = key
        if secret is not None and (not isinstance(secret, bytes) or not secret):
            raise InputError(f"key: expected bytes, at least one, got {type(key).__name__}")
        if item is not None and not callable(item):
            raise InputError(f"item: expected a function without arguments, got {item!r}")
        # Absolute, since the service may change its working directory.
        self._settings = _Settings(os.path.abspath(os.fspath(path)), values, key, item, sync, mode, clock)  # noqa: PTH100
        self._start()

    def _start(self) -> None:
        # A forked child gets a lock of its own, and writes to the same open file.
        super()._start()
        self._has_partial_line = False
        # The size of the file when this writer has last looked at it or written to it.
        self._last_size = 0
        self._file: FileIO | None = None
        try:
            self._file = self._open_file()
        except OSError as error:
            detail = f"{self._settings.path!r} cannot be opened for appending: {error.strerror}"
            raise InputError(f"path: {detail}. Create its folder, and let this process write there") from error

    def __enter__(self) -> Self:
        """Return the writer itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; a later decision opens it again."""
        with self._lock:
            self._close_file()

    def __call__(self, decision: Decision) -> None:
        """Write the decision."""
        settings = self._settings
        document = {
            "time": settings.clock().astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "item": decision.key if settings.item is None else settings.item(),
            "decision": self._to_record(decision),
        }
        # A lone surrogate cannot be encoded; its backslash form is what JSON would write for it.
        line = json.dumps(document, ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace") + b"\n"
        with self._lock:
            self._write(line)

    def _to_record(self, decision: Decision) -> dict[str, Any]:
        if self._settings.values != "keep" and decision.errors:
            masked = tuple(failure._replace(message=self._mask(failure.message)) for failure in decision.errors)
            decision = decision._replace(errors=masked)
        return decision.to_dict()

    def _mask(self, text: str) -> str:
        if self._settings.key is None:
            return ""
        digest = hmac.new(self._settings.key, text.encode(errors="surrogatepass"), hashlib.sha256)
        return f"hmac-sha256:{digest.hexdigest()}"

    def _write(self, line: bytes) -> None:
        """Write a line in one call; the caller holds the lock."""
        file = self._current_file()
        self._look_at_end(file)
        # The next record must not continue half a line that a full disk, or another process, has left.
        content = b"\n" + line if self._has_partial_line else line
        written = file.write(content)
        self._last_size += written
        self._has_partial_line = written != len(content)
        if self._has_partial_line:
            raise OSError(f"{self._settings.path}: {written} of {len(content)} bytes were written; the disk may be full")
        if self._settings.sync:
            os.fsync(file.fileno())

    def _look_at_end(self, file: FileIO) -> None:
        """Look for half a line at the end of the file, if it is not as this writer has left it."""
        found = os.fstat(file.fileno())
        if found.st_size != self._last_size and stat.S_ISREG(found.st_mode):
            self._has_partial_line = _ends_with_partial_line(file.fileno(), self._settings.path)
            if self._has_partial_line:
                _log.warning("%s: the last line is incomplete; the next one starts on a new line", self._settings.path)
        # Noted even if the write fails: while the disk is full, no decision waits for the same half line again.
        self._last_size = found.st_size

    def _current_file(self) -> FileIO:
        """Return the file that is at the path now, opened again if it was replaced."""
        if self._file is not None:
            try:
                found = os.stat(self._settings.path)  # noqa: PTH116 - once per decision: no path objects for it
            except FileNotFoundError:
                found = None
            opened = os.fstat(self._file.fileno())
            if found is not None and (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino):
                return self._file
            self._close_file()
        self._file = self._open_file()
        return self._file

    def _open_file(self) -> FileIO:
        return FileIO(self._settings.path, "ab", opener=lambda path, flags: os.open(path, flags, self._settings.mode))

    def _close_file(self) -> None:
        file, self._file, self._has_partial_line, self._last_size = self._file, None, False, 0
        if file is not None:
            file.close()


def _ends_with_partial_line(descriptor: int, path: str) -> bool:
    """Return whether the last line of the file is incomplete, and stays so for a moment; False if it cannot be read."""

    def partial_line_size() -> int | None:
        size = os.fstat(descriptor).st_size
        return size if size and os.pread(reader.fileno(), 1, size - 1) not in (b"\n", b"") else None

    try:
        with FileIO(path, opener=os.open) as reader:
            size = partial_line_size()
            if size is None:
                return False
            time.sleep(_PARTIAL_LINE_WAIT_S)
            return partial_line_size() == size
    except OSError:
        return False
