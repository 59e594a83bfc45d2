"""The picture of all designs: mean cost against accuracy, coverage as colour, thresholds as shapes."""

from __future__ import annotations

from collections.abc import Iterator

from emsco_runtime.summary import counted
from emsco_train.report.axes import Axis, place
from emsco_train.report.content import Content, DesignContent
from emsco_train.report.marks import Shades, shape_definitions, shape_of
from emsco_train.report.markup import escaped
from emsco_train.report.wording import CostWords, accuracy_words, coverage_words, threshold_words

__all__ = ["legend", "scatter"]

_WIDTH, _HEIGHT = 820, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 800.0, 30.0, 428.0


def scatter(content: Content) -> str:
    """Return the picture."""
    x, y = _axes(content)
    shades = Shades.over([one.design.coverage for one in content.designs])
    # The fittest are drawn last, on top.
    points = "".join(_point(content, position, one, shades, x, y) for position, one in reversed(list(enumerate(content.designs))))
    best = content.designs[0].design
    up = _height(content.designs[0], y)
    ring = f'<circle id="ring" class="ring" r="10" cx="{place(x.at(best.cost))}" cy="{place(up)}"/>'
    name = "Designs by mean cost and accuracy on the validation rows"
    return (
        f'<svg id="scatter" class="scatter" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="group" aria-label="{name}">'
        f"{shape_definitions(len(content.run.thresholds))}{''.join(_frame(content, x, y))}"
        f"{''.join(_yardsticks(content, x, y))}{points}{ring}{_label(x.at(best.cost), up)}</svg>"
    )


def legend(content: Content) -> str:
    """Return what shapes and colours mean."""
    shades = Shades.over([one.design.coverage for one in content.designs])
    labels, thresholds = content.run.labels, content.run.thresholds
    shapes = "".join(
        f"<li>{_swatch(shape_of(position), 'plain')}{escaped(threshold_words(entry.thresholds, labels))}</li>"
        for position, entry in enumerate(thresholds)
    )
    colours = "".join(
        f"<li>{_swatch(None, f'c{shades.colour(position)}')}{shades.words(position)}</li>" for position in range(shades.count)
    )
    marks = f"<li>{_swatch(0, 'plain best')}fittest at its threshold</li><li>{_swatch(0, 'whole')}everything at once</li>"
    return (
        f'<div class="legend"><div><b>coverage</b><ul>{colours}</ul></div>'
        f"<div><b>threshold</b><ul>{shapes}</ul></div><div><b>marks</b><ul>{marks}</ul></div></div>"
    )


def _axes(content: Content) -> tuple[Axis, Axis]:
    whole = [entry.everything[0] for entry in content.run.thresholds]
    costs = [one.design.cost for one in content.designs] + [figures.cost for figures in whole]
    counted_on = [*(one.validation for one in content.designs), *whole]
    shares = [figures.right / figures.accepted for figures in counted_on if figures.accepted] or [0.0, 1.0]
    x = Axis.around(0.0, max(costs) * 1.02, start=_LEFT, end=_RIGHT, most=8)
    return x, Axis.around(min(shares), max(shares), start=_BOTTOM, end=_TOP, most=7)


def _frame(content: Content, x: Axis, y: Axis) -> Iterator[str]:
    """Give grid, ticks and names of the axes."""
    percents = max(0, y.decimals - 2)
    for tick in y.ticks:
        level = place(y.at(tick))
        yield f'<line class="grid" x1="{place(_LEFT)}" x2="{place(_RIGHT)}" y1="{level}" y2="{level}"/>'
        yield f'<text class="tick end" x="{place(_LEFT - 9)}" y="{level}" dy=".35em">{100 * tick:.{percents}f} %</text>'
    for tick in x.ticks:
        yield f'<text class="tick middle" x="{place(x.at(tick))}" y="{place(_BOTTOM + 19)}">{tick:,.{x.decimals}f}</text>'
        yield f'<line class="axis" x1="{place(x.at(tick))}" x2="{place(x.at(tick))}" y1="{_BOTTOM:g}" y2="{_BOTTOM + 5:g}"/>'
    yield f'<line class="axis" x1="{_LEFT:g}" x2="{_RIGHT:g}" y1="{_BOTTOM:g}" y2="{_BOTTOM:g}"/>'
    unit = escaped(content.front.unit)
    yield f'<text class="name middle" x="{(_LEFT + _RIGHT) / 2:g}" y="{_HEIGHT - 10}">mean cost per item, {unit}</text>'
    yield f'<text class="name" x="0" y="{_TOP - 15:g}">accuracy of accepted items</text>'


def _yardsticks(content: Content, x: Axis, y: Axis) -> Iterator[str]:
    """Give what acquiring everything at once does, at each threshold."""
    words = CostWords(content.front.full_cost, content.front.unit)
    across = place(x.at(content.front.full_cost))
    yield f'<line class="whole-line" x1="{across}" x2="{across}" y1="{_TOP:g}" y2="{_BOTTOM:g}"/>'
    yield f'<text class="note end" x="{place(x.at(content.front.full_cost))}" y="{_TOP - 15:g}">everything at once</text>'
    for position, entry in enumerate(content.run.thresholds):
        figures = entry.everything[0]
        if not figures.accepted:
            continue
        told = (
            f"everything at once, threshold {threshold_words(entry.thresholds, content.run.labels)}\n"
            f"accuracy {accuracy_words(figures)}, coverage {coverage_words(figures)}, cost {words.short(figures.cost)}"
        )
        at = f'x="{place(x.at(figures.cost))}" y="{place(y.at(figures.right / figures.accepted))}"'
        yield f'<g class="whole"><title>{escaped(told)}</title><use href="#shape-{shape_of(position)}" {at}/></g>'


def _point(content: Content, position: int, one: DesignContent, shades: Shades, x: Axis, y: Axis) -> str:
    design = one.design
    words = CostWords(content.front.full_cost, content.front.unit)
    told = (
        f"{design.id}, threshold {threshold_words(design.thresholds, content.run.labels)}\n"
        f"accuracy {accuracy_words(one.validation)}, coverage {coverage_words(one.validation)}\n"
        f"mean cost {words.of(design.cost)}, {counted(len(design.stages), 'stage')}"
    )
    best = " best" if one.is_fittest else ""
    at = f'x="{place(x.at(design.cost))}" y="{place(_height(one, y))}"'
    return (
        f'<a class="point c{shades.colour_of(design.coverage)}{best}" href="#design-{design.id}" tabindex="-1" '
        f'data-i="{position}"><title>{escaped(told)}</title><use href="#shape-{shape_of(one.level)}" {at}/></a>'
    )


def _height(one: DesignContent, y: Axis) -> float:
    """Return where a design is drawn: one that accepts nothing has no accuracy, and lies at the bottom."""
    return y.at(one.design.accuracy) if one.validation.accepted else y.start


def _label(across: float, up: float) -> str:
    """Return the word beside the fittest, on the side where there is room."""
    room = across < _RIGHT - 90
    side, anchor = (across + 14, "start") if room else (across - 14, "end")
    return f'<text class="note halo {anchor}" x="{place(side)}" y="{place(up)}" dy=".35em">fittest</text>'


def _swatch(shape: int | None, kind: str) -> str:
    drawn = '<rect x="-6" y="-6" width="12" height="12" rx="2"/>' if shape is None else f'<use href="#shape-{shape}"/>'
    return f'<svg class="swatch" viewBox="-8 -8 16 16" aria-hidden="true"><g class="{kind}">{drawn}</g></svg>'
