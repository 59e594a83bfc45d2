"""`ColumnLayout`: which columns hold numbers, and which are choices.

A feature of 70 categories is 70 columns, of which a row has a 1 in one place at most. The passes over the rows need not multiply
by the 69 zeros: such a group is kept as one number a row, the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime._arrays import Floats, Ints
from emsco_train.errors import DataError

__all__ = ["ColumnLayout"]

# Columns of a group that is worth it.
_FEWEST = 3


@dataclass(frozen=True, slots=True, eq=False)
class ColumnLayout:
    """The order in which the passes see the columns: numbers first, then the choices, group by group.

    Parameters
    ----------
    order
        All columns.
    numbers
        How many of them hold numbers.
    groups
        Columns of each group of choices.

    Examples
    --------
    >>> layout = ColumnLayout.of(6, [slice(0, 3)])
    >>> layout.order, layout.numbers, layout.choices
    (array([3, 4, 5, 0, 1, 2]), 3, 3)
    >>> layout.kinds(np.array([[0, 1, 0, 0.5, 8, 9], [0, 0, 0, 0.6, 7, 9], [0, 1, 0, 0.7, 6, 9]]))
    (array([[1],
           [3]]), array([0, 1, 0]))
    """

    order: Ints
    numbers: int
    groups: tuple[Ints, ...]

    @classmethod
    def of(cls, columns: int, choices: Sequence[slice] = ()) -> ColumnLayout:
        """Lay out so many columns; in each row at most one column of each of the slices is 1, and the others of it are 0."""
        every = np.arange(columns)
        groups = tuple(every[choice] for choice in choices if choice.stop - choice.start >= _FEWEST)
        grouped = np.concatenate([every[:0], *groups])
        numbers = np.setdiff1d(every, grouped)
        return cls(np.concatenate([numbers, grouped]), len(numbers), groups)

    @property
    def choices(self) -> int:
        """How many choices there are in all groups."""
        return len(self.order) - self.numbers

    def kinds(self, encoded: Floats) -> tuple[Ints, Ints]:
        """Return the combinations of choices that occur [kinds, groups], and the kind of each row.

        A choice is told by its position among all of them; their number stands for none.
        """
        if not self.groups:
            return np.empty((1, 0), dtype=np.intp), np.zeros(len(encoded), dtype=np.intp)
        starts = np.cumsum([0, *(len(group) for group in self.groups)])
        codes = [self._codes(encoded, group, start) for group, start in zip(self.groups, starts[:-1], strict=True)]
        members, kinds = np.unique(np.column_stack(codes), axis=0, return_inverse=True)
        return members, kinds.reshape(-1)

    def _codes(self, encoded: Floats, group: Ints, start: int) -> Ints:
        part = encoded[:, group]
        chosen = part == 1.0
        bad = np.flatnonzero(~(chosen | (part == 0.0)).all(axis=1) | (chosen.sum(axis=1) > 1))
        if len(bad):
            raise DataError(
                f"columns {group[0]} to {group[-1]}, row {bad[0]}: {part[bad[0]].tolist()} is no choice; one 1 at most, and 0 "
                "elsewhere, is due"
            )
        return np.where(chosen.any(axis=1), start + chosen.argmax(axis=1), self.choices)
