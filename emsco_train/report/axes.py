"""Axes: round ticks, and the position of a number in a picture."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Axis", "format_coordinate", "round_step"]


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear axis whose ends are round numbers.

    Examples
    --------
    >>> axis = Axis.covering(0.702, 0.908, start=400.0, end=0.0, max_ticks=6)
    >>> axis.ticks, axis.position(0.8)
    ((0.7, 0.75, 0.8, 0.85, 0.9, 0.95), 240.0)
    """

    # Round numbers, evenly spaced; the first and the last are the ends.
    ticks: tuple[float, ...]
    # Where the ends are in the picture.
    start: float
    end: float
    # That the ticks need to be distinct.
    decimals: int

    @classmethod
    def covering(cls, low: float, high: float, *, start: float, end: float, max_ticks: int) -> Axis:
        """Make an axis that includes low and high, with about `max_ticks` ticks at most."""
        if high <= low:
            # One number alone: a little room around it.
            low, high = low - (abs(low) or 1.0) * 0.05, high + (abs(high) or 1.0) * 0.05
        step = round_step((high - low) / max_ticks)
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        return cls(tuple(round(number * step, decimals + 1) for number in range(first, last + 1)), start, end, decimals)

    def position(self, number: float) -> float:
        """Return where a number is."""
        low, high = self.ticks[0], self.ticks[-1]
        return round(self.start + (number - low) / (high - low) * (self.end - self.start), 1)


def round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, ... times a power of ten that is not below a number.

    Examples
    --------
    >>> round_step(0.03), round_step(7.0), round_step(2.0)
    (0.05, 10.0, 2.0)
    """
    exponent = math.floor(math.log10(least))
    # Read from text, so that a step is the number people write: 3 * 0.1 is not 0.3.
    steps = (float(f"{factor}e{exponent}") for factor in (1, 2, 5, 10))
    return next((step for step in steps if step >= least * (1 - 1e-9)), float(f"2e{exponent + 1}"))


def format_coordinate(number: float) -> str:
    """Return a coordinate as text, to a tenth of a pixel.

    Examples
    --------
    >>> format_coordinate(12.0), format_coordinate(3.14159)
    ('12', '3.1')
    """
    return f"{round(number, 1):g}" if abs(number) < 1e5 else f"{number:.0f}"
