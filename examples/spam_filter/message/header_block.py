"""The header of a message or of a part: fields in order, found in bytes that may be anything."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from spam_filter.message.decoding import decode_text
from spam_filter.message.limits import HEADER_BYTES, HEADER_FIELDS, RAW_BYTES

__all__ = ["HeaderBlock", "parameter", "read_header"]

_FIELD_END: Final = re.compile(r"\n(?![ \t])")
_NAME_CHARACTERS: Final = 200
# Lines that mailbox files and old mail servers add: anywhere, and on the first line.
_MAILBOX_LINES: Final = (">From ", "From ")


@dataclass(frozen=True, slots=True)
class HeaderBlock:
    """Fields of a header.

    Parameters
    ----------
    fields
        (name in lower case, value without folds), in order.
    body
        Where the body begins in the bytes.
    malformed
        Whether a line of it is not a field: some mail programs take that line for the beginning of the body.
    """

    fields: tuple[tuple[str, str], ...]
    body: int
    malformed: bool = False

    def get(self, name: str) -> str:
        """Return the value of the first field with a name (in lower case), an empty text if there is none."""
        for field, value in self.fields:
            if field == name:
                return value
        return ""

    def all(self, name: str) -> list[str]:
        """Return the values of all fields with a name (in lower case)."""
        return [value for field, value in self.fields if field == name]


def read_header(content: bytes, start: int = 0) -> HeaderBlock:
    r"""Read the header that begins at a position; a line that is not a field is skipped.

    Parameters
    ----------
    content
        Any bytes.
    start
        Where the header begins.

    Examples
    --------
    >>> block = read_header(b"Subject: a\r\n  fold\r\nno field\r\nTo: b\r\n\r\nbody")
    >>> block.fields, block.body, block.malformed
    ((('subject', 'a fold'), ('to', 'b')), 39, True)
    """
    if content[start : start + 1] in (b"\n", b"\r"):
        # An empty line at once: no field at all.
        return HeaderBlock((), start + (2 if content[start : start + 2] == b"\r\n" else 1))
    end, body = _end(content, start)
    block = decode_text(content[start : min(end, start + HEADER_BYTES)])
    if "\r" in block:
        block = block.replace("\r\n", "\n").replace("\r", "\n")
    fields = []
    malformed = False
    for number, line in enumerate(_FIELD_END.split(block, HEADER_FIELDS)[:HEADER_FIELDS]):
        name, colon, value = line.partition(":")
        name = name.rstrip()
        # A name is one word; with anything else before the colon, the line is not a field.
        if colon and len(name.split()) == 1 and len(name) <= _NAME_CHARACTERS:
            fields.append((name.lower(), " ".join(value.split()) if "\n" in value else value.strip()))
        elif line.strip() and not line.startswith(_MAILBOX_LINES if number == 0 else _MAILBOX_LINES[:1]):
            malformed = True
    return HeaderBlock(tuple(fields), body, malformed)


def _end(content: bytes, start: int) -> tuple[int, int]:
    """Return where the header ends and where the body begins: around the first empty line, wherever line ends are of any kind."""
    # Most headers end within the first limit, and one that does not end within the second has no body that anybody reads.
    for until in (start + HEADER_BYTES, start + RAW_BYTES):
        found = [(at, at + len(mark)) for mark in (b"\n\n", b"\n\r\n") if (at := content.find(mark, start, until)) >= 0]
        if found:
            return min(found)
    at = content.find(b"\r\r", start, start + RAW_BYTES)
    return (at, at + 2) if at >= 0 else (len(content), len(content))


_PARAMETER: Final = re.compile(
    r';\s{0,20}([a-z0-9_*-]{1,40})\s{0,20}=\s{0,20}(?:"([^"]{0,300})"|([^\s;"]{1,300}))', re.IGNORECASE
)


def parameter(value: str, name: str) -> str:
    """Return a parameter of a structured field such as Content-Type; an empty string if there is none.

    Examples
    --------
    >>> parameter('multipart/mixed; charset=x; Boundary="a b"', "boundary")
    'a b'
    """
    for found in _PARAMETER.finditer(value[:2000]):
        if found[1].lower() == name:
            return found[2] if found[2] is not None else found[3]
    return ""
