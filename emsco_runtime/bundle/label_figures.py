"""Figures per label: how rows are counted, and how every command prints them. What they mean stands in `LabelCounts`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from emsco_runtime.bundle.manifest import Label, LabelCounts
from emsco_runtime.support.formatting import percent, pluralize

__all__ = ["COLUMNS", "count_labels", "describe_base_rate", "describe_missed_labels", "label_rows"]

# The header of a table of figures per label.
COLUMNS = ("label", "rows", "share", "accepted", "accepted as it", "right", "accuracy", "recall")
_MAX_SHOWN = 5


def count_labels(decisions: Mapping[tuple[str | None, str | None], int], labels: Sequence[Label]) -> tuple[LabelCounts, ...]:
    """Return the counts of each label, in this order, from numbers of rows by true label and answer.

    Labels are given as text, as tables hold them; None is a rejected row, or a row without a true label.

    Examples
    --------
    >>> decisions = {("ham", "ham"): 6, ("ham", None): 2, ("spam", "ham"): 1, ("spam", "spam"): 3}
    >>> [(counts.rows, counts.accepted, counts.accepted_as, counts.right) for counts in count_labels(decisions, ["ham", "spam"])]
    [(8, 6, 7, 6), (4, 4, 3, 3)]
    """
    rows, accepted, accepted_as = Counter[str | None](), Counter[str | None](), Counter[str | None]()
    for (truth, answer), number in decisions.items():
        rows[truth] += number
        accepted[truth] += number if answer is not None else 0
        # A row whose label nobody knows says nothing about right and wrong.
        accepted_as[answer] += number if truth is not None else 0
    return tuple(
        LabelCounts(
            label=label,
            rows=rows[name],
            accepted=accepted[name],
            accepted_as=accepted_as[name],
            right=decisions.get((name, name), 0),
        )
        for label, name in ((label, str(label)) for label in labels)
    )


def label_rows(labels: Iterable[LabelCounts], weighted_rows: int | None = None) -> list[list[str]]:
    """Return the cells of a table of figures per label, under `COLUMNS`.

    Counts in units of weight are shown as if the weights had a mean of 1: together they are the `weighted_rows` rows.

    Examples
    --------
    >>> counts = count_labels({("ham", "ham"): 600, ("spam", None): 400}, ["ham", "spam"])
    >>> [cells[:4] for cells in label_rows(counts, weighted_rows=5)]
    [['ham', '3.0', '60.00 %', '3.0'], ['spam', '2.0', '40.00 %', '0.0']]
    """
    shown = list(labels)
    total, scale = sum(counts.rows for counts in shown), _find_scale(shown, weighted_rows)

    def count(number: int) -> str:
        return str(number) if scale is None else f"{number * scale:.1f}"

    return [
        [
            str(counts.label),
            count(counts.rows),
            percent(counts.rows, total),
            count(counts.accepted),
            count(counts.accepted_as),
            count(counts.right),
            percent(counts.right, counts.accepted_as),
            percent(counts.right, counts.rows),
        ]
        for counts in shown
    ]


def describe_base_rate(labels: Iterable[LabelCounts]) -> str:
    """Return the base rate in words: the accuracy of always giving the most frequent label.

    Examples
    --------
    >>> describe_base_rate(count_labels({("ham", "ham"): 93, ("spam", None): 7}, ["ham", "spam"]))
    "93.00 % of the rows have the label 'ham'"
    """
    shown = list(labels)
    most = max(shown, key=lambda counts: counts.rows)
    return f"{percent(most.rows, sum(counts.rows for counts in shown))} of the rows have the label {most.label!r}"


def describe_missed_labels(labels: Iterable[LabelCounts], weighted_rows: int | None = None) -> list[str]:
    """Return a sentence about each label that has rows of which none is accepted as it; about the first few of many.

    `weighted_rows` is as in `label_rows`.

    Examples
    --------
    >>> describe_missed_labels(count_labels({("ham", "ham"): 93, ("spam", "ham"): 3, ("spam", None): 4}, ["ham", "spam"]))
    ["no row of the label 'spam' is accepted as it (7 rows, 3 of them accepted as another label)"]
    """
    shown = list(labels)
    missed = [counts for counts in shown if counts.is_missed]
    scale = _find_scale(shown, weighted_rows)
    texts = [
        f"no row of the label {counts.label!r} is accepted as it ({_describe_rows(counts, scale)} of them accepted as another "
        "label)"
        for counts in missed[:_MAX_SHOWN]
    ]
    more = len(missed) - _MAX_SHOWN
    return [*texts, *([f"the same holds for {pluralize(more, 'more label')}"] if more > 0 else [])]


def _find_scale(labels: Sequence[LabelCounts], weighted_rows: int | None) -> float | None:
    """Return how many rows a unit of weight is shown as; None where rows are counted."""
    return None if weighted_rows is None else weighted_rows / max(sum(counts.rows for counts in labels), 1)


def _describe_rows(counts: LabelCounts, scale: float | None) -> str:
    if scale is None:
        return f"{pluralize(counts.rows, 'row')}, {counts.accepted:,}"
    return f"{counts.rows * scale:.1f} rows by weight, {counts.accepted * scale:.1f}"
