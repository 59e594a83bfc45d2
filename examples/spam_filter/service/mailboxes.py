r"""`Mailboxes`: delivery into Maildirs, one file for each recipient, with the envelope in it.

Each file begins with ``Return-Path`` (the sender) and ``Delivered-To`` (this recipient), as mail servers write them; then come
our headers and the bytes that came over SMTP, line ends included. All recipients have one Maildir, or each has one: the path may
hold ``{recipient}``, ``{user}`` and ``{domain}``.

A message is answered 250 when the files of all recipients are synced. If one cannot be written, none is shown to readers, and the
sender keeps the message; after a crash in between, or if a rename fails, some have it twice, and nobody has lost it.

Maildirs that do not exist are made, but only while the volume is mounted that they were on at the start: mail that is written to
the folder below a mount point is hidden when the volume comes back.
"""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spam_filter.service.maildir import MaildirFolder
from spam_filter.service.outgoing import DeliveryResult, OutgoingMessage, one_line

__all__ = ["Mailboxes", "safe_name"]

_FIELDS: Final = re.compile(r"\{([^{}]*)\}")
_NAMES: Final = frozenset({"recipient", "user", "domain"})
_UNSAFE: Final = re.compile(rb"[^a-z0-9@_+=.-]|^[.-]")
_LONGEST_NAME: Final = 150
# Folders are cheap to look at again; what is forgotten is only that they are there.
_MOST_KNOWN: Final = 10_000


class Mailboxes:
    """Maildirs of recipients; thread-safe, and several processes may deliver to them.

    Parameters
    ----------
    path
        The folder of the Maildir, with ``{recipient}``, ``{user}`` or ``{domain}`` in it where there are several.
    hostname
        As in `MaildirFolder`.

    Raises
    ------
    OSError
        If the folder, or the one above the first name in braces, cannot be created.
    ValueError
        If there is another name in braces.
    """

    max_recipients: Final = 1000

    def __init__(self, path: Path, hostname: str) -> None:
        self._path = str(path)
        self._hostname = hostname
        self._known: dict[str, MaildirFolder] = {}
        unknown = [name for name in _FIELDS.findall(self._path) if name not in _NAMES]
        if unknown:
            raise ValueError(f"expected {{recipient}}, {{user}} or {{domain}} in braces, got {{{unknown[0]}}}")
        fixed = next(part for part in (path, *path.parents) if not _FIELDS.search(str(part)))
        fixed.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._mount = _find_mount(fixed.resolve())
        if fixed == path:
            self._folder(self._path)

    def deliver(self, message: OutgoingMessage) -> DeliveryResult:
        """Write a message for each recipient; what the disk refuses, the sender keeps."""
        written: list[tuple[MaildirFolder, str]] = []
        try:
            for recipient in dict.fromkeys(message.recipients):
                # One by one: what was written before a failure is discarded.
                written.append(  # noqa: PERF401
                    self._write(recipient, _envelope(message.sender, recipient), message.content)
                )
            _publish(written)
        except OSError as error:
            for folder, name in written:
                folder.discard(name)
                if isinstance(error, FileNotFoundError):
                    # A folder of one of them is gone: all are made again at the next attempt.
                    self._known.pop(folder.path, None)
            return DeliveryResult("deferred", f"452 4.3.1 not stored: {one_line(error.strerror or type(error).__name__)}")
        return DeliveryResult("delivered", "250 2.0.0 stored")

    def _write(self, recipient: str, head: bytes, content: bytes) -> tuple[MaildirFolder, str]:
        path = self._path_of(recipient)
        folder = self._folder(path)
        try:
            return folder, folder.write(head, content)
        except FileNotFoundError:
            # Somebody has removed it since: it is made again.
            self._known.pop(path, None)
            folder = self._folder(path)
            return folder, folder.write(head, content)

    def _path_of(self, recipient: str) -> str:
        user, _, domain = recipient.rpartition("@")
        parts = {"recipient": recipient, "user": user or domain, "domain": domain if user else ""}
        # One name in braces never becomes two folders, nor one that lies elsewhere.
        return _FIELDS.sub(lambda found: safe_name(parts[found[1]]), self._path)

    def _folder(self, path: str) -> MaildirFolder:
        folder = self._known.get(path)
        if folder is None:
            if not self._mount.is_mount():
                raise OSError(errno.ENODEV, "the volume of the mail is not mounted")
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            folder = self._known[path] = MaildirFolder(Path(path), self._hostname)
        return folder


def _find_mount(folder: Path) -> Path:
    """Return where the volume of a folder is mounted. Its device number would not do: some volumes get another at each mount."""
    return next(part for part in (folder, *folder.parents) if part.is_mount())


def _publish(written: Sequence[tuple[MaildirFolder, str]]) -> None:
    for folder, name in written:
        folder.publish(name)
    for folder in {id(folder): folder for folder, _ in written}.values():
        folder.sync()


def _envelope(sender: str, recipient: str) -> bytes:
    """Return the lines that say who sent it to whom; addresses have no control characters, which was checked when they came."""
    return f"Return-Path: <{sender}>\r\nDelivered-To: {recipient}\r\n".encode()


def safe_name(text: str) -> str:
    r"""Return part of an address as the name of one file: in lower case, whatever is not plain as ``%`` and its code.

    Examples
    --------
    >>> safe_name("Ann.B+news@X.org"), safe_name("../a/b"), safe_name(""), safe_name(".")
    ('ann.b+news@x.org', '%2e.%2fa%2fb', '%', '%2e')
    """
    plain = _UNSAFE.sub(lambda found: b"%%%02x" % found[0][0], text.lower().encode("utf-8", "surrogateescape")).decode("ascii")
    if len(plain) > _LONGEST_NAME:
        return f"{plain[:_LONGEST_NAME]}%{hashlib.sha256(plain.encode()).hexdigest()[:16]}"
    return plain or "%"
