"""Names in pictures: on one line, and cut where there is no room."""

from __future__ import annotations

import unicodedata

__all__ = ["shorten_name", "text_width"]


def shorten_name(name: str, max_width: int) -> str:
    """Return a name on one line of at most `max_width` characters.

    Examples
    --------
    >>> shorten_name("a very long name", 8)
    'a very \N{HORIZONTAL ELLIPSIS}'
    """
    kept = " ".join(name.split()) or repr(name)
    if text_width(kept) <= max_width:
        return kept
    kept = kept[:max_width]
    while text_width(kept) > max_width - 1:
        kept = kept[:-1]
    return f"{kept}\N{HORIZONTAL ELLIPSIS}"


def text_width(text: str) -> int:
    """Return how many characters wide a text is in a font of fixed width: Chinese and Japanese characters take two."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
