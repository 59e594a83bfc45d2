"""The table of all designs; the page's script sorts it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from emsco_runtime.bundle.summary import percent_at_least
from emsco_train.designs.design import format_names
from emsco_train.designs.sure_level import DEFAULT_SURE
from emsco_train.report.escaping import escape_html
from emsco_train.report.markers import shape_index
from emsco_train.report.number_format import format_accuracy, format_coverage
from emsco_train.report.report_data import DesignData, ReportData
from emsco_train.runs.run_file import CountsEntry

__all__ = ["design_table"]


class _Column(NamedTuple):
    """A column: its name, the column of the embedded data that sorts it, and whether it holds numbers."""

    name: str
    key: str
    numbers: bool = True


_MAX_SHOWN = 4
# Of all stages in the table together: a page of a thousand wide designs must stay one that a browser opens at once.
_MAX_STAGE_CHARACTERS = 600_000
_FIRST_COLUMNS = (_Column("design", "id", numbers=False), _Column("threshold", "threshold", numbers=False))
_FIGURES = ("accuracy", "coverage", "cost")
_LAST_COLUMNS = (
    _Column("lowest recall, %", "recall"),
    _Column("fitness", "fitness"),
    _Column("ties", "ties"),
    _Column("misleading", "warnings"),
    _Column("stages", "stages", numbers=False),
)
_EXCLUDED_COLUMN = _Column("left out", "excluded", numbers=False)


def design_table(data: ReportData) -> str:
    """Return the table."""
    splits = [counts.split for counts in data.designs[0].counts]
    # A column that is empty for all designs would only take room.
    show_excluded = any(design_data.design.excluded for design_data in data.designs)
    last = (*_LAST_COLUMNS, _EXCLUDED_COLUMN) if show_excluded else _LAST_COLUMNS
    # Bounds stand next to the figures that they belong to, which come first. Whatever the rows that measured designs are called,
    # their figures have one name in the embedded data.
    blocks = {"validation": splits[0], "bound": f"bounds at level {DEFAULT_SURE:g}"} | {split: split for split in splits[1:]}
    own = [_Column(name if name == "cost" else f"{name}, %", f"{block}_{name}") for block in blocks for name in _FIGURES]
    groups = "".join(f'<th colspan="{len(_FIGURES)}" scope="colgroup">{title}</th>' for title in blocks.values())
    header = "".join(map(_column_header, [*_FIRST_COLUMNS, *own, *last]))
    body = "".join(_row(data, place, design_data, show_excluded=show_excluded) for place, design_data in enumerate(data.designs))
    return (
        '<div class="tall" tabindex="0" role="region" aria-label="All designs"><table id="designs" class="designs"><thead>'
        f'<tr class="groups"><td colspan="{len(_FIRST_COLUMNS)}"></td>{groups}<td colspan="{len(last)}"></td></tr>'
        f"<tr>{header}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _column_header(column: _Column) -> str:
    kind = ' class="number"' if column.numbers else ""
    # The table is written fittest first.
    order = ' aria-sort="descending"' if column.key == "fitness" else ""
    return f'<th scope="col"{kind}{order} data-key="{column.key}">{column.name}</th>'


def _row(data: ReportData, place: int, design_data: DesignData, *, show_excluded: bool) -> str:
    design, max_characters = design_data.design, _MAX_STAGE_CHARACTERS // len(data.designs)
    threshold = escape_html(data.format_threshold(design.thresholds))
    stages = design.stage_text
    if len(stages) > max_characters:
        stages = f"{stages[: max_characters - 1]}\N{HORIZONTAL ELLIPSIS}"
    texts = [stages, *([_shorten_names(design.excluded)] if show_excluded else [])]
    words = "".join(f'<td class="words"><div>{escape_html(text)}</div></td>' for text in texts)
    return (
        f'<tr id="design-{design.id}"><td><a href="#design-{design.id}" data-i="{place}">{design.id}</a></td>'
        f'<td class="shape-{shape_index(design_data.threshold_index)}">{threshold}</td>'
        f"{''.join(f'<td>{text}</td>' for text in _number_cells(data, design_data))}{words}</tr>"
    )


def _number_cells(data: ReportData, design_data: DesignData) -> Iterator[str]:
    yield from _figure_cells(data, design_data.validation)
    bounds = design_data.design.bounds(DEFAULT_SURE)
    yield percent_at_least(bounds.accuracy).removesuffix(" %")
    yield percent_at_least(bounds.coverage).removesuffix(" %")
    yield escape_html(data.cost_format.without_unit(bounds.cost))
    if design_data.test is not None:
        yield from _figure_cells(data, design_data.test)
    yield f"{100 * design_data.lowest_recall:.2f}" if design_data.labels else ""
    yield f"{design_data.design.fitness:.4f}"
    yield f"{design_data.design.ties:,}"
    yield str(len(design_data.warnings) or "")


def _figure_cells(data: ReportData, counts: CountsEntry) -> Iterator[str]:
    yield format_accuracy(counts).removesuffix(" %")
    yield format_coverage(counts).removesuffix(" %")
    yield escape_html(data.cost_format.without_unit(counts.cost))


def _shorten_names(names: Sequence[str]) -> str:
    """Return the names, or the first few of them: a reader can see the others missing from the stages."""
    if len(names) <= _MAX_SHOWN:
        return format_names(names)
    return f"{format_names(names[:_MAX_SHOWN])}+\N{HORIZONTAL ELLIPSIS} ({len(names)})"
