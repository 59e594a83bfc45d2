"""The pictures of curves: what the values of each feature add to the log-odds of a label, and how many rows have them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from emsco_runtime.bundle.summary import percent, pluralize
from emsco_runtime.decision import Label
from emsco_train.report.axes import Axis, format_coordinate
from emsco_train.report.curve_cells import Cell, CurveCells, format_knots
from emsco_train.report.escaping import escape_html
from emsco_train.report.report_data import ReportData
from emsco_train.report.short_names import shorten_name, text_width
from emsco_train.runs.curves_file import CURVES_NAME, CurvesFile

__all__ = ["curves_section"]

_WIDTH, _HEIGHT = 280, 166
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 262.0, 8.0, 130.0
# A gap has a column of its own at the right; then the cells end before it.
_CELLS_RIGHT, _GAP_LEFT = 232.0, 246.0
_GAP_MIDDLE = (_GAP_LEFT + _RIGHT) / 2
# Ends of the axis, at least: features that change little should look so.
_MIN_LOG_ODDS = 1.0
# Of the largest bar.
_BAR_HEIGHT = 60.0
_CHARACTER = 6.2
_LINE = 11.0
# Of names that are written upwards, and what they add to the height of a picture.
_UPWARDS_CHARACTERS, _UPWARDS_HEIGHT = 11, 56
_MIN_LEVEL_WIDTH = 60.0
# Of names in the words for each cell, of which a page holds thousands.
_TITLE_CHARACTERS = 40
# As many as the style sheet has colours.
_MAX_LABELS = 8
_FIRST_SHOWN = 24
# A page of a thousand features must stay one that a browser opens at once.
_MAX_SHOWN = 200


def curves_section(data: ReportData) -> str:
    """Return the section of the page, with the most influential features first; empty for a run with straight stages."""
    curves = data.curves
    if curves is None:
        return ""
    features = sorted(map(CurveCells.of, curves.features), key=lambda feature: -feature.largest_influence)
    shown = features[:_MAX_SHOWN]
    outputs = _Outputs(_choose_outputs(curves, features), curves.outputs)
    figures = [_figure(outputs, feature) for feature in shown]
    more = ""
    if len(figures) > _FIRST_SHOWN:
        rest = "".join(figures[_FIRST_SHOWN:])
        named = pluralize(len(figures) - _FIRST_SHOWN, "feature")
        more = f'<details><summary>{named} of less influence</summary><div class="curves">{rest}</div></details>'
    hidden = len(features) - len(shown)
    left = f'<p class="hint">{pluralize(hidden, "feature")} of still less influence: see {CURVES_NAME}.</p>' if hidden else ""
    return (
        '<section aria-labelledby="curves-title">'
        f'<h2 id="curves-title">Curves <span class="count">{len(features):,}</span></h2>'
        f"{_explanation(data, curves)}{_legend(outputs)}"
        f'<div class="curves">{"".join(figures[:_FIRST_SHOWN])}</div>{more}{left}</section>'
    )


@dataclass(frozen=True, slots=True)
class _Outputs:
    """The labels that curves speak for, and which of them are drawn, by position."""

    drawn: tuple[int, ...]
    labels: tuple[Label, ...]

    def describe(self, cell: Cell) -> str:
        """Return what a cell adds, in words."""
        names = [shorten_name(str(self.labels[output]), _TITLE_CHARACTERS) for output in self.drawn]
        return ", ".join(f"{name} {cell.log_odds[output]:+.2f}" for name, output in zip(names, self.drawn, strict=True))


def _level_axis(feature: CurveCells, drawn: Sequence[int]) -> Axis:
    """Return the axis of a feature's log-odds, with 0 in its middle."""
    largest = max(abs(cell.log_odds[output]) for cell in feature.shown_with_gap for output in drawn)
    return Axis.covering(-max(largest, _MIN_LOG_ODDS), max(largest, _MIN_LOG_ODDS), start=_BOTTOM, end=_TOP, max_ticks=4)


def _choose_outputs(curves: CurvesFile, features: Sequence[CurveCells]) -> tuple[int, ...]:
    """Return the outputs to draw: all, or those of several labels that features have most influence on."""
    by_influence = sorted(
        range(len(curves.outputs)), key=lambda output: -max((one.influence(output) for one in features), default=0.0)
    )
    return tuple(sorted(by_influence[:_MAX_LABELS]))


