"""The picture of all designs: mean cost against accuracy, coverage as colour, thresholds as shapes."""

from __future__ import annotations

from collections.abc import Iterator

from emsco_runtime.bundle.summary import pluralize
from emsco_train.report.axes import Axis, format_coordinate
from emsco_train.report.escaping import escape_html
from emsco_train.report.markers import CoverageColours, shape_definitions, shape_index
from emsco_train.report.number_format import format_accuracy, format_coverage
from emsco_train.report.report_data import DesignData, ReportData
from emsco_train.report.short_names import shorten_name

__all__ = ["draw_legend", "draw_scatter"]

_WIDTH, _HEIGHT = 820, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 800.0, 30.0, 428.0
_ROOM = 0.05
_CHARACTER = 7.0
_UNIT_CHARACTERS = 80


def draw_scatter(data: ReportData) -> str:
    """Return the picture."""
    x, y = _make_axes(data)
    colours = data.colours
    # The fittest are drawn last, on top.
    points = "".join(
        _draw_point(data, position, design_data, colours, x, y)
        for position, design_data in reversed(list(enumerate(data.designs)))
    )
    best = data.knee.design
    up = _y_position(data.knee, y)
    ring = f'<circle id="ring" class="ring" r="10" cx="{format_coordinate(x.position(best.cost))}" cy="{format_coordinate(up)}"/>'
    name = f"Designs by mean cost and accuracy{', cross-fitted' if data.is_cross_fitted else ' on the validation rows'}"
    return (
        f'<svg id="scatter" class="scatter" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="group" aria-label="{name}">'
        f"{shape_definitions(len(data.run.thresholds))}{''.join(_draw_frame(data, x, y))}"
        f"{''.join(_draw_baselines(data, x, y))}{points}{ring}{_knee_label(x.position(best.cost), up)}</svg>"
    )


def draw_legend(data: ReportData) -> str:
    """Return what shapes and colours mean."""
    colours = data.colours
    shapes = "".join(
        f"<li>{_draw_swatch(shape_index(position), 'plain')}{escape_html(data.format_threshold(entry.thresholds))}</li>"
        for position, entry in enumerate(data.run.thresholds)
    )
    swatches = "".join(
        f"<li>{_draw_swatch(None, f'c{colours.colour(position)}')}{colours.range_text(position)}</li>"
        for position in range(colours.count)
    )
    marks = (
        f"<li>{_draw_swatch(0, 'plain best')}fittest at its threshold</li><li>{_draw_swatch(0, 'whole')}all features at once</li>"
    )
    return (
        f'<div class="legend"><div><b>coverage</b><ul>{swatches}</ul></div>'
        f"<div><b>threshold</b><ul>{shapes}</ul></div><div><b>marks</b><ul>{marks}</ul></div></div>"
    )


def _make_axes(data: ReportData) -> tuple[Axis, Axis]:
    baselines = [entry.everything[0] for entry in data.run.thresholds]
    costs = [design_data.design.cost for design_data in data.designs] + [counts.cost for counts in baselines]
    counted = [*(design_data.validation for design_data in data.designs), *baselines]
    shares = [counts.right / counts.accepted for counts in counted if counts.accepted] or [0.0, 1.0]
    low, high = min(shares), max(shares)
    if low == high:
        # Some room around one share alone, but none beyond 100 %.
        low, high = max(low - _ROOM, 0.0), min(high + _ROOM, 1.0)
    x = Axis.covering(0.0, max(costs) * 1.02, start=_LEFT, end=_RIGHT, max_ticks=8)
    return x, Axis.covering(low, high, start=_BOTTOM, end=_TOP, max_ticks=7)


