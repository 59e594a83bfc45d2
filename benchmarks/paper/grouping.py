"""Records by what they have in common, in the order in which they come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

__all__ = ["distinct", "group_rows"]

Row = TypeVar("Row")


def distinct(values: Iterable[Any]) -> list[Any]:
    """Return the different values."""
    return list(dict.fromkeys(values))


def group_rows(rows: Sequence[Row], *fields: str) -> dict[Any, list[Row]]:
    """Return the rows by the value of a field, or by the values of several."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        key = tuple(getattr(row, field) for field in fields)
        groups.setdefault(key if len(fields) > 1 else key[0], []).append(row)
    return groups
