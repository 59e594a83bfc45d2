"""`Chosen`: the columns of one feature set, as the compiled passes see them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from emsco_runtime._arrays import Floats, Ints
from emsco_train._compiled import inner

__all__ = ["Chosen", "choose", "tabulate"]


class Chosen(NamedTuple):
    """The columns of one feature set.

    Parameters
    ----------
    numbers
        Those that hold numbers.
    spots
        Where each choice's coefficient is among a logit's parameters [choices + 1]; `width` for those not in the set, and for
        none, which the last one stands for.
    width
        Parameters of a logit: intercept, numbers, choices.
    """

    numbers: Ints
    spots: Ints
    width: int


@inner()
def choose(columns: Ints, numbers: int, choices: int) -> Chosen:  # pragma: no cover - compiled
    """Return a set by its columns, ascending, of which those below `numbers` hold numbers."""
    width, first = len(columns) + 1, 0
    spots = np.full(choices + 1, width)
    while first < len(columns) and columns[first] < numbers:
        first += 1
    for j in range(first, len(columns)):
        spots[columns[j] - numbers] = j + 1
    return Chosen(columns[:first], spots, width)


@inner()
def tabulate(chosen: Chosen, members: Ints, parameters: Floats, tables: Floats) -> None:  # pragma: no cover - compiled
    """Fill in the part of each logit that all rows of a kind share [logits, kinds]: intercept and choices."""
    for label in range(len(tables)):
        at = label * chosen.width
        for kind in range(len(members)):
            total = parameters[at]
            for choice in members[kind]:
                spot = chosen.spots[choice]
                total += parameters[at + spot] if spot < chosen.width else 0.0
            tables[label, kind] = total
