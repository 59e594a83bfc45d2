"""Counting decisions by label: of arrays of positions to the counts that `LabelCounts` defines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emsco_runtime.bundle.manifest import Label, LabelCounts
from emsco_runtime.support.arrays import Ints

__all__ = ["count_by_label", "count_positions", "join_label_counts"]


def count_positions(positions: Ints, labels: int, units: Ints | None = None) -> list[int]:
    """Return how many rows are at each of `labels` positions, in units where rows have some; -1 is none of them.

    Examples
    --------
    >>> count_positions(np.array([0, 1, 1, -1]), 3), count_positions(np.array([0, 1, 1]), 2, np.array([5, 1, 2]))
    ([1, 2, 0], [5, 3])
    """
    known = positions >= 0
    # Sums of units are below 2**53, so that they are exact as floats.
    sums = np.bincount(positions[known], None if units is None else units[known], minlength=labels)
    return [int(number) for number in sums.tolist()]


def count_by_label(answer: Ints, target: Ints, labels: Sequence[Label], units: Ints | None = None) -> tuple[LabelCounts, ...]:
    """Return what was done with the rows of each label.

    Parameters
    ----------
    answer
        Position of the label that each row got, -1 where it was rejected.
    target
        Position of the one it has, -1 for one that is not among the labels.
    labels
        The labels.
    units
        How much each row counts; None: all the same.

    Examples
    --------
    >>> for counts in count_by_label(np.array([0, 0, 1, -1]), np.array([0, 1, 1, 0]), ("ham", "spam")):
    ...     print(counts)
    label='ham' rows=2 accepted=1 accepted_as=2 right=1
    label='spam' rows=2 accepted=2 accepted_as=1 right=1
    """
    parts = (target, np.where(answer >= 0, target, -1), answer, np.where(answer == target, target, -1))
    return join_label_counts(labels, *(count_positions(positions, len(labels), units) for positions in parts))


def join_label_counts(labels: Sequence[Label], *counts: Sequence[int]) -> tuple[LabelCounts, ...]:
    """Return the counts of each label, given those of all labels: rows, accepted, accepted as it, right."""
    return tuple(
        LabelCounts(label=label, rows=rows, accepted=accepted, accepted_as=accepted_as, right=right)
        for label, rows, accepted, accepted_as, right in zip(labels, *counts, strict=True)
    )
