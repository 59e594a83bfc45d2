"""`Bill`: what a method answered, and what each item paid, by the project's one cost function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.bundle.meter import Meter
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.designs.counts import Counts
from emsco_train.models.evaluation import REJECTED

__all__ = ["Bill", "price_sets"]


@dataclass(frozen=True, slots=True, eq=False)
class Bill:
    """The answers to some rows, and what each of them paid.

    Parameters
    ----------
    position
        Of each answer among the labels; `REJECTED` (-1) where there is none.
    cost
        What each row paid, answered or not.
    labels
        The labels in order.

    Examples
    --------
    >>> bill = Bill(np.array([1, -1]), np.array([2.0, 5.0]), ("ham", "spam"))
    >>> bill.answers, bill.accepted.tolist(), bill.count(np.array([1, 0]))
    (['spam', None], [True, False], Counts(rows=2, accepted=1, right=1, cost=3.5, units=None))
    """

    position: Ints
    cost: Floats
    labels: tuple[Label, ...]

    @property
    def answers(self) -> list[Label | None]:
        """The label of each row; None where it is rejected."""
        return [None if position == REJECTED else self.labels[position] for position in self.position.tolist()]

    @property
    def accepted(self) -> Mask:
        """Which rows got an answer."""
        return np.asarray(self.position != REJECTED)

    def count(self, target: Ints) -> Counts:
        """Return the counts for true labels at these positions."""
        right = self.accepted & (self.position == target)
        mean_cost = math.fsum(self.cost.tolist()) / max(1, len(self.cost))
        return Counts(len(self.position), int(self.accepted.sum()), int(right.sum()), mean_cost)


def price_sets(meter: Meter, names: Sequence[str], acquired: Mask) -> Floats:
    """Return what each row paid for the features that it acquired [rows, features]; each different set is priced once.

    Examples
    --------
    >>> meter = Meter({"a": 1.0, "b": 2.0}, {"a": "g", "b": "g"}, {"g": 10.0})
    >>> price_sets(meter, ["a", "b"], np.array([[True, True], [False, False], [True, False]]))
    array([13.,  0., 11.])
    """
    sets, which = np.unique(acquired, axis=0, return_inverse=True)
    costs = [meter.cost([name for name, taken in zip(names, chosen, strict=True) if taken]) for chosen in sets.tolist()]
    return np.array(costs, dtype=np.float64)[which.reshape(-1)]
