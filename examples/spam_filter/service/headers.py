r"""Our headers: forged ones out, our own in, and every other byte as it came.

The message is never parsed and written again: that would change line ends, folding and bytes that are not valid text.

Programs that may read the message later disagree about where a line ends. SMTP knows ``\r\n`` alone, most mail
servers take a bare ``\n`` as well, and Python's email package a bare ``\r`` too. A forged header must be seen by none of them, so
it is looked for in each of these readings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from spam_filter.service.verdict import Verdict

__all__ = ["PREFIX", "MarkedMessage", "mark_message", "remove_forged_headers"]

PREFIX: Final = "X-Emsco-"
# The colon may come in a folded line, and some readers put the line together first: so the beginning is enough.
_FORGED: Final = re.compile(rb"x-emsco-", re.IGNORECASE)
# The shortest lines first, so that a forged one takes as little along as can be.
_LINE_BREAKS: Final = tuple(re.compile(breaks) for breaks in (rb"\r\n|\n|\r", rb"\r\n|\n", rb"\r\n"))
_FOLD: Final = (b" ", b"\t")
_MOST_VALUE: Final = 200


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
    lines = [_line(name, value) for name, value in _values(verdict)]
    if clean.startswith(_FOLD):
        # It would be read as the rest of the line before it. This one may be read that way without harm.
        lines.append(_line("Note", "the message began with a folded line"))
    return MarkedMessage(b"".join(lines) + clean, forged)


def _values(verdict: Verdict) -> Iterator[tuple[str, str]]:
    yield "Status", verdict.status
    # Cut, not rounded: 0.99996 is not certainty.
    yield "Confidence", "none" if verdict.confidence is None else f"{int(verdict.confidence * 10_000) / 10_000:.4f}"
    yield "Stage", "none" if verdict.stage is None else str(verdict.stage)
    yield "Cost", "none" if verdict.cost is None else f"{verdict.cost:.6g} {verdict.unit}".rstrip()
    yield "Bundle", verdict.bundle or "none"


def _line(name: str, value: str) -> bytes:
    """Return one header line; whatever the value is, it stays one line of plain ASCII."""
    plain = "".join(character if " " <= character <= "~" else "?" for character in value[:_MOST_VALUE])
    return f"{PREFIX}{name}: {plain}\r\n".encode("ascii")


def remove_forged_headers(raw: bytes) -> tuple[bytes, int]:
    r"""Return the message without headers that only we may write, and their number.

    Examples
    --------
    >>> remove_forged_headers(b"A: 1\r\nX-EMSCO-Cost : 0\r\n\tmore\r\nB: 2\r\n\r\nX-Emsco-Cost: in the body\r\n")
    (b'A: 1\r\nB: 2\r\n\r\nX-Emsco-Cost: in the body\r\n', 1)
    """
    total = 0
    while True:
        found = 0
        for breaks in _LINE_BREAKS:
            raw, removed = _remove_forged(raw, breaks)
            found += removed
        total += found
        # Once more: what is left may read otherwise where something was cut out.
        if not found:
            return raw, total


def _remove_forged(raw: bytes, breaks: re.Pattern[bytes]) -> tuple[bytes, int]:
    """Cut the forged headers out of the header, as it reads with such line breaks."""
    kept: list[bytes] = []
    copied = removed = 0
    forged = False
    for start, end in _header_lines(raw, breaks):
        folded = raw.startswith(_FOLD, start)
        # A folded line shares the fate of the line before it.
        forged = forged if folded else _FORGED.match(raw, start, end) is not None
        if forged:
            kept.append(raw[copied:start])
            copied = end
            removed += not folded
    kept.append(raw[copied:])
    return b"".join(kept) if removed else raw, removed


def _header_lines(raw: bytes, breaks: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    """Yield where each line of the header begins and ends, its line break included; an empty line ends the header."""
    start = 0
    for found in breaks.finditer(raw):
        if found.start() == start:
            return
        yield start, found.end()
        start = found.end()
    if start < len(raw):
        yield start, len(raw)
