"""`Evidence`: what a design did with rows whose labels are known, row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.bundle.manifest import Label
from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.errors import CertificationError, DataError
from emsco_train.guarantee.betting import BoundedValues, row_order
from emsco_train.guarantee.decision_counts import DecisionCounts

__all__ = ["CostRange", "Evidence", "Weights"]


@dataclass(frozen=True, slots=True)
class CostRange:
    """What an item can cost: at least the bill of the first stage, at most that of all stages."""

    low: float
    high: float

    @classmethod
    def of(cls, stage_costs: Sequence[float]) -> CostRange:
        """Return the range of a design, by the cost of an item that leaves at each stage."""
        return cls(float(stage_costs[0]), float(stage_costs[-1]))


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """The weight of each row, and the largest one possible, which was known before the rows were looked at."""

    of_rows: Floats
    max_weight: float

    def __post_init__(self) -> None:
        """Raise for weights that are none, and refuse a certificate where the largest one was stated too low."""
        if not 0 < self.max_weight < math.inf:
            raise DataError(f"max_weight is {self.max_weight!r}: expected a finite number above 0")
        faulty = np.flatnonzero(~((self.of_rows >= 0) & (self.of_rows < math.inf)))
        if faulty.size:
            raise DataError(f"row {faulty[0]} has the weight {self.of_rows[faulty[0]]}: expected a finite number of at least 0")
        above = np.flatnonzero(self.of_rows > self.max_weight)
        if above.size:
            raise CertificationError(
                f"no certificate can be given: {pluralize(above.size, 'certify row')} weigh more than {self.max_weight:g}, the "
                f"largest weight that was stated in advance (the first is row {above[0]}: {self.of_rows[above[0]]:g}). The test "
                "holds for weights up to a known limit alone: give no weights, or state a limit that holds for every item, "
                "and use new certify rows",
                None,
                None,
                0,
            )


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Decisions on rows whose labels are known; make one with `Evidence.of`.

    Parameters
    ----------
    label
        Position of each row's accepted label, -1 where there is none, as in `Evaluation.label`.
    target
        Position of its true label; -1: one that training never saw, so that any label is wrong.
    cost
        What it cost.
    cost_range
        What any item can cost.
    counts
        The decisions, counted by label; rows, whatever they weigh.
    weights
        Of the rows; None: all count alike.
    """

    label: Ints
    target: Ints
    cost: Floats
    cost_range: CostRange
    counts: DecisionCounts
    weights: Weights | None

    @classmethod
    def of(
        cls,
        label: Ints,
        target: Ints,
        labels: Sequence[Label],
        *,
        cost: Floats,
        cost_range: CostRange,
        weights: Weights | None = None,
    ) -> Evidence:
        """Collect the decisions on some rows, in their own order."""
        counts = DecisionCounts.of(label, target, labels)
        numbers = {"costs": len(cost)} | ({} if weights is None else {"weights": len(weights.of_rows)})
        for name, count in numbers.items():
            if count != counts.rows:
                raise DataError(f"got {count:,} {name} for {pluralize(counts.rows, 'row')}: expected one for each")
        return cls(label, target, cost, cost_range, counts, weights)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.counts.rows

    @property
    def accepted(self) -> Mask:
        """Which rows got a label."""
        return np.asarray(self.label >= 0)

    @property
    def wrong(self) -> Mask:
        """Which rows got a wrong label."""
        return np.asarray((self.label >= 0) & (self.label != self.target))

    @property
    def mean_cost(self) -> float:
        """What a row costs on average, by weight where rows have some."""
        weights = None if self.weights is None or not self.weights.of_rows.any() else self.weights.of_rows
        return float(self.cost.mean() if weights is None else np.average(self.cost, weights=weights))

    def share(self, failures: Mask, among: Mask) -> BoundedValues:
        """Return how often rows among some are failures, as values of 0 and 1 in the order of testing."""
        return self._in_order(failures.astype(np.float64), among, 0.0, 1.0)

    def costs(self) -> BoundedValues:
        """Return the costs of all rows in the order of testing."""
        return self._in_order(self.cost, np.ones(self.rows, dtype=np.bool_), self.cost_range.low, self.cost_range.high)

    def _in_order(self, values: Floats, among: Mask, low: float, high: float) -> BoundedValues:
        order = row_order(self.rows)
        chosen = order[among[order]]
        if self.weights is None:
            return BoundedValues(values[chosen], low=low, high=high)
        return BoundedValues(
            values[chosen], low=low, high=high, weights=self.weights.of_rows[chosen], max_weight=self.weights.max_weight
        )
