"""Marks of the scatter: a shape for each threshold, a colour for each range of coverage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["COLOURS", "SHAPES", "CoverageColours", "shape_definitions", "shape_index"]

# Distinct without colour; of about the same area.
SHAPES = (
    "M5 0A5 5 0 1 1-5 0A5 5 0 1 1 5 0Z",
    "M-4.4-4.4H4.4V4.4H-4.4Z",
    "M0-5.8L5.6 4.2H-5.6Z",
    "M0-6.2L6.2 0L0 6.2L-6.2 0Z",
    "M0 5.8L5.6-4.2H-5.6Z",
    "M-1.9-5.6H1.9V-1.9H5.6V1.9H1.9V5.6H-1.9V1.9H-5.6V-1.9H-1.9Z",
)
# How many the style sheet has, from low to high coverage.
COLOURS = 6
_STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25)


def shape_index(level: int) -> int:
    """Return the shape of a threshold by its position; after the last shape they repeat."""
    return level % len(SHAPES)


def shape_definitions(levels: int) -> str:
    """Return the shapes in use, to be drawn by reference."""
    used = range(min(levels, len(SHAPES)))
    return "<defs>" + "".join(f'<path id="shape-{number}" d="{SHAPES[number]}"/>' for number in used) + "</defs>"


@dataclass(frozen=True, slots=True)
class CoverageColours:
    """Ranges of coverage with round ends, at most `COLOURS` of them.

    Examples
    --------
    >>> colours = CoverageColours.spanning([0.49, 0.63, 0.98])
    >>> colours.range_text(0), colours.range_text(colours.count - 1), colours.colour_of(0.63)
    ('40\N{EN DASH}50 %', '90\N{EN DASH}100 %', 2)
    """

    # Where the lowest range begins, in steps.
    first: int
    # Width of a range.
    step: float
    count: int

    @classmethod
    def spanning(cls, shares: Sequence[float]) -> CoverageColours:
        """Choose the narrowest ranges that hold all shares in few enough colours."""
        low, high = min(shares), max(shares)
        # The widest step makes four ranges, so that one step always fits.
        return next(made for made in (cls._with_step(step, low, high) for step in _STEPS) if made.count <= COLOURS)

    @classmethod
    def _with_step(cls, step: float, low: float, high: float) -> CoverageColours:
        first = math.floor(low / step + 1e-9)
        # A share on an end belongs to the range above; 1 has none above.
        last = min(math.floor(high / step + 1e-9), round(1 / step) - 1)
        return cls(min(first, last), step, last - min(first, last) + 1)

    def colour_of(self, share: float) -> int:
        """Return the colour of a share: 0 is the lowest."""
        return self.colour(min(math.floor(share / self.step + 1e-9) - self.first, self.count - 1))

    def colour(self, position: int) -> int:
        """Return the colour of a range; few ranges are spread over all colours."""
        return COLOURS - 1 if self.count == 1 else round(position * (COLOURS - 1) / (self.count - 1))

    def range_text(self, position: int) -> str:
        """Return a range as text."""
        low, high = (100 * self.step * (self.first + position + end) for end in (0, 1))
        return f"{low:.4g}\N{EN DASH}{high:.4g} %"
