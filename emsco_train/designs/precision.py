"""`Precision`: how much the rows behind a design's figures prove, and the `Bounds` on these figures that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from emsco_train.designs.counts import Counts
from emsco_train.errors import DesignError
from emsco_train.support.binomial import lower_bound

__all__ = ["Bounds", "Precision"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """One-sided bounds on the figures of a design: lower ones on coverage and accuracy, an upper one on cost."""

    coverage: float
    accuracy: float
    cost: float


@dataclass(frozen=True, slots=True)
class Precision:
    """What bounds on a design's figures are computed from.

    Parameters
    ----------
    rows
        Effective number of rows: how many independent rows of equal weight would say as much about coverage.
    accepted
        Effective number of accepted rows, which say as much about accuracy.
    cost_error
        Standard error of the mean cost.

    Examples
    --------
    >>> precision = Precision(rows=500, accepted=400, cost_error=0.1)
    >>> bounds = precision.bounds(coverage=0.8, accuracy=0.95, cost=2.0, sure=0.85)
    >>> round(bounds.coverage, 3), round(bounds.accuracy, 3), round(bounds.cost, 3)
    (0.78, 0.936, 2.104)
    """

    rows: float
    accepted: float
    cost_error: float = 0.0

    def __post_init__(self) -> None:
        """Raise for numbers that no rows can have."""
        if not all(0 <= number < math.inf for number in (self.rows, self.accepted, self.cost_error)):
            raise DesignError(f"{self}: expected finite numbers of at least 0")

    @classmethod
    def of_counts(cls, counts: Counts, cost_error: float = 0.0) -> Precision:
        """Return the precision of independent rows, as if they counted the same."""
        accepted = counts.accepted if counts.units is None else counts.coverage * counts.rows
        return cls(float(counts.rows), float(accepted), cost_error)

    def scaled(self, factor: float) -> Precision:
        """Return the precision of so many times as many rows of the same kind."""
        return Precision(factor * self.rows, factor * self.accepted, self.cost_error / math.sqrt(factor))

    def bounds(self, coverage: float, accuracy: float, cost: float, sure: float) -> Bounds:
        """Return the bounds of figures, each at the level `sure`.

        Shares have exact binomial (Clopper-Pearson) bounds, with the effective sizes in place of counts (Korn and Graubard,
        1998); the mean cost has that of the normal distribution.
        """
        return Bounds(
            coverage=lower_bound(coverage * self.rows, self.rows, sure),
            accuracy=lower_bound(accuracy * self.accepted, self.accepted, sure),
            cost=cost + NormalDist().inv_cdf(sure) * self.cost_error,
        )
