"""`DecisionCounts`: what a design did with rows whose labels are known, as counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from emsco_runtime.bundle.manifest import Label
from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.support.arrays import Ints
from emsco_train.data.label_counts import count_positions
from emsco_train.errors import DataError

__all__ = ["DecisionCounts", "LabelCounts"]

LabelCounts: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DecisionCounts:
    """Counts of decisions by label; all that a certificate needs to know of the rows.

    For each label: rows accepted as it, and those of them that have another one; rows that have it.

    Examples
    --------
    >>> import numpy as np
    >>> counts = DecisionCounts.of(np.array([0, 0, 1, -1]), np.array([0, 1, 1, 0]), ("ham", "spam"))
    >>> counts.accepted, counts.accepted_wrong, counts.true
    ((2, 1), (1, 0), (2, 2))
    """

    rows: int
    labels: tuple[Label, ...]
    accepted: LabelCounts
    accepted_wrong: LabelCounts
    true: LabelCounts

    @classmethod
    def of(cls, label: Ints, target: Ints, labels: Sequence[Label]) -> DecisionCounts:
        """Count the decisions on some rows.

        `label` holds the position of each row's accepted label, -1 where there is none, as in `Evaluation.label`; `target` that
        of the true label, -1 for one that training never saw, so that any label is wrong.
        """
        if len(label) != len(target) or not len(target):
            decisions = f"{pluralize(len(label), 'decision')} for {pluralize(len(target), 'row')}"
            raise DataError(f"got {decisions}: expected one for each of at least 1 row")
        for name, positions in (("label", label), ("target", target)):
            if not -1 <= int(positions.min()) <= int(positions.max()) < len(labels):
                raise DataError(
                    f"{name} holds positions from {positions.min()} to {positions.max()}: expected -1 to {len(labels) - 1} for "
                    f"{len(labels)} labels"
                )
        wrong = (label >= 0) & (label != target)
        counts = [tuple(count_positions(positions, len(labels))) for positions in (label, label[wrong], target)]
        return cls(len(target), tuple(labels), *counts)

    @property
    def right(self) -> LabelCounts:
        """For each label, the rows that have it and were accepted as it."""
        return tuple(accepted - wrong for accepted, wrong in zip(self.accepted, self.accepted_wrong, strict=True))

    @property
    def all_accepted(self) -> int:
        """Rows accepted, whatever the label."""
        return sum(self.accepted)

    @property
    def all_wrong(self) -> int:
        """Rows accepted with a wrong label."""
        return sum(self.accepted_wrong)
