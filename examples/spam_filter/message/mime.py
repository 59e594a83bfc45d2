"""The parts of a message, found in bytes that may be anything; the work is bounded by `limits`.

Python's email package makes a tree of every part, and deep nesting ends in its recursion limit. Features need no tree: this walk
gives the leaves in order, as deep and as many as the limits say, and what it cannot make sense of is text.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from spam_filter.message.decoding import decode_text, decode_transfer, is_charset_readable
from spam_filter.message.header_block import HeaderBlock, parameter, read_header
from spam_filter.message.limits import PART_BYTES, PART_DEPTH, PARTS, RAW_BYTES

__all__ = ["MimeParts", "Part", "split_parts"]

_PAGES: Final = ("text/html", "text/enriched", "text/richtext")
# What mail programs show and is not read here.
_SEALED: Final = ("application/pkcs7-mime", "application/x-pkcs7-mime", "application/ms-tnef", "application/vnd.ms-tnef")
# A name that lets a mail program, or what it hands a file to, show it as text, whatever else is said of it.
_TEXT_NAME: Final = re.compile(r"\.(?:x?html?|shtml|mht|mhtml|svg|xml|txt|text|eml|msg|ics|vcf)$", re.IGNORECASE)
# Archives, by their names or by how they begin; so do the documents of offices, which are told by their names.
_ARCHIVE_NAME: Final = re.compile(r"\.(?:zipx?|t?gz|bz2?|t?xz|7z|rar|tar|cab|arj|lzh|ace|iso|img|jar|z)$", re.IGNORECASE)
_ARCHIVE: Final = re.compile(rb"(?:\x1f\x8b|Rar!|7z\xbc\xaf|BZh|MSCF|\xfd7zXZ)|.{257}ustar|.{0,500}PK\x03\x04", re.DOTALL)
_OFFICE_NAME: Final = re.compile(r"\.(?:doc[mx]|dot[mx]|xls[bmx]|pp[st][mx]|od[gpst]|epub|pages|numbers|key)$", re.IGNORECASE)
_MESSAGES: Final = ("message/rfc822", "message/global", "message/news")
_PLAIN_ENCODINGS: Final = ("", "7bit", "8bit", "binary")
_ENCODINGS: Final = (*_PLAIN_ENCODINGS, "base64", "quoted-printable")
_LOOKED_AT: Final = 2_000
# Text has hardly any of these, other content has many.
_CONTROL: Final = bytes({*range(0x20)} - {*range(0x09, 0x0E), 0x1B})
_MAX_CONTROL_SHARE: Final = 0.02
_DOCUMENTS: Final = (b"%PDF", b"{\\rtf", b"%!PS", b"-----BEGIN PGP")
_BYTE_ORDER_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_PAGE: Final = re.compile(rb"<(?:!doctype|html|head|body|div|table|p|br|a|b|font|center|h1|svg)\b", re.IGNORECASE)
_SCRIPT: Final = re.compile(r"<script\b", re.IGNORECASE)
# The line before a signature ends with a space of its own.
_LINE_BREAKS: Final = {"flowed": re.compile(r"(?<!--) \n"), "folded": re.compile(r"\n[ \t]")}
_BOUNDARY: Final = re.compile(r";\s{0,20}boundary(\*?)[\d*]{0,5}\s{0,20}=", re.IGNORECASE)
_LINE_END: Final = re.compile(rb"[\r\n]")
_AFTER_BOUNDARY: Final = (b"\r", b"\n", b" ", b"\t", b"")
# Lines like a boundary that are none, from which on a pattern pays: hostile mail may have nothing else.
_MANY_OTHERS: Final = 100


@dataclass(frozen=True, slots=True)
class Part:
    """A leaf: a part that contains no other parts.

    Parameters
    ----------
    kind
        The content type in lower case, such as "text/html"; "text/plain" where the message names none.
    reads_as
        What a mail program may show it as: "html", "plain", or "" for nothing to read.
    charset
        As the message says.
    encoding
        The transfer encoding in lower case.
    attached
        Whether it is an attachment: something to save rather than to read. Mail programs show text nevertheless.
    sealed
        Whether it holds what others can open, and is not read here: an archive, an encrypted message.
    line_breaks
        Line breaks that are no part of its text: "flowed" ones, "folded" ones, or none.
    content
        The body, still encoded.
    """

    kind: str
    reads_as: Literal["html", "plain", ""]
    charset: str
    encoding: str
    attached: bool
    sealed: bool
    line_breaks: Literal["flowed", "folded", ""]
    content: bytes

    @property
    def is_readable(self) -> bool:
        """Whether all of it can be read, or nothing of it is to be read."""
        if self.kind.startswith("multipart/"):
            # Its parts were not found; a mail program may find them, unless there is at most the line that ends them.
            return _LINE_END.search(self.content.strip()) is None
        if self.sealed:
            return False
        if not self.reads_as:
            return True
        is_decoded = len(self.content) <= PART_BYTES and self.encoding in _ENCODINGS and is_charset_readable(self.charset)
        # A page that is opened from an attachment may write itself.
        writes_itself = self.attached and self.reads_as == "html" and _SCRIPT.search(self.text()) is not None
        return is_decoded and not writes_itself

    def text(self) -> str:
        """Return the text of the part, up to the limit."""
        text = decode_text(decode_transfer(self.content[:PART_BYTES], self.encoding), self.charset)
        return _LINE_BREAKS[self.line_breaks].sub("", text.replace("\r\n", "\n")) if self.line_breaks else text


@dataclass(frozen=True, slots=True)
class MimeParts:
    """The leaves of a message in order, and whether these are all of it: nothing was beyond the limits."""

    leaves: tuple[Part, ...]
    complete: bool


def split_parts(raw: bytes, header: HeaderBlock) -> MimeParts:
    r"""Return the parts of a message.

    Parameters
    ----------
    raw
        The message.
    header
        Its header.

    Examples
    --------
    >>> raw = b"Content-Type: multipart/mixed; boundary=x\n\n--x\n\none\n--x\nContent-Type: text/html\n\n<p>\n--x--\n"
    >>> [(part.kind, part.content) for part in split_parts(raw, read_header(raw)).leaves]
    [('text/plain', b'one'), ('text/html', b'<p>')]
    """
    found: list[Part] = []
    # A stack instead of recursion: how deep a message nests is the sender's choice.
    waiting = [(header, raw[header.body : header.body + RAW_BYTES], 1)]
    seen, complete = 0, len(raw) - header.body <= RAW_BYTES
    while waiting and seen < PARTS:
        seen += 1
        head, body, depth = waiting.pop()
        declared = head.get("content-type")
        kind = _kind_of(declared)
        inner = _child_parts(kind, declared, _encoding_of(head), body)
        complete = complete and not head.malformed and not _is_ambiguous(head, kind, declared)
        if inner and depth < PART_DEPTH:
            complete = complete and len(inner) < PARTS
            blocks = [(read_header(part), part) for part in inner[:PARTS]]
            waiting += [(block, part[block.body :], depth + 1) for block, part in reversed(blocks)]
        else:
            leaf = _leaf(head, kind, declared, body)
            complete = complete and not inner and leaf.is_readable
            found.append(leaf)
    return MimeParts(tuple(found), complete and not waiting)


def _kind_of(declared: str) -> str:
    """Return the content type; what is none is plain text, as the standard has it."""
    # A comment may follow it.
    kind = declared.partition(";")[0].partition("(")[0].strip().lower()
    return kind if "/" in kind else "text/plain"


def _encoding_of(head: HeaderBlock) -> str:
    return head.get("content-transfer-encoding").partition(";")[0].strip().lower()


def _is_ambiguous(head: HeaderBlock, kind: str, declared: str) -> bool:
    """Return whether mail programs may disagree with the reading here about what the parts are."""
    if len(set(head.all("content-type"))) > 1 or len(set(head.all("content-transfer-encoding"))) > 1:
        return True
    if not kind.startswith("multipart/"):
        return False
    # Twice, in pieces (RFC 2231), or with quoted characters in it.
    boundaries = _BOUNDARY.findall(declared)
    is_unclear = len(boundaries) > 1 or "*" in boundaries or "\\" in parameter(declared, "boundary")
    return is_unclear or _encoding_of(head) not in _PLAIN_ENCODINGS


def _child_parts(kind: str, declared: str, encoding: str, body: bytes) -> list[bytes]:
    """Return the parts within a container, none for a leaf."""
    if kind in _MESSAGES:
        return [decode_transfer(body, encoding)]
    boundary = parameter(declared, "boundary") if kind.startswith("multipart/") else ""
    return _split_at_boundary(body, b"--" + boundary.encode("utf-8", "replace")) if boundary else []


def _split_at_boundary(body: bytes, mark: bytes) -> list[bytes]:
    """Return what is between the lines that begin with a boundary; the last one may be missing."""
    parts: list[bytes] = []
    start = -1
    body = b"\n" + body
    for found in _boundary_lines(body, mark):
        if start >= 0:
            parts.append(_trim_line_end(body[start:found]))
        end = found + len(mark)
        if body.startswith(b"--", end) or len(parts) >= PARTS:
            return parts
        line_end = body.find(b"\n", end)
        start = len(body) if line_end < 0 else line_end + 1
    if 0 <= start < len(body):
        parts.append(body[start:])
    return parts


def _boundary_lines(body: bytes, mark: bytes) -> Iterator[int]:
    """Yield where the lines of a boundary begin; those of another one may begin in the same way."""
    # No pattern at first: each message has another boundary, and to compile one takes longer than to search.
    found, others = body.find(mark), 0
    while found >= 0:
        end = found + len(mark)
        closes = body.startswith(b"--", end) and body[end + 2 : end + 3] in _AFTER_BOUNDARY
        if body[found - 1] in b"\r\n" and (closes or body[end : end + 1] in _AFTER_BOUNDARY):
            yield found
            found = body.find(mark, end)
            continue
        others += 1
        if others == _MANY_OTHERS:
            # The mark first, which is found fast; then what is before and behind it.
            literal, after = re.escape(mark), b"".join(_AFTER_BOUNDARY)
            pattern = re.compile(literal + rb"(?<=[\r\n]" + literal + rb")(?=(?:--)?(?:[" + after + rb"]|\Z))")
            yield from (line.start() for line in pattern.finditer(body, found))
            return
        # On to the next line: a long one may be full of it.
        line = _LINE_END.search(body, found)
        found = -1 if line is None else body.find(mark, line.end())


def _trim_line_end(part: bytes) -> bytes:
    """Take away the line end that belongs to the boundary after it."""
    return part[:-2] if part.endswith(b"\r\n") else part[:-1] if part.endswith((b"\n", b"\r")) else part


def _leaf(head: HeaderBlock, kind: str, declared: str, body: bytes) -> Part:
    disposition = head.get("content-disposition").lower()
    is_text = kind.startswith(("text/", "multipart/", "message/"))
    attached = disposition.startswith("attachment") or not is_text
    encoding = _encoding_of(head)
    reads_as: Literal["html", "plain", ""] = "html" if kind in _PAGES else "plain"
    names, start = _names_of(head, declared), decode_transfer(body[:_LOOKED_AT], encoding)
    if not is_text or (declared and "/" not in declared.partition(";")[0]):
        # Not by its kind: mail programs go by the name and the content, too, and the sender chooses all three.
        is_named_text = any(map(_TEXT_NAME.search, names))
        # Mostly its beginning shows what it is; there may be space, or something else, before it.
        reads_as = _look_at(start) or _look_at(decode_transfer(body[:PART_BYTES], encoding), is_named_text=is_named_text)
    sealed = kind in _SEALED or _is_archive(kind, names, start)
    breaks = _line_breaks_of(kind, declared)
    return Part(kind, reads_as, parameter(declared, "charset"), encoding, attached, sealed, breaks, body)


def _names_of(head: HeaderBlock, declared: str) -> list[str]:
    """Return the names of a part as a file: mail programs differ in which they take."""
    disposition = head.get("content-disposition")
    found = [parameter(declared, "name"), parameter(declared, "name*"), parameter(disposition, "filename")]
    return [name.strip() for name in (*found, parameter(disposition, "filename*")) if name.strip()]


def _is_archive(kind: str, names: Sequence[str], start: bytes) -> bool:
    """Return whether a part is an archive by any of its names, or by how it begins; not a document of an office."""
    if any(map(_ARCHIVE_NAME.search, names)):
        return True
    is_office = all(map(_OFFICE_NAME.search, names)) if names else kind.startswith("application/vnd.")
    return not is_office and _ARCHIVE.match(start) is not None


def _line_breaks_of(kind: str, declared: str) -> Literal["flowed", "folded", ""]:
    """Return how lines are broken: folded in calendars and cards (RFC 5545, 6350), flowed without their spaces (RFC 3676)."""
    if kind in ("text/calendar", "text/vcard", "text/x-vcard", "application/ics"):
        return "folded"
    is_flowed = kind == "text/plain" and parameter(declared, "format").lower() == "flowed"
    return "flowed" if is_flowed and parameter(declared, "delsp").lower() == "yes" else ""


def _look_at(content: bytes, *, is_named_text: bool = False) -> Literal["html", "plain", ""]:
    """Return what kind of text some content is; an empty string if it is none."""
    content = content.lstrip()
    if not content or not (is_named_text or _is_text(content)):
        return ""
    return "html" if _PAGE.search(content.translate(None, _CONTROL)) else "plain"


def _is_text(content: bytes) -> bool:
    controls = len(content) - len(content.translate(None, _CONTROL))
    is_binary = controls > _MAX_CONTROL_SHARE * len(content) and not content.startswith(_BYTE_ORDER_MARKS)
    return not is_binary and not content.startswith(_DOCUMENTS)