def _explanation(data: ReportData, curves: CurvesFile) -> str:
    if len(curves.outputs) == 1:
        first, second = (f"<strong>{escape_html(label)}</strong>" for label in data.run.labels)
        meaning = f"adds to the log-odds of {second}: above the middle it speaks for {second}, below for {first}"
    else:
        meaning = (
            "adds to the log-odds of each label against all others: above the middle it speaks for the label, below against it"
        )
    return (
        f'<p class="hint">What each value of a feature {meaning}. The middle is the mean of the train rows; 0.7 more doubles the '
        "odds. Grey bars: how many train rows have such values. A dot at the right (gap): missing values. Influence: the largest "
        "minus the smallest. Curves are learned for all features together, and each stage weighs those of its features.</p>"
    )


def _legend(outputs: _Outputs) -> str:
    if len(outputs.labels) == 1:
        return ""
    items = "".join(
        f'<li><svg class="swatch" viewBox="-8 -8 16 16" aria-hidden="true"><path class="step k{place}" d="M-8 0H8"/></svg>'
        f"{escape_html(outputs.labels[output])}</li>"
        for place, output in enumerate(outputs.drawn)
    )
    hidden = len(outputs.labels) - len(outputs.drawn)
    more = f"<div>{pluralize(hidden, 'label')} of less influence: see {CURVES_NAME}</div>" if hidden else ""
    return f'<div class="legend"><div><b>label</b><ul>{items}</ul></div>{more}</div>'


def _figure(outputs: _Outputs, feature: CurveCells) -> str:
    name, influence = escape_html(feature.entry.name), f"influence&nbsp;{feature.largest_influence:.2f}"
    shown, total = len(feature.shown), len(feature.cells)
    cut = f", the {shown} most frequent of {total:,} categories" if shown < total else ""
    return f"<figure><figcaption><code>{name}</code> <span>{influence}{cut}</span></figcaption>{_draw(outputs, feature)}</figure>"


def _draw(outputs: _Outputs, feature: CurveCells) -> str:
    right = _RIGHT if feature.gap is None else _CELLS_RIGHT
    edges = [_LEFT + (right - _LEFT) * place / len(feature.shown) for place in range(len(feature.shown) + 1)]
    spans = list(itertools.pairwise(edges)) + ([] if feature.gap is None else [(_GAP_LEFT, _RIGHT)])
    y = _level_axis(feature, outputs.drawn)
    ticks, below = _draw_ticks(feature, edges)
    drawn = [
        *_draw_frame(y),
        _draw_bars(feature, spans),
        *_draw_levels(outputs.drawn, feature, edges, y),
        *ticks,
        *_draw_titles(outputs, feature, spans),
    ]
    label = escape_html(_describe(outputs, feature))
    return f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT + below}" role="img" aria-label="{label}">{"".join(drawn)}</svg>'


def _describe(outputs: _Outputs, feature: CurveCells) -> str:
    """Return the numbers that matter, for those who cannot see the picture."""
    parts = []
    for output in outputs.drawn:
        least, most = feature.extremes(output)
        ends = [f"{cell.log_odds[output]:+.2f} ({cell.text})" for cell in (least, most)]
        parts.append(f"log-odds of {outputs.labels[output]} from {ends[0]} to {ends[1]}")
    if feature.gap is not None:
        parts.append(f"missing values, {percent(feature.gap.rows, feature.rows)} of the rows: {outputs.describe(feature.gap)}")
    return f"{feature.entry.name}: {'; '.join(parts)}"


def _draw_frame(y: Axis) -> Iterator[str]:
    for tick in y.ticks:
        height, kind = format_coordinate(y.position(tick)), "axis" if tick == 0 else "grid"
        yield f'<line class="{kind}" x1="{_LEFT:g}" x2="{_RIGHT:g}" y1="{height}" y2="{height}"/>'
        text = f"{tick:+.{y.decimals}f}" if tick else "0"
        yield f'<text class="tick small end" x="{_LEFT - 6:g}" y="{height}" dy=".35em">{text}</text>'


