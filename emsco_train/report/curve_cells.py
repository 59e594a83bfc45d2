"""`CurveCells`: the curve of a feature as a picture shows it, cell by cell, with words for each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from emsco_train.runs.curves_file import CurveEntry

__all__ = ["MAX_CELLS", "Cell", "CurveCells", "format_knots"]

# Of a feature with more categories, the most frequent are drawn.
MAX_CELLS = 32
_MAX_PLAIN = 1e7


@dataclass(frozen=True, slots=True)
class Cell:
    """Some values of a feature, or a gap: how many train rows have them, and what they add to the log-odds of each output."""

    text: str
    rows: int
    log_odds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CurveCells:
    """The cells of a feature from left to right, of which a picture shows the first, and its gap, where a train row has one."""

    entry: CurveEntry
    cells: tuple[Cell, ...]
    gap: Cell | None

    @classmethod
    def of(cls, entry: CurveEntry) -> CurveCells:
        """Return the cells of a number in order, and those of a category by falling number of rows."""
        cells = [Cell(*cell) for cell in zip(_cell_texts(entry), entry.rows, zip(*entry.log_odds, strict=True), strict=True)]
        if entry.knots is None:
            cells = sorted(cells, key=lambda cell: -cell.rows)
        gap = Cell("gap", entry.gap_rows, entry.gap_log_odds) if entry.gap_rows else None
        return cls(entry, tuple(cells), gap)

    @property
    def rows(self) -> int:
        """Train rows in all."""
        return sum(self.entry.rows) + self.entry.gap_rows + self.entry.other_rows

    @property
    def shown(self) -> tuple[Cell, ...]:
        """The cells that a picture shows."""
        return self.cells[:MAX_CELLS]

    @property
    def shown_with_gap(self) -> tuple[Cell, ...]:
        """The cells that a picture shows, and the gap."""
        return self.shown if self.gap is None else (*self.shown, self.gap)

    def extremes(self, output: int) -> tuple[Cell, Cell]:
        """Return the cells that add least and most to the log-odds of an output, among those that train rows have."""
        known = [cell for cell in (*self.cells, *([] if self.gap is None else [self.gap])) if cell.rows] or self.cells
        return min(known, key=lambda cell: cell.log_odds[output]), max(known, key=lambda cell: cell.log_odds[output])

    def influence(self, output: int) -> float:
        """Return the difference between the two: how much this feature can change the log-odds of an output."""
        least, most = self.extremes(output)
        return most.log_odds[output] - least.log_odds[output]

    @property
    def largest_influence(self) -> float:
        """The influence on the output where it is largest."""
        return max(self.influence(output) for output in range(len(self.entry.log_odds)))


def format_knots(knots: Sequence[float], *, digits: int) -> list[str]:
    """Return numbers with `digits` digits, or with as many as it takes to tell them apart.

    Examples
    --------
    >>> format_knots([0.12345, 1234.5, 4.0e9], digits=3), format_knots([1.0001, 1.0002], digits=3)
    (['0.123', '1,234', '4e+09'], ['1.0001', '1.0002'])
    """
    # 17 digits tell any two numbers apart.
    attempts = ([_format_knot(knot, more) for knot in knots] for more in range(digits, 18))
    return next(texts for texts in attempts if len(set(texts)) == len(texts))


def _format_knot(knot: float, digits: int) -> str:
    return f"{knot:,.0f}" if 10**digits <= abs(knot) < _MAX_PLAIN else f"{knot:,.{digits}g}"


def _cell_texts(entry: CurveEntry) -> tuple[str, ...]:
    """Return what the values of each cell are, in the order of the file."""
    if entry.knots is None:
        return entry.categories or ()
    if entry.kind == "boolean":
        return ("no", "yes") if entry.knots else ("always the same",)
    if not entry.knots:
        return ("always the same",)
    texts = format_knots(entry.knots, digits=4)
    between = [f"{low} to {high}" for low, high in itertools.pairwise(texts)]
    return (f"below {texts[0]}", *between, f"{texts[-1]} and above")
