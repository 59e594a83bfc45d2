"""What the table check of a run finds, and the page that says so: columns that are left out, and what else to know."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from emsco_runtime.bundle.summary import percent, pluralize
from emsco_runtime.support.missing_words import MISSING_WORDS, is_missing_text
from emsco_train.data.alike_texts import find_alike
from emsco_train.data.features import Kind
from emsco_train.data.finding import Finding
from emsco_train.data.label_counts import count_positions
from emsco_train.data.problem import Problem
from emsco_train.data.table_check import check_columns
from emsco_train.errors import (
    DataError,
    FewGroupsWarning,
    OutlierWarning,
    RareLabelWarning,
    RepeatedRowsWarning,
    UnknownCategoryWarning,
)
from emsco_train.runs.source import Source

__all__ = [
    "TABLE_WARNINGS",
    "drop_useless_columns",
    "find_label_faults",
    "find_table_faults",
    "format_findings",
    "record_warnings",
]

# Warnings about the rows that the page holds, too.
TABLE_WARNINGS = (FewGroupsWarning, OutlierWarning, RareLabelWarning, RepeatedRowsWarning, UnknownCategoryWarning)
# With fewer rows of a label in a split, its figures there mean little.
_FEW_ROWS = 10
_MAX_SHOWN_LABELS = 5
# More findings of one kind are joined in one line.
_MAX_LINES = 6
_MAX_NAMES = 8
_INDENT = " " * 9


def find_table_faults(
    source: Source, kinds: Mapping[str, Kind], wanted: Collection[str], missing: Collection[str] = (), *, min_category: int
) -> tuple[Finding, ...]:
    """Look at the features of a source; columns that no model can learn from are dropped unless the user wants them.

    `kinds` are those that the user has said, by column: whether they are numbers or categories is no question then. `missing`
    are the words that mean a missing value.
    """
    found = check_columns(source.table.columns, source.labels, min_category=min_category)
    # A category may be called 999.
    answered = {(name, kind) for name in kinds for kind in ("codes", "mixed")}
    answered |= {(name, "missing number") for name, kind in kinds.items() if kind == "categorical"}
    asked = [one for one in found if (one.column, one.kind) not in answered]
    decided = [_decide_drop(one, is_wanted=one.column in kinds or one.column in wanted) for one in asked]
    dropped = [one.column for one in decided if one.is_dropped]
    return (*decided, *_find_missing_words(source, dropped), *_find_unused_words(source, missing))


def _decide_drop(finding: Finding, *, is_wanted: bool) -> Finding:
    if not finding.is_useless:
        return finding
    # The remedy of such a finding says how to keep the column. The index of a data frame has no name to say that of.
    if is_wanted or not str(finding.column).strip():
        finding = replace(finding, remedy="")
    return replace(finding, is_dropped=not is_wanted)


def drop_useless_columns(source: Source, findings: Sequence[Finding]) -> Source:
    """Return the source without the columns that the findings drop; raise if too few are left."""
    dropped = [one for one in findings if one.is_dropped]
    names = [str(one.column) for one in dropped]
    left = [name for name in source.table.names if name not in names]
    if dropped and len(left) < 2:
        shown = "; ".join(f"{one.column!r} ({one.what})" for one in dropped[:3])
        more = f" and {pluralize(len(dropped) - 3, 'other')}" if len(dropped) > 3 else ""
        # What helps one column is not what helps another: a date is no category, and 1,5 is to be written as 1.5.
        remedy = next((f"; {one.column!r}: {one.remedy}" for one in dropped if one.remedy), "")
        raise DataError(
            f"only {pluralize(len(left), 'column')} would be left to learn from, without {shown}{more}: add columns{remedy}"
        )
    return source.without(names)


def find_label_faults(problem: Problem) -> list[Finding]:
    """Return findings about labels with few rows in some split, and about those that may mean that there is no label.

    A label without any rows in a split is warned of elsewhere.
    """
    splits = problem.splits()
    counts = np.array([np.bincount(split.target, minlength=len(problem.labels)) for split in splits])
    findings = []
    rarest_first = np.argsort(counts.sum(axis=0), kind="stable").tolist()
    few = [position for position in rarest_first if 0 < counts[:, position].min() < _FEW_ROWS]
    if few:
        shown = [
            f"{problem.labels[position]!r} has "
            + ", ".join(f"{rows} {split.name}" for split, rows in zip(splits, counts[:, position], strict=True))
            for position in few[:_MAX_SHOWN_LABELS]
        ]
        more = f"; and {pluralize(len(few) - len(shown), 'more label')}" if len(few) > len(shown) else ""
        what = f"few rows: label {'; label '.join(shown)}{more}: figures about so few mean little"
        leave_out = f", or leave it out with `drop_labels=({str(problem.labels[few[0]])!r},)`" if len(problem.labels) > 2 else ""
        findings.append(Finding("labels", None, what, f"give more rows, or join labels{leave_out}"))
    for label, rows in zip(problem.labels, counts.sum(axis=0).tolist(), strict=True):
        # A minus is often a label, together with a plus.
        if str(label).strip() != "-" and is_missing_text(str(label)):
            what = f"label {label!r} ({pluralize(rows, 'row')}) may mean that there is no label"
            findings.append(Finding("labels", None, what, f"if it does, leave these rows out with `drop_labels=({label!r},)`"))
    for alike in find_alike([str(label) for label in problem.labels]):
        what = f"labels {', '.join(map(repr, alike))} differ only in case or blanks"
        findings.append(Finding("labels", None, what, "if they are one label, spell it one way"))
    return findings


@contextmanager
def record_warnings(findings: list[Finding]) -> Iterator[None]:
    """Add the warnings about rows that are given meanwhile to the findings; all warnings are given at the end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if issubclass(warning.category, TABLE_WARNINGS):
            remedy = "`drop_labels` leaves the rows of a label out" if issubclass(warning.category, RareLabelWarning) else ""
            findings.append(Finding("rows", None, str(warning.message), remedy))
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def format_findings(problem: Problem, findings: Sequence[Finding], translate: Callable[[str], str] = str) -> list[str]:
    """Return the lines of the page; `translate` makes options of a command of the arguments in backticks."""
    counts = count_positions(np.concatenate([split.target for split in problem.splits()]), len(problem.labels))
    largest, total = int(np.argmax(counts)), sum(counts)
    share = f"{percent(counts[largest], total)} of {pluralize(total, 'row')}"
    lines = [f"check    the most common label is {problem.labels[largest]!r}, in {share}"]
    if not findings:
        return [*lines, "         nothing unusual"]
    for is_dropped in (True, False):
        chosen = [one for one in findings if one.is_dropped == is_dropped]
        for kind in dict.fromkeys(one.kind for one in chosen):
            texts = _format_kind([one for one in chosen if one.kind == kind])
            word = "dropped" if is_dropped else "note"
            lines += [text if text.startswith(_INDENT) else f"{word:<{len(_INDENT)}}{text}" for text in map(translate, texts)]
    return lines


