"""`ColumnSet`: the columns of one feature set, as the compiled passes see them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.support.compiled import jit_inner

__all__ = ["ColumnSet", "make_column_set", "tabulate_kinds"]


class ColumnSet(NamedTuple):
    """The columns of one feature set."""

    # Those that hold numbers.
    numbers: Ints
    # Where each choice's coefficient is among a logit's parameters [n_categories + 1]; `width` for those not in the set, and in
    # the last place, which means no choice.
    slots: Ints
    # Parameters of a logit: intercept, numbers, choices.
    width: int


@jit_inner()
def make_column_set(columns: Ints, numbers: int, n_categories: int) -> ColumnSet:  # pragma: no cover - compiled
    """Return a set by its columns, ascending, of which those below `numbers` hold numbers."""
    width, first = len(columns) + 1, 0
    slots = np.full(n_categories + 1, width)
    while first < len(columns) and columns[first] < numbers:
        first += 1
    for j in range(first, len(columns)):
        slots[columns[j] - numbers] = j + 1
    return ColumnSet(columns[:first], slots, width)


@jit_inner()
def tabulate_kinds(
    column_set: ColumnSet, members: Ints, parameters: Floats, tables: Floats
) -> None:  # pragma: no cover - compiled
    """Fill in the part of each logit that all rows of a kind share [logits, kinds]: intercept and choices."""
    for label in range(len(tables)):
        at = label * column_set.width
        for kind in range(len(members)):
            total = parameters[at]
            for choice in members[kind]:
                slot = column_set.slots[choice]
                total += parameters[at + slot] if slot < column_set.width else 0.0
            tables[label, kind] = total
