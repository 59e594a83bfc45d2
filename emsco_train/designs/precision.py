"""`Precision`: how much the rows behind a design's figures prove, and the `Bounds` on these figures that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from emsco_runtime.bundle.manifest import LabelCounts
from emsco_train.designs.counts import Counts
from emsco_train.errors import DesignError
from emsco_train.support.binomial import lower_bound

__all__ = ["Bounds", "LabelLowerBounds", "LabelSizes", "Precision"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """One-sided bounds on the figures of a design: lower ones on coverage and accuracy, an upper one on cost."""

    coverage: float
    accuracy: float
    cost: float


@dataclass(frozen=True, slots=True)
class LabelLowerBounds:
    """Lower bounds on the figures of one label, as `LabelCounts` defines them."""

    recall: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class LabelSizes:
    """Effective numbers of rows for the figures of one label: of those that have it, and of those accepted as it."""

    rows: float
    accepted_as: float

    def bounds(self, counts: LabelCounts, sure: float) -> LabelLowerBounds:
        """Return the bounds of the label's figures, each at the level `sure`."""
        return LabelLowerBounds(
            recall=lower_bound(counts.recall * self.rows, self.rows, sure),
            accuracy=lower_bound(counts.accuracy * self.accepted_as, self.accepted_as, sure),
        )


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
    labels
        The same for the figures of each label, in the order of the labels; empty: those of independent rows of equal weight.

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
    labels: tuple[LabelSizes, ...] = ()

    def __post_init__(self) -> None:
        """Raise for numbers that no rows can have."""
        sizes = [size for label in self.labels for size in (label.rows, label.accepted_as)]
        if not all(0 <= number < math.inf for number in (self.rows, self.accepted, self.cost_error, *sizes)):
            raise DesignError(f"{self}: expected finite numbers of at least 0")

    @classmethod
    def of_counts(cls, counts: Counts, cost_error: float = 0.0) -> Precision:
        """Return the precision of independent rows, as if they counted the same."""
        accepted = counts.accepted if counts.units is None else counts.coverage * counts.rows
        return cls(float(counts.rows), float(accepted), cost_error)

    def scaled(self, factor: float) -> Precision:
        """Return the precision of `factor` times as many rows of the same kind."""
        labels = tuple(LabelSizes(factor * label.rows, factor * label.accepted_as) for label in self.labels)
        return Precision(factor * self.rows, factor * self.accepted, self.cost_error / math.sqrt(factor), labels)

    def cost_level(self, cost: float, cap: float) -> float:
        """Return the highest level at which the bound on a mean cost is not above a cap."""
        if not self.cost_error:
            return float(cost <= cap)
        return NormalDist(cost, self.cost_error).cdf(cap)

    def bounds(self, coverage: float, accuracy: float, cost: float, sure: float) -> Bounds:
        """Return the bounds of figures, each at the level `sure`.

        Shares have exact binomial (Clopper-Pearson) bounds, with the effective sizes instead of counts (Korn and Graubard,
        1998); the mean cost has that of the normal distribution.
        """
        return Bounds(
            coverage=lower_bound(coverage * self.rows, self.rows, sure),
            accuracy=lower_bound(accuracy * self.accepted, self.accepted, sure),
            cost=cost + NormalDist().inv_cdf(sure) * self.cost_error,
        )
