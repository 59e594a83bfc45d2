"""Vectors in tables of plain columns: the columns `name[0]`, `name[1]`, ... hold the numbers of one vector `name`."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["column_names", "find_vectors"]

_NUMBERED = re.compile(r"(?P<name>.+)\[(?P<position>0|[1-9][0-9]{0,5})\]", re.DOTALL)


def column_names(name: str, width: int) -> list[str]:
    """Return the names of the columns that hold a vector.

    Examples
    --------
    >>> column_names("words", 3)
    ['words[0]', 'words[1]', 'words[2]']
    """
    return [f"{name}[{position}]" for position in range(width)]


def find_vectors(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the vectors among the columns of a table: their names, and their columns in order.

    Two columns or more, numbered from 0 without a gap, are a vector; others with such names are columns like all others.

    Examples
    --------
    >>> find_vectors(["size", "words[1]", "words[0]", "price[2020]"])
    {'words': ['words[0]', 'words[1]']}
    """
    listed = set(names)
    widths: dict[str, int] = {}
    for match in filter(None, map(_NUMBERED.fullmatch, names)):
        widths[match["name"]] = widths.get(match["name"], 0) + 1
    vectors = {name: column_names(name, width) for name, width in widths.items() if width > 1 and name not in listed}
    return {name: columns for name, columns in vectors.items() if listed.issuperset(columns)}