def _draw_frame(data: ReportData, x: Axis, y: Axis) -> Iterator[str]:
    """Yield grid, ticks and names of the axes."""
    percents = max(0, y.decimals - 2)
    for tick in y.ticks:
        height = format_coordinate(y.position(tick))
        yield f'<line class="grid" x1="{format_coordinate(_LEFT)}" x2="{format_coordinate(_RIGHT)}" y1="{height}" y2="{height}"/>'
        percent = f"{100 * tick:.{percents}f} %"
        yield f'<text class="tick end" x="{format_coordinate(_LEFT - 9)}" y="{height}" dy=".35em">{percent}</text>'
    for tick in x.ticks:
        across = format_coordinate(x.position(tick))
        number = f"{tick:,.{x.decimals}f}"
        # Under its tick, but not beyond the edge of the picture, where a long number at the end would be cut off.
        middle = format_coordinate(min(x.position(tick), _WIDTH - len(number) * _CHARACTER / 2))
        yield f'<text class="tick middle" x="{middle}" y="{format_coordinate(_BOTTOM + 19)}">{number}</text>'
        yield f'<line class="axis" x1="{across}" x2="{across}" y1="{_BOTTOM:g}" y2="{_BOTTOM + 5:g}"/>'
    yield f'<line class="axis" x1="{_LEFT:g}" x2="{_RIGHT:g}" y1="{_BOTTOM:g}" y2="{_BOTTOM:g}"/>'
    unit = escape_html(shorten_name(data.front.unit, _UNIT_CHARACTERS))
    yield f'<text class="name middle" x="{(_LEFT + _RIGHT) / 2:g}" y="{_HEIGHT - 10}">mean cost per item, {unit}</text>'
    yield f'<text class="name" x="0" y="{_TOP - 15:g}">accuracy of accepted items</text>'


def _draw_baselines(data: ReportData, x: Axis, y: Axis) -> Iterator[str]:
    """Yield the baselines: acquiring all features at once, at each threshold."""
    across = format_coordinate(x.position(data.front.full_cost))
    yield f'<line class="whole-line" x1="{across}" x2="{across}" y1="{_TOP:g}" y2="{_BOTTOM:g}"/>'
    yield f'<text class="note end" x="{across}" y="{_TOP - 15:g}">all features at once</text>'
    for position, entry in enumerate(data.run.thresholds):
        counts = entry.everything[0]
        if not counts.accepted:
            continue
        shown = (
            f"all features at once, threshold {data.format_threshold(entry.thresholds)}\n"
            f"accuracy {format_accuracy(counts)}, coverage {format_coverage(counts)}, "
            f"cost {data.cost_format.compact(counts.cost)}"
        )
        height = y.position(counts.right / counts.accepted)
        at = f'x="{format_coordinate(x.position(counts.cost))}" y="{format_coordinate(height)}"'
        yield f'<g class="whole"><title>{escape_html(shown)}</title><use href="#shape-{shape_index(position)}" {at}/></g>'


def _draw_point(data: ReportData, position: int, design_data: DesignData, colours: CoverageColours, x: Axis, y: Axis) -> str:
    design = design_data.design
    shown = (
        f"{design.id}, threshold {data.format_threshold(design.thresholds)}\n"
        f"accuracy {format_accuracy(design_data.validation)}, coverage {format_coverage(design_data.validation)}\n"
        f"mean cost {data.cost_format.with_unit(design.cost)}, {pluralize(len(design.stages), 'stage')}"
    )
    best = " best" if design_data.is_fittest else ""
    at = f'x="{format_coordinate(x.position(design.cost))}" y="{format_coordinate(_y_position(design_data, y))}"'
    return (
        f'<a class="point c{colours.colour_of(design.coverage)}{best}" href="#design-{design.id}" tabindex="-1" '
        f'data-i="{position}"><title>{escape_html(shown)}</title>'
        f'<use href="#shape-{shape_index(design_data.threshold_index)}" {at}/></a>'
    )


def _y_position(design_data: DesignData, y: Axis) -> float:
    """Return where a design is drawn: one that accepts nothing has no accuracy, and is at the bottom."""
    return y.position(design_data.design.accuracy) if design_data.validation.accepted else y.start


def _knee_label(across: float, up: float) -> str:
    """Return the label of the knee, on the side where there is room."""
    room = across < _RIGHT - 90
    side, anchor = (across + 14, "start") if room else (across - 14, "end")
    return f'<text class="note halo {anchor}" x="{format_coordinate(side)}" y="{format_coordinate(up)}" dy=".35em">knee</text>'


def _draw_swatch(shape: int | None, kind: str) -> str:
    drawn = '<rect x="-6" y="-6" width="12" height="12" rx="2"/>' if shape is None else f'<use href="#shape-{shape}"/>'
    return f'<svg class="swatch" viewBox="-8 -8 16 16" aria-hidden="true"><g class="{kind}">{drawn}</g></svg>'
