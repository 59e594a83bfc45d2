"""A small reliability diagram: mean confidence of a bin against the share of its rows that are right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from emsco_train.report.axes import Axis, format_coordinate
from emsco_train.runs.calibration_file import ReliabilityEntry

__all__ = ["reliability_diagram", "reliability_frame", "wilson_interval"]

_WIDTH, _HEIGHT = 240, 196
_LEFT, _RIGHT, _TOP, _BOTTOM = 38.0, 230.0, 12.0, 156.0
# Two-sided 95 %.
_NORMAL_95 = 1.959963984540054


def reliability_diagram(reliability: ReliabilityEntry, thresholds: Sequence[float], labels: int) -> str:
    """Return the picture: a dot per bin with its 95 % interval, the line of honest confidence, the thresholds."""
    x, y = _make_axes(labels)
    # One path for all bars and one for all dots, in whole pixels: a page holds many of these.
    bars, dots = "", ""
    for _, _, rows, right, confidence in reliability.bins:
        low, high = wilson_interval(right, rows)
        # The last bit of a probability may lie above 1.
        across = f"{x.position(min(max(confidence, x.ticks[0]), 1.0)):.0f}"
        bars += f"M{across} {y.position(low):.0f}V{y.position(high):.0f}"
        dots += f"M{across} {y.position(right / rows):.0f}h0"
    needed = "".join(_draw_thresholds(thresholds, x))
    return (
        f'<svg class="reliability" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Confidence and share of right rows">'
        f'<use href="#reliability"/>{needed}<path class="spread" d="{bars}"/><path class="dots" d="{dots}"/></svg>'
    )


def reliability_frame(labels: int) -> str:
    """Return what all these pictures share, to be drawn by reference: axes and the line of honest confidence."""
    frame = "".join(_draw_frame(*_make_axes(labels)))
    return f'<svg class="hidden" aria-hidden="true"><defs><g id="reliability">{frame}</g></defs></svg>'


def _make_axes(labels: int) -> tuple[Axis, Axis]:
    # The highest of the probabilities is never below 1 / labels.
    least = math.floor(10 / labels) / 10
    return Axis((least, 1.0), _LEFT, _RIGHT, 1), Axis((0.0, 1.0), _BOTTOM, _TOP, 1)


def wilson_interval(right: int, rows: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, by Wilson's score.

    Examples
    --------
    >>> [round(end, 3) for end in wilson_interval(8, 10)]
    [0.49, 0.943]
    """
    share, square = right / rows, _NORMAL_95**2
    centre = (share + square / (2 * rows)) / (1 + square / rows)
    half = _NORMAL_95 / (1 + square / rows) * math.sqrt(share * (1 - share) / rows + square / (4 * rows**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def _draw_frame(x: Axis, y: Axis) -> Iterator[str]:
    least = x.ticks[0]
    for level in (0.0, 0.5, 1.0):
        at = format_coordinate(y.position(level))
        yield f'<line class="grid" x1="{_LEFT:g}" x2="{_RIGHT:g}" y1="{at}" y2="{at}"/>'
        yield f'<text class="tick small end" x="{_LEFT - 6:g}" y="{at}" dy=".35em">{level:g}</text>'
    for number in (least, 1.0):
        across = format_coordinate(x.position(number))
        yield f'<text class="tick small middle" x="{across}" y="{_BOTTOM + 15:g}">{number:g}</text>'
    yield f'<text class="tick small middle" x="{(_LEFT + _RIGHT) / 2:g}" y="{_BOTTOM + 34:g}">confidence</text>'
    turn = f"{(_TOP + _BOTTOM) / 2:g}"
    yield f'<text class="tick small middle" transform="translate(9 {turn}) rotate(-90)">share right</text>'
    ends = (x.position(least), y.position(least), x.position(1.0), y.position(1.0))
    yield '<line class="honest" x1="{}" y1="{}" x2="{}" y2="{}"/>'.format(*map(format_coordinate, ends))


def _draw_thresholds(thresholds: Sequence[float], x: Axis) -> Iterator[str]:
    shown = sorted({number for number in thresholds if number > x.ticks[0]})
    for number in shown:
        at = format_coordinate(x.position(number))
        yield f'<line class="needed" x1="{at}" x2="{at}" y1="{_TOP:g}" y2="{_BOTTOM:g}"/>'
    # A number at one of them only: several would overlap.
    if shown and x.position(shown[-1]) < _RIGHT - 20:
        across = format_coordinate(x.position(shown[-1]))
        yield f'<text class="tick small middle" x="{across}" y="{_BOTTOM + 15:g}">{shown[-1]:g}</text>'
