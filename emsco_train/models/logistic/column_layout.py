"""`ColumnLayout`: which columns are multiplied, and which are looked up.

A feature of 70 categories is 70 columns, of which a row has a 1 in one place at most. The passes over the rows need not multiply
by the 69 zeros: what a row chose is looked up, once for all rows that chose the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.errors import DataError

__all__ = ["ColumnLayout"]

# A group of at least this many columns is worth it even if no two rows choose the same in all groups;
_WIDE = 12
# one of at least this many, if combinations of choices have at least `_ROWS_OF_A_KIND` rows, on average.
_NARROW = 3
_ROWS_OF_A_KIND = 8


@dataclass(frozen=True, slots=True, eq=False)
class ColumnLayout:
    """The order in which the passes see the columns: numbers first, then the choices, group by group.

    The first `numbers` columns in this order are multiplied. `members` are the combinations of choices that occur
    [kinds, groups], a choice by its position among all, their number for none; `kinds` says which combination each row has.

    Examples
    --------
    >>> rows = np.array([[0, 1, 0, 0.5], [0, 0, 0, 0.6], [0, 1, 0, 0.7]] * 6)
    >>> layout = ColumnLayout.of(rows, [slice(0, 3)])
    >>> layout.order, layout.numbers
    (array([3, 0, 1, 2]), 1)
    >>> layout.members, layout.kinds[:3]
    (array([[3],
           [1]]), array([1, 0, 1]))
    """

    order: Ints
    numbers: int
    members: Ints
    kinds: Ints

    @classmethod
    def of(cls, encoded: Floats, one_hot_groups: Sequence[slice] = ()) -> ColumnLayout:
        """Lay out the columns of these rows; in each row one column of each slice is 1, or none, and its others are 0."""
        every = np.arange(encoded.shape[1])
        taken: list[Ints] = []
        # Choices from 1 on, 0 for none, until it is known how many there are.
        members, kinds, count = np.empty((1, 0), dtype=np.intp), np.zeros(len(encoded), dtype=np.intp), 0
        for group in sorted((every[choice] for choice in one_hot_groups), key=len, reverse=True):
            codes = _codes(encoded, group)
            both, finer = np.unique(kinds * (len(group) + 1) + codes, return_inverse=True)
            common = len(group) >= _NARROW and len(both) * _ROWS_OF_A_KIND <= len(encoded)
            if common or len(group) >= _WIDE:
                before, code = np.divmod(both, len(group) + 1)
                members = np.column_stack([members[before], np.where(code > 0, code + count, 0)])
                kinds, count = finer.reshape(-1), count + len(group)
                taken.append(group)
        looked_up = np.concatenate([every[:0], *taken])
        numbers = np.setdiff1d(every, looked_up)
        return cls(np.concatenate([numbers, looked_up]), len(numbers), np.where(members > 0, members - 1, count), kinds)

    @property
    def n_categories(self) -> int:
        """How many choices there are in all groups."""
        return len(self.order) - self.numbers


def _codes(encoded: Floats, group: Ints) -> Ints:
    """Return what each row chose of a group: from 1 on, 0 for nothing."""
    part = encoded[:, group]
    chosen = part == 1.0
    bad = np.flatnonzero(~(chosen | (part == 0.0)).all(axis=1) | (chosen.sum(axis=1) > 1))
    if len(bad):
        where, row = f"columns {group[0]} to {group[-1]}, row {bad[0]}", part[bad[0]].tolist()
        raise DataError(f"{where}: expected at most one 1, and 0 elsewhere, got {row}")
    return np.where(chosen.any(axis=1), chosen.argmax(axis=1) + 1, 0)
