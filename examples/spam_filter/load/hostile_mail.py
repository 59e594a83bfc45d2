r"""Hostile mail: bytes of any size that make a careless reader work far longer than their size warrants.

Each kind repeats a pattern that some step of a mail filter may handle badly: searches that start again at every byte, trees of
parts, regular expressions that look ahead in vain. Line ends are those of SMTP but for what is hostile about them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["HOSTILE", "hostile_message"]

_HEAD: Final = b"From: a@example.org\r\nTo: b@example.org\r\nSubject: hello\r\n"
_Make = Callable[[int], bytes]


def hostile_message(kind: str, size: int) -> bytes:
    """Return a message of a kind, of about that many bytes and not more.

    Parameters
    ----------
    kind
        A key of `HOSTILE`.
    size
        In bytes, some thousands at least.

    Examples
    --------
    >>> [len(hostile_message(kind, 20_000)) <= 20_000 for kind in HOSTILE] == [True] * len(HOSTILE)
    True
    """
    return HOSTILE[kind](size - 4)[: size - 4] + b"\r\n"


def _repeat(head: bytes, pattern: bytes) -> _Make:
    return lambda size: head + pattern * (max(0, size - len(head)) // len(pattern))


def _part(kind: bytes, encoding: bytes = b"7bit") -> bytes:
    return _HEAD + b"Content-Type: " + kind + b"\r\nContent-Transfer-Encoding: " + encoding + b"\r\n\r\n"


def _nested(size: int) -> bytes:
    """Return parts within parts within parts, each with a boundary of its own."""
    found, number = [_HEAD], 0
    while size > 0:
        part = b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (number, number)
        found.append(part)
        size -= len(part)
        number += 1
    return b"".join(found)


_MULTIPART: Final = _HEAD + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"

HOSTILE: Final[Mapping[str, _Make]] = {
    "forged headers between bare line ends": _repeat(b"", b"a\rX-Emsco-1: x\n\n"),
    "forged headers": _repeat(b"", b"X-Emsco-1: x\r\n"),
    "folded forged header": _repeat(b"X-Emsco-1: x\r\n", b" x\r\n"),
    "beginnings of forged headers": _repeat(b"Subject: x", b"x-emsco-x-emsco"),
    "header fields": _repeat(b"", b"a:b\r\n"),
    "folded lines": _repeat(b"Subject: x\r\n", b" x\r\n"),
    "one long line": _repeat(_HEAD + b"\r\n", b"x"),
    "one long header line": _repeat(b"Subject: ", b"x"),
    "short lines": _repeat(_HEAD + b"\r\n", b"x\r\n"),
    "bare carriage returns": _repeat(_HEAD + b"\r\n", b"\r"),
    "bare line feeds": _repeat(_HEAD + b"\r\n", b"\n"),
    "dots": _repeat(_HEAD + b"\r\n", b".\r\n"),
    "false ends": _repeat(_HEAD + b"\r\n", b"\r.x\n.x"),
    "nested parts": _nested,
    "many parts": _repeat(_MULTIPART, b"--b\r\n\r\nx\r\n"),
    "beginnings of boundaries": _repeat(_MULTIPART, b"--bx\r\n"),
    "nested messages": _repeat(_HEAD, b"Content-Type: message/rfc822\r\n\r\n"),
    "tags that never end": _repeat(_part(b"text/html"), b"<a href="),
    "comments that never end": _repeat(_part(b"text/html"), b"<!--"),
    "styles that never end": _repeat(_part(b"text/html"), b"<style><"),
    "nested tags": _repeat(_part(b"text/html"), b"<div><b><i>"),
    "entities": _repeat(_part(b"text/html"), b"&amp;&#x41;&lt"),
    "base64 garbage": _repeat(_part(b"text/plain", b"base64"), b"A!?-\r\n"),
    "soft line breaks": _repeat(_part(b"text/plain", b"quoted-printable"), b"=\r\n"),
    "broken quoted-printable": _repeat(_part(b"text/plain", b"quoted-printable"), b"=X=3"),
    "encoded words": _repeat(b"Subject: ", b"=?utf-8?q?a?= =?utf-8?b?YQ==?= "),
    "beginnings of encoded words": _repeat(b"Subject: ", b"=?utf-8?q?"),
    "addresses": _repeat(b"To: ", b"a@b, <c@d> "),
    "parameters": _repeat(_HEAD + b'Content-Type: multipart/mixed; boundary="b', b'; a="b'),
    "links": _repeat(_HEAD + b"\r\n", b"http://a.b/c?d@e "),
    "rules": _repeat(_HEAD + b"\r\n", b"_" * 19 + b"x\r\n"),
    "different words": lambda size: _HEAD + b"\r\n" + b"".join(b"w%d " % number for number in range(max(0, size - 80) // 9)),
    "tags of lists": _repeat(b"Subject: ", b"[["),
    "bytes that are not text": _repeat(_part(b"text/plain; charset=utf-8"), b"\xff\xfe\x00\xc3"),
}
