"""Texts that are probably meant to be the same: they differ only in case or in blanks."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["find_alike"]


def find_alike(texts: Iterable[str]) -> list[list[str]]:
    """Return the texts that differ from others only in case or in blanks, together with these.

    Examples
    --------
    >>> find_alike(["yes", "no", "Yes", " yes"])
    [['yes', 'Yes', ' yes']]
    """
    found: dict[str, list[str]] = {}
    for text in texts:
        found.setdefault(" ".join(text.split()).casefold(), []).append(text)
    return [alike for alike in found.values() if len(alike) > 1]
