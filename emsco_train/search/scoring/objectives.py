"""Objectives: coverage, accuracy and cost of designs, held as integers so that ties and dominance are exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.arrays import Floats, Mask
from emsco_train.data.row_units import MAX_UNITS
from emsco_train.designs.chromosome import Indices, Population
from emsco_train.errors import DataError

__all__ = ["Counts", "Evaluator", "Objectives"]

Counts: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Objectives:
    """What m designs did with the same validation rows.

    Parameters
    ----------
    accepted, right
        Rows accepted, and rows accepted with the right label [m].
    cost
        Cost units summed over all rows [m].
    rows
        Number of validation rows. Where these have weights, they are counted in whole units, here and in all counts above.
    offset
        Added to costs in g3 where some feature set is free: 1 % of the cost of all features, in units, times rows; else 0.
    scale
        Cost units in 1.0 of the user's cost.

    Examples
    --------
    >>> two = Objectives(np.array([90, 80]), np.array([81, 80]), np.array([500, 250]), rows=100)
    >>> two.coverage, two.accuracy, two.mean_cost, two.cost_ratio()
    (array([0.9, 0.8]), array([0.9, 1. ]), array([5. , 2.5]), array([0.5, 1. ]))
    """

    accepted: Counts
    right: Counts
    cost: Counts
    rows: int
    offset: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what would make comparisons inexact, or g3 a division by zero."""
        if not 0 < self.rows <= MAX_UNITS:
            raise DataError(f"there are {self.rows} validation rows: expected 1 to {MAX_UNITS}. Validate on a sample")
        if self.offset <= 0 and len(self.cost) and self.cost.min() <= 0:
            raise DataError(
                f"a design costs {self.cost.min()} units and offset is {self.offset}: free designs need an offset above 0"
            )

    def __len__(self) -> int:
        """Return the number of designs."""
        return len(self.accepted)

    @property
    def coverage(self) -> Floats:
        """Share of rows accepted (g1)."""
        return self.accepted / self.rows

    @property
    def accuracy(self) -> Floats:
        """Share of accepted rows with the right label (g2); 0 when none was accepted."""
        return self.right / np.maximum(self.accepted, 1)

    @property
    def mean_cost(self) -> Floats:
        """Mean cost of a row in the user's unit (g3*)."""
        return self.cost / (self.rows * self.scale)

    def cost_ratio(self) -> Floats:
        """Return the cheapest cost of these designs by each cost, both with the offset: in (0, 1] (g3)."""
        return np.asarray((self.cost.min() + self.offset) / (self.cost + self.offset), dtype=np.float64)

    def performance(self) -> Floats:
        """Return the Euclidean norm of coverage, accuracy and cost ratio (E)."""
        squares: Floats = self.coverage**2 + self.accuracy**2 + self.cost_ratio() ** 2
        return np.sqrt(squares)

    def vectors(self) -> Counts:
        """Return (accepted, right, cost) as rows: two designs are tied when these are equal."""
        return np.column_stack([self.accepted, self.right, self.cost])

    def take(self, index: Indices | Mask | slice) -> Objectives:
        """Return the objectives of some of the designs."""
        return replace(self, accepted=self.accepted[index], right=self.right[index], cost=self.cost[index])

    def join(self, others: Sequence[Objectives]) -> Objectives:
        """Return the objectives of these designs and then of others, on the same rows."""
        parts = [self, *others]
        return replace(
            self,
            accepted=np.concatenate([part.accepted for part in parts]),
            right=np.concatenate([part.right for part in parts]),
            cost=np.concatenate([part.cost for part in parts]),
        )


class Evaluator(Protocol):
    """Evaluates designs; deterministic, so that evaluating twice changes nothing but time."""

    @property
    def n(self) -> int:
        """Number of features."""

    def __call__(self, population: Population, /) -> Objectives:
        """Return the objectives of compressed chromosomes, int8[m, n]."""
