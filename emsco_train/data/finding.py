"""`Finding`: what was seen in a table before training, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Finding", "FindingKind"]

FindingKind: TypeAlias = Literal[
    "empty",
    "constant",
    "id",
    "free text",
    "date",
    "many categories",
    "alike",
    "mixed",
    "missing words",
    "missing number",
    "codes",
    "leak",
    "rows",
    "labels",
]


@dataclass(frozen=True, slots=True)
class Finding:
    """What was seen in a table, and what to do about it.

    Parameters
    ----------
    kind
        What it is about.
    column
        The column; None for the rows or the labels.
    what
        What was seen.
    remedy
        What to do, if there is something; arguments are in backticks.
    is_useless
        Whether no model can learn from the column.
    is_dropped
        Whether the column was left out because of it.
    """

    kind: FindingKind
    column: str | None
    what: str
    remedy: str = ""
    is_useless: bool = False
    is_dropped: bool = False
