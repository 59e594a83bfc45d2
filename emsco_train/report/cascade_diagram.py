"""The picture of one design: stage under stage, what each acquires and adds, which rows leave there and which go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from emsco_runtime.bundle.summary import percent, pluralize
from emsco_train.report.axes import format_coordinate
from emsco_train.report.escaping import escape_html
from emsco_train.report.number_format import CostFormat
from emsco_train.report.report_data import StageData
from emsco_train.report.short_names import shorten_name, text_width

__all__ = ["draw_cascade", "wrap_names"]

_WIDTH = 760
_STAGE, _EXIT, _STAGE_GAP = 462, 246, 40
_LINE, _HEAD, _FOOT = 18, 44, 12
_MIN_HEIGHT = 84
_LINE_WIDTH = 57
# Of the price of a stage, right of its name.
_PRICE_CHARACTERS = 42
_EXIT_AT = _WIDTH - _EXIT


def draw_cascade(stages: Sequence[StageData], cost_format: CostFormat) -> str:
    """Return the picture of a design's stages."""
    rows = stages[0].calibration.reached.rows
    drawn: list[str] = []
    top = 1
    for stage in stages:
        lines = wrap_names(stage.features, _LINE_WIDTH)
        height = max(_MIN_HEIGHT, _HEAD + _LINE * len(lines) + _FOOT)
        drawn += _draw_stage(stage, lines, top, height, cost_format)
        drawn += _draw_accepted(stage, rows, top, height)
        top += height
        drawn += _draw_remaining(stage, rows, top, last=stage is stages[-1])
        top += _STAGE_GAP
    drawn += _draw_rejected(stages[-1], rows, top, cost_format)
    opened = f'<svg class="cascade" viewBox="0 0 {_WIDTH} {top + 41}" role="img" aria-label="Stages of the design">'
    return f"{opened}{''.join(drawn)}</svg>"


def _draw_stage(stage: StageData, lines: Sequence[str], top: int, height: int, cost_format: CostFormat) -> Iterator[str]:
    whole = all(text_width(name) <= _LINE_WIDTH for name in stage.features)
    yield "<g>" if whole else f"<g><title>{escape_html(', '.join(stage.features))}</title>"
    yield f'<rect class="box" x="1" y="{top}" width="{_STAGE}" height="{height}" rx="6"/>'
    yield f'<text class="head" x="17" y="{top + 27}">Stage {stage.number}</text>'
    yield f'<text class="soft" x="82" y="{top + 27}">{pluralize(len(stage.features), "feature")}</text>'
    costs = escape_html(_describe_price(stage, cost_format))
    yield f'<text class="price end" x="{_STAGE - 14}" y="{top + 27}">{costs}</text>'
    for number, line in enumerate(lines, start=1):
        yield f'<text class="code" x="17" y="{top + _HEAD - 7 + _LINE * number}">{escape_html(line)}</text>'
    yield "</g>"


def _describe_price(stage: StageData, cost_format: CostFormat) -> str:
    """Return what a stage adds, and what is paid by then; a unit that has no room is cut."""

    def describe(unit: str) -> str:
        short = replace(cost_format, unit=unit)
        so_far = f", {short.compact(stage.total_cost)} in all" if stage.number > 1 else ""
        return f"adds {short.compact(stage.added_cost)}{so_far}"

    room = _PRICE_CHARACTERS - text_width(describe(""))
    return describe(shorten_name(cost_format.unit, max(1, room // (2 if stage.number > 1 else 1))))


def _draw_accepted(stage: StageData, rows: int, top: int, height: int) -> Iterator[str]:
    """Yield the rows that leave with a label."""
    accepted = stage.calibration.accepted
    middle = top + height // 2
    yield _draw_arrow(f"M{_STAGE + 1} {middle}H{_EXIT_AT - 9}", f"M{_EXIT_AT - 10} {middle - 4}l8 4l-8 4Z")
    high = middle - 36
    yield f'<rect class="out" x="{_EXIT_AT}" y="{high}" width="{_EXIT - 1}" height="72" rx="6"/>'
    share = accepted.rows / rows * (_EXIT - 29)
    yield f'<rect class="track" x="{_EXIT_AT + 14}" y="{high + 60}" width="{_EXIT - 29}" height="4" rx="2"/>'
    if accepted.rows:
        width = format_coordinate(max(share, 2))
        yield f'<rect class="share" x="{_EXIT_AT + 14}" y="{high + 60}" width="{width}" height="4" rx="2"/>'
    shown = f"{percent(accepted.right, accepted.rows)} of them right" if accepted.rows else "none leaves here"
    yield f'<text class="head" x="{_EXIT_AT + 14}" y="{high + 24}">{percent(accepted.rows, rows)} accepted</text>'
    yield f'<text class="soft" x="{_EXIT_AT + 14}" y="{high + 45}">{pluralize(accepted.rows, "row")}, {shown}</text>'


def _draw_remaining(stage: StageData, rows: int, top: int, *, last: bool) -> Iterator[str]:
    """Yield the rows that go on to the next stage, or are left at the end."""
    left = stage.calibration.reached.rows - stage.calibration.accepted.rows
    yield _draw_arrow(f"M48 {top}V{top + _STAGE_GAP - 9}", f"M44 {top + _STAGE_GAP - 10}l4 8l4 -8Z")
    shown = f"{percent(left, rows)} {'are left' if last else 'go on'} ({pluralize(left, 'row')})"
    yield f'<text class="soft" x="66" y="{top + _STAGE_GAP // 2 + 4}">{shown}</text>'


def _draw_rejected(stage: StageData, rows: int, top: int, cost_format: CostFormat) -> Iterator[str]:
    left = stage.calibration.reached.rows - stage.calibration.accepted.rows
    yield f'<rect class="reject" x="1" y="{top}" width="{_STAGE}" height="40" rx="6"/>'
    yield f'<text class="head" x="17" y="{top + 25}">{percent(left, rows)} rejected</text>'
    # Without a unit first, to see how much room it has.
    paid = f"no label, after paying {replace(cost_format, unit='').compact(stage.total_cost)}"
    unit = shorten_name(cost_format.unit, _PRICE_CHARACTERS - text_width(paid))
    yield f'<text class="soft end" x="{_STAGE - 14}" y="{top + 25}">{escape_html(paid + unit)}</text>'


def _draw_arrow(shaft: str, head: str) -> str:
    return f'<path class="flow" d="{shaft}"/><path class="tip" d="{head}"/>'


def wrap_names(names: Sequence[str], max_width: int) -> list[str]:
    """Return names on lines of at most `max_width` characters, with dots between; a name longer than a line is cut.

    Examples
    --------
    >>> wrap_names(["age", "weight", "height"], 12)
    ['age · weight', 'height']
    >>> wrap_names(["a very long name"], 8)
    ['a very \N{HORIZONTAL ELLIPSIS}']
    """
    lines: list[str] = []
    room = 0
    for name in names:
        cut = shorten_name(name, max_width)
        width = text_width(cut)
        if width + 3 <= room:
            lines[-1] += f" · {cut}"
            room -= width + 3
        else:
            lines.append(cut)
            room = max_width - width
    return lines