def _format_kind(findings: Sequence[Finding]) -> list[str]:
    """Return a line for each finding of a kind; where there are many, the first ones and the names of the others."""
    shown = findings if len(findings) <= _MAX_LINES else findings[: _MAX_LINES - 1]
    lines = []
    for one in shown:
        lines.append(one.what if one.column is None else f"{one.column or 'a column without a name'}: {one.what}")
        lines += [f"{_INDENT}{one.remedy}"] if one.remedy else []
    others = [str(one.column) for one in findings[len(shown) :]]
    return [*lines, f"and {_join_names(others)}"] if others else lines


def _find_missing_words(source: Source, dropped: Collection[str | None]) -> list[Finding]:
    """Return one finding about all words that were read as gaps."""
    found = {name: words for name, words in source.missing_words.items() if name not in dropped}
    if not found:
        return []
    words = Counter({word: 0 for column in found.values() for word in column})
    for column in found.values():
        words.update(column)
    places = _join_names([f"{name} ({pluralize(sum(column.values()), 'row')})" for name, column in found.items()])
    what = f"{', '.join(map(repr, words))} taken as missing in {places}"
    return [Finding("missing words", None, what, "if one of these words means something, name the others with `missing`")]


def _find_unused_words(source: Source, missing: Collection[str]) -> list[Finding]:
    """Return one finding about the user's own words for "missing" that no field holds."""
    seen = {text for column in source.missing_words.values() for text in column}
    own = sorted(set(missing) - MISSING_WORDS)
    unused = [word for word in own if not any(is_missing_text(text, frozenset({word})) for text in seen)]
    if not unused:
        return []
    remedy = (
        "words are compared with whole fields, in any case, and numbers with numbers: check how the table writes a missing value"
    )
    return [Finding("missing words", None, f"{', '.join(map(repr, unused))}: in no field of a feature", remedy)]


def _join_names(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {pluralize(more, 'more column')}" if more > 0 else "")
