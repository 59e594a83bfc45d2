r"""`MessageText`: the text of one message as it comes after DATA, in pieces of any size.

``\r\n.\r\n`` ends it and nothing else does; a dot that begins a line after ``\r\n`` is taken away. Whole pieces are searched,
not lines: how many lines a message has is the sender's choice, and the event loop reads it.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MessageText"]

_END: Final = b"\r\n.\r\n"
# DATA itself ended with it: the first line begins like any other.
_LINE_BEFORE: Final = b"\r\n"


class MessageText:
    r"""The text of one message.

    Parameters
    ----------
    max_bytes
        The largest message; of a larger one nothing is kept.

    Examples
    --------
    >>> text = MessageText(100)
    >>> text.feed(b"one\r\n..two\r\n."), text.feed(b"\r\nQUIT\r\n"), text.content
    (None, b'QUIT\r\n', b'one\r\n.two\r\n')
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._fits = True
        self._kept = bytearray()
        # What is not decided yet: it may be the beginning of the end, or of a line with a dot.
        self._pending = _LINE_BEFORE

    def feed(self, piece: bytes) -> bytes | None:
        """Take a piece; return None until the message has ended, then what came after its end."""
        text = self._pending + piece
        end = text.find(_END)
        if end >= 0:
            self._keep(text[: end + len(_LINE_BEFORE)])
            return text[end + len(_END) :]
        # Both begin with a carriage return, and the longer is not complete with the last four bytes.
        cut = text.find(b"\r", max(0, len(text) - len(_END) + 1))
        cut = len(text) if cut < 0 else cut
        self._keep(text[:cut])
        self._pending = text[cut:]
        return None

    @property
    def content(self) -> bytes | None:
        """The message so far; None if it is too large."""
        return bytes(memoryview(self._kept)[len(_LINE_BEFORE) :]) if self._fits else None

    def _keep(self, text: bytes) -> None:
        plain = text.replace(b"\r\n.", b"\r\n")
        self._fits = self._fits and len(self._kept) + len(plain) <= len(_LINE_BEFORE) + self._max_bytes
        if self._fits:
            self._kept += plain
        else:
            self._kept.clear()
