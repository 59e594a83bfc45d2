"""The table of all designs; the page's script sorts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emsco_train.designs.design import write_names, write_stages
from emsco_train.report.content import Content, DesignContent
from emsco_train.report.marks import shape_of
from emsco_train.report.markup import escaped
from emsco_train.report.wording import CostWords, accuracy_words, coverage_words, threshold_words
from emsco_train.runs.run_file import FiguresEntry

__all__ = ["design_table"]


@dataclass(frozen=True, slots=True)
class _Column:
    """A column: its name, the column of the embedded data that sorts it, and whether it holds numbers."""

    name: str
    key: str
    figures: bool = True


_SHOWN = 4
# Of all stages in the table together: a page of a thousand wide designs must stay one that a browser opens at once.
_LETTERS = 600_000
_FIRST = (_Column("design", "id", figures=False), _Column("threshold", "threshold", figures=False))
_FIGURES = ("accuracy", "coverage", "cost")
_LAST = (
    _Column("fitness", "fitness"),
    _Column("ties", "ties"),
    _Column("misleading", "warnings"),
    _Column("stages", "stages", figures=False),
)
_EXCLUDED = _Column("left out", "excluded", figures=False)


def design_table(content: Content) -> str:
    """Return the table."""
    words = CostWords(content.front.full_cost, content.front.unit)
    splits = ["validation", *(["test"] if content.tested else [])]
    # A column that is empty for all designs would only take room.
    last = (*_LAST, _EXCLUDED) if any(one.design.excluded for one in content.designs) else _LAST
    body = "".join(_row(content, place, one, words, left_out=len(last) > len(_LAST)) for place, one in enumerate(content.designs))
    return (
        '<div class="tall" tabindex="0" role="region" aria-label="All designs"><table id="designs" class="designs"><thead>'
        f"{_groups(splits, last)}<tr>{''.join(map(_header, _columns(splits, last)))}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _columns(splits: Sequence[str], last: Sequence[_Column]) -> list[_Column]:
    own = [_Column(name if name == "cost" else f"{name}, %", f"{split}_{name}") for split in splits for name in _FIGURES]
    return [*_FIRST, *own, *last]


def _groups(splits: Sequence[str], last: Sequence[_Column]) -> str:
    named = "".join(f'<th colspan="{len(_FIGURES)}" scope="colgroup">{split}</th>' for split in splits)
    return f'<tr class="groups"><td colspan="{len(_FIRST)}"></td>{named}<td colspan="{len(last)}"></td></tr>'


def _header(column: _Column) -> str:
    kind = ' class="number"' if column.figures else ""
    # Fittest first is how the table comes.
    order = ' aria-sort="descending"' if column.key == "fitness" else ""
    return f'<th scope="col"{kind}{order} data-key="{column.key}">{column.name}</th>'


def _row(content: Content, place: int, one: DesignContent, words: CostWords, *, left_out: bool) -> str:
    design = one.design
    threshold = escaped(threshold_words(design.thresholds, content.run.labels))
    figures = [one.validation, *([] if one.test is None else [one.test])]
    numbers = [text for own in figures for text in _texts(own, words)]
    warned = str(len(one.warnings)) if one.warnings else ""
    numbers += [f"{design.fitness:.4f}", f"{design.ties:,}", warned]
    texts = [
        _cut(write_stages(design.stages), _LETTERS // len(content.designs)),
        *([_left_out(design.excluded)] if left_out else []),
    ]
    return (
        f'<tr id="design-{design.id}"><td><a href="#design-{design.id}" data-i="{place}">{design.id}</a></td>'
        f'<td class="shape-{shape_of(one.level)}">{threshold}</td>{"".join(f"<td>{text}</td>" for text in numbers)}'
        f"{''.join(map(_wordy, texts))}</tr>"
    )


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}\N{HORIZONTAL ELLIPSIS}"


def _wordy(text: str) -> str:
    return f'<td class="words"><div>{escaped(text)}</div></td>'


def _left_out(names: Sequence[str]) -> str:
    """Return the names, or as many as a glance takes in: those left out are those that no stage has."""
    if len(names) <= _SHOWN:
        return write_names(names)
    return f"{write_names(names[:_SHOWN])}+\N{HORIZONTAL ELLIPSIS} ({len(names)})"


def _texts(figures: FiguresEntry, words: CostWords) -> list[str]:
    shares = (accuracy_words(figures), coverage_words(figures))
    return [*(text.removesuffix(" %") for text in shares), escaped(words.bare(figures.cost))]