def _draw_bars(feature: CurveCells, spans: Sequence[tuple[float, float]]) -> str:
    """Return the share of rows of each cell, as one path."""
    largest = max(cell.rows for cell in feature.shown_with_gap) or 1
    bars = ""
    for cell, (left, right) in zip(feature.shown_with_gap, spans, strict=True):
        # Few rows are still some.
        height = format_coordinate(max(_BAR_HEIGHT * cell.rows / largest, 1.0 if cell.rows else 0.0))
        bars += f"M{format_coordinate(left)} {_BOTTOM:g}v-{height}H{format_coordinate(right)}v{height}Z"
    return f'<path class="rows" d="{bars}"/>'


def _draw_levels(drawn: Sequence[int], feature: CurveCells, edges: Sequence[float], y: Axis) -> Iterator[str]:
    """Yield a line for each output: steps over the cells of a number, and for categories, which have no order, dashes."""
    for place, output in enumerate(drawn):
        path = ""
        for number, cell in enumerate(feature.shown):
            height = format_coordinate(y.position(cell.log_odds[output]))
            moves = not number or feature.entry.knots is None
            path += f"M{format_coordinate(edges[number])} {height}" if moves else f"V{height}"
            path += f"H{format_coordinate(edges[number + 1])}"
        yield f'<path class="step k{place}" d="{path}"/>'
        if feature.gap is not None:
            height = format_coordinate(y.position(feature.gap.log_odds[output]))
            yield f'<path class="gap k{place}" d="M{_GAP_MIDDLE:g} {height}h0"/>'


def _draw_ticks(feature: CurveCells, edges: Sequence[float]) -> tuple[list[str], int]:
    """Return the names under the cells, and the height that they add to the picture."""
    entry, added = feature.entry, 0
    if entry.knots is not None and entry.kind == "numeric":
        places = sorted({0, len(entry.knots) // 2, len(entry.knots) - 1}) if entry.knots else []
        texts = format_knots([entry.knots[place] for place in places], digits=3)
        # At the knot, but not beyond the last cell, where a gap may be.
        drawn = [
            _text(min(edges[place + 1], edges[-1] - text_width(text) * _CHARACTER / 2), 15, text)
            for place, text in zip(places, texts, strict=True)
        ]
    else:
        drawn, added = _draw_names([cell.text for cell in feature.shown], edges)
    if feature.gap is not None:
        share = f"{100 * feature.gap.rows / feature.rows:.2g} %"
        drawn += [_text(_GAP_MIDDLE, 15, "gap"), _text(_GAP_MIDDLE, 29, share)]
    return drawn, added


def _draw_names(names: Sequence[str], edges: Sequence[float]) -> tuple[list[str], int]:
    """Return the names of cells, upwards where they are too long for the width of a cell."""
    width = edges[1] - edges[0]
    middles = [left + width / 2 for left in edges[:-1]]
    room = int(width / _CHARACTER)
    if width >= _MIN_LEVEL_WIDTH or all(text_width(name) <= room for name in names):
        return [_text(middle, 15, shorten_name(name, room)) for middle, name in zip(middles, names, strict=True)], 0
    # So that lines do not overlap.
    step = math.ceil(_LINE / width)
    drawn = [
        f'<text class="tick small end" transform="translate({format_coordinate(middle + 4)} {_BOTTOM + 6:g}) rotate(-90)">'
        f"{escape_html(shorten_name(name, _UPWARDS_CHARACTERS))}</text>"
        for middle, name in list(zip(middles, names, strict=True))[::step]
    ]
    return drawn, _UPWARDS_HEIGHT


def _text(x: float, below: int, text: str) -> str:
    return f'<text class="tick small middle" x="{format_coordinate(x)}" y="{_BOTTOM + below:g}">{escape_html(text)}</text>'


def _draw_titles(outputs: _Outputs, feature: CurveCells, spans: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Yield an invisible area over each cell that says what is drawn there."""
    for cell, (left, right) in zip(feature.shown_with_gap, spans, strict=True):
        name, share = shorten_name(cell.text, _TITLE_CHARACTERS), percent(cell.rows, feature.rows)
        text = f"{name}: {share} of the rows\n{outputs.describe(cell)}"
        area = f"M{format_coordinate(left)} {_TOP:g}V{_BOTTOM:g}H{format_coordinate(right)}V{_TOP:g}Z"
        yield f'<path class="cell" d="{area}"><title>{escape_html(text)}</title></path>'
