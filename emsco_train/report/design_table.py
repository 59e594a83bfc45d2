"""The table of all designs; the page's script sorts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emsco_train.designs.design import format_names, format_stages
from emsco_train.report.escaping import escape_html
from emsco_train.report.markers import shape_index
from emsco_train.report.number_format import CostFormat, format_accuracy, format_coverage, format_threshold
from emsco_train.report.report_data import DesignData, ReportData
from emsco_train.runs.run_file import CountsEntry

__all__ = ["design_table"]


@dataclass(frozen=True, slots=True)
class _Column:
    """A column: its name, the column of the embedded data that sorts it, and whether it holds numbers."""

    name: str
    key: str
    figures: bool = True


_MAX_SHOWN = 4
# Of all stages in the table together: a page of a thousand wide designs must stay one that a browser opens at once.
_MAX_STAGE_CHARACTERS = 600_000
_FIRST_COLUMNS = (_Column("design", "id", figures=False), _Column("threshold", "threshold", figures=False))
_FIGURES = ("accuracy", "coverage", "cost")
_LAST_COLUMNS = (
    _Column("fitness", "fitness"),
    _Column("ties", "ties"),
    _Column("misleading", "warnings"),
    _Column("stages", "stages", figures=False),
)
_EXCLUDED_COLUMN = _Column("left out", "excluded", figures=False)


def design_table(data: ReportData) -> str:
    """Return the table."""
    costs_format = CostFormat(data.front.full_cost, data.front.unit)
    splits = ["validation", *(["test"] if data.has_test_rows else [])]
    # A column that is empty for all designs would only take room.
    last = (
        (*_LAST_COLUMNS, _EXCLUDED_COLUMN) if any(design_data.design.excluded for design_data in data.designs) else _LAST_COLUMNS
    )
    body = "".join(
        _row(data, place, design_data, costs_format, show_excluded=len(last) > len(_LAST_COLUMNS))
        for place, design_data in enumerate(data.designs)
    )
    return (
        '<div class="tall" tabindex="0" role="region" aria-label="All designs"><table id="designs" class="designs"><thead>'
        f"{_group_header(splits, last)}<tr>{''.join(map(_column_header, _columns(splits, last)))}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _columns(splits: Sequence[str], last: Sequence[_Column]) -> list[_Column]:
    own = [_Column(name if name == "cost" else f"{name}, %", f"{split}_{name}") for split in splits for name in _FIGURES]
    return [*_FIRST_COLUMNS, *own, *last]


def _group_header(splits: Sequence[str], last: Sequence[_Column]) -> str:
    named = "".join(f'<th colspan="{len(_FIGURES)}" scope="colgroup">{split}</th>' for split in splits)
    return f'<tr class="groups"><td colspan="{len(_FIRST_COLUMNS)}"></td>{named}<td colspan="{len(last)}"></td></tr>'


def _column_header(column: _Column) -> str:
    kind = ' class="number"' if column.figures else ""
    # Fittest first is how the table comes.
    order = ' aria-sort="descending"' if column.key == "fitness" else ""
    return f'<th scope="col"{kind}{order} data-key="{column.key}">{column.name}</th>'


def _row(data: ReportData, place: int, design_data: DesignData, costs_format: CostFormat, *, show_excluded: bool) -> str:
    design = design_data.design
    threshold = escape_html(format_threshold(design.thresholds, data.run.labels))
    figures = [design_data.validation, *([] if design_data.test is None else [design_data.test])]
    numbers = [text for own in figures for text in _count_cells(own, costs_format)]
    warned = str(len(design_data.warnings)) if design_data.warnings else ""
    numbers += [f"{design.fitness:.4f}", f"{design.ties:,}", warned]
    texts = [
        _truncate(format_stages(design.stages), _MAX_STAGE_CHARACTERS // len(data.designs)),
        *([_shorten_names(design.excluded)] if show_excluded else []),
    ]
    return (
        f'<tr id="design-{design.id}"><td><a href="#design-{design.id}" data-i="{place}">{design.id}</a></td>'
        f'<td class="shape-{shape_index(design_data.threshold_index)}">{threshold}</td>'
        f"{''.join(f'<td>{text}</td>' for text in numbers)}"
        f"{''.join(map(_text_cell, texts))}</tr>"
    )


def _truncate(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}\N{HORIZONTAL ELLIPSIS}"


def _text_cell(text: str) -> str:
    return f'<td class="words"><div>{escape_html(text)}</div></td>'


def _shorten_names(names: Sequence[str]) -> str:
    """Return the names, or as many as a glance takes in: those left out are those that no stage has."""
    if len(names) <= _MAX_SHOWN:
        return format_names(names)
    return f"{format_names(names[:_MAX_SHOWN])}+\N{HORIZONTAL ELLIPSIS} ({len(names)})"


def _count_cells(figures: CountsEntry, costs_format: CostFormat) -> list[str]:
    shares = (format_accuracy(figures), format_coverage(figures))
    return [*(text.removesuffix(" %") for text in shares), escape_html(costs_format.without_unit(figures.cost))]
