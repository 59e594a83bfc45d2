r"""Our headers: forged ones out, our own in, and every other byte as it came.

The message is never parsed and written again: that would change line ends, folding and bytes that are not valid text.

Programs that may read the message later disagree about where a line ends. SMTP knows ``\r\n`` alone, most mail
servers take a bare ``\n`` as well, and Python's email package a bare ``\r`` too. A forged header must be seen by none of them, so
it is looked for in each of these readings.

The sender chooses the bytes, so the work grows with their number and no faster: each byte is searched once by each reading. Where
our names come more than a thousand times, the rest of them is overwritten, wherever they are: quicker than cutting each out, and
nobody writes such a message but to keep us busy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from spam_filter.service.verdict import Verdict

__all__ = ["PREFIX", "MarkedMessage", "header_fields", "mark_message", "remove_forged_headers"]

PREFIX: Final = "X-Emsco-"
# The colon may come in a folded line, and some readers put the line together first: so the beginning is enough.
_FORGED: Final = re.compile(rb"x-emsco-", re.IGNORECASE)
_NAME_BYTES: Final = len(PREFIX)
_LOWER_NAME: Final = PREFIX.lower().encode()
_FOLD: Final = (b" ", b"\t")
_MOST_VALUE: Final = 200
_MOST_NAMES: Final = 1000
_OVERWRITTEN: Final = b"X-Forged"
# One search holds Python's lock to its end: a large message is searched in windows, and other threads run in between.
_WINDOW: Final = 8_192


class _Reading(NamedTuple):
    """One way to read lines: what a line begins after, what ends a field (a folded line goes on), and what ends the header."""

    before_line: tuple[bytes, ...]
    field_end: re.Pattern[bytes]
    empty_line: re.Pattern[bytes]


# The shortest lines first, so that a forged one takes as little along as can be.
_READINGS: Final = (
    _Reading((b"\r", b"\n"), re.compile(rb"(?:\r\n|\n|\r(?!\n))(?![ \t])"), re.compile(rb"\n[\r\n]|\r\r")),
    _Reading((b"\n",), re.compile(rb"\n(?![ \t])"), re.compile(rb"\n\r?\n")),
    _Reading((b"\r\n",), re.compile(rb"\r\n(?![ \t])"), re.compile(rb"\r\n\r\n")),
)
_LONGEST_MARK: Final = 4
# Our own headers come before the message, and end with it.
_LINE_BEFORE: Final = b"\r\n"


class MarkedMessage(NamedTuple):
    """A message with our headers, and how many forged ones it had."""

    content: bytes
    forged: int


def mark_message(raw: bytes, verdict: Verdict) -> MarkedMessage:
    r"""Return the message with our headers at its top, and without any that it brought along.

    Parameters
    ----------
    raw
        The message, as it came.
    verdict
        What our headers are to say.

    Examples
    --------
    >>> raw = b"x-emsco-status:\r\n ham\r\nSubject: hello\r\n\r\ntext\r\n"
    >>> marked = mark_message(raw, Verdict("spam", 0.99873, 2, 3.5, "us", "ab12"))
    >>> print(marked.content.replace(b"\r", b"").decode(), marked.forged)
    X-Emsco-Status: spam
    X-Emsco-Confidence: 0.9987
    X-Emsco-Stage: 2
    X-Emsco-Cost: 3.5 us
    X-Emsco-Bundle: ab12
    Subject: hello
    <BLANKLINE>
    text
     1
    """
    clean, forged = remove_forged_headers(raw)
    lines = [_line(name, value) for name, value in header_fields(verdict)]
    if clean.startswith(_FOLD):
        # It would be read as the rest of the line before it. This one may be read that way without harm.
        lines.append(_line(f"{PREFIX}Note", "the message began with a folded line"))
    return MarkedMessage(b"".join(lines) + clean, forged)


def header_fields(verdict: Verdict) -> list[tuple[str, str]]:
    """Return our headers, name and value, in order; whatever a value is, it is one line of plain ASCII."""
    return [(f"{PREFIX}{name}", _plain(value)) for name, value in _values(verdict)]


def _values(verdict: Verdict) -> Iterator[tuple[str, str]]:
    yield "Status", verdict.status
    # Cut, not rounded: 0.99996 is not certainty.
    yield "Confidence", "none" if verdict.confidence is None else f"{int(verdict.confidence * 10_000) / 10_000:.4f}"
    yield "Stage", "none" if verdict.stage is None else str(verdict.stage)
    yield "Cost", "none" if verdict.cost is None else f"{verdict.cost:.6g} {verdict.unit}".rstrip()
    yield "Bundle", verdict.bundle or "none"
    if verdict.degraded:
        yield "Degraded", ", ".join(verdict.failed_sources)
    if verdict.unread:
        yield "Unread", "more text or parts than are read"
    if verdict.listed:
        yield "List", verdict.listed


def _plain(value: str) -> str:
    return "".join(character if " " <= character <= "~" else "?" for character in value[:_MOST_VALUE])


def _line(name: str, value: str) -> bytes:
    return f"{name}: {value}\r\n".encode("ascii")


def remove_forged_headers(raw: bytes) -> tuple[bytes, int]:
    r"""Return the message without headers that only we may write, and their number.

    Examples
    --------
    >>> remove_forged_headers(b"A: 1\r\nX-EMSCO-Cost : 0\r\n\tmore\r\nB: 2\r\n\r\nX-Emsco-Cost: in the body\r\n")
    (b'A: 1\r\nB: 2\r\n\r\nX-Emsco-Cost: in the body\r\n', 1)
    """
    if not _has_name(raw):
        return raw, 0
    kept = bytearray(_LINE_BEFORE)
    # Those that are still in the header; what is kept, not what came, says where they are.
    readings: tuple[_Reading, ...] = _READINGS
    at = removed = met = 0
    while readings and at < len(raw) and met < _MOST_NAMES:
        start = _find_name(raw, at)
        if start > at:
            searched = max(0, len(kept) - _LONGEST_MARK + 1)
            kept += raw[at:start]
            readings = tuple(one for one in readings if one.empty_line.search(kept, searched) is None)
            at = start
        if not _FORGED.match(raw, at):
            continue
        met += 1
        reading = next((one for one in readings if kept.endswith(one.before_line)), None)
        if reading is None:
            # Inside a line.
            kept += raw[at : at + _NAME_BYTES]
            at += _NAME_BYTES
        else:
            removed += 1
            at = _field_end(raw, at, reading.field_end)
    if readings and met >= _MOST_NAMES:
        removed += _overwrite_names(kept, raw, at)
    else:
        kept += raw[at:]
    return (bytes(memoryview(kept)[len(_LINE_BEFORE) :]), removed) if removed else (raw, 0)


def _overwrite_names(kept: bytearray, raw: bytes, at: int) -> int:
    """Append the rest of a message with our name overwritten; return how often it was there."""
    count = 0
    while at < len(raw):
        end = at + _WINDOW
        # Not in the middle of a name.
        if (cut := _FORGED.search(raw, max(at, end - _NAME_BYTES + 1), end + _NAME_BYTES - 1)) is not None:
            end = cut.end()
        text, found = _FORGED.subn(_OVERWRITTEN, raw[at:end])
        kept += text
        count += found
        at = end
    return count


def _has_name(raw: bytes) -> bool:
    """Return whether our name is anywhere; windows overlap by a name less a byte."""
    # A seventh of the time that the pattern takes; nearly all messages end here.
    return any(_LOWER_NAME in raw[at : at + _WINDOW + _NAME_BYTES - 1].lower() for at in range(0, len(raw), _WINDOW))


def _find_name(raw: bytes, at: int) -> int:
    """Return where our name comes next; where it does not come within a window, the end of what was searched."""
    found = _FORGED.search(raw, at, at + _WINDOW)
    if found is not None:
        return found.start()
    # The window may end in the middle of a name.
    return len(raw) if at + _WINDOW >= len(raw) else at + _WINDOW - _NAME_BYTES + 1


def _field_end(raw: bytes, at: int, field_end: re.Pattern[bytes]) -> int:
    """Return where a header field ends: a folded line shares the fate of the line before it."""
    while at < len(raw):
        until = at + _WINDOW
        found = field_end.search(raw, at, until)
        # At the end of a window nobody sees whether the next line is folded: the next window begins with the line break.
        if found is not None and (found.end() < until or until >= len(raw)):
            return found.end()
        at = until - len(_LINE_BEFORE)
    return len(raw)
