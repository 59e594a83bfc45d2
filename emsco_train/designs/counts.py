"""`Counts`: what a design did with some rows, as counts: so every command prints the same digits."""

from __future__ import annotations

from dataclasses import dataclass

from emsco_runtime.bundle.manifest import Expected

__all__ = ["Counts"]


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows there were, how many were accepted, how many of those got the right label, and the mean cost of a row.

    Rows with weights are counted in whole units of weight: then `units` is that of all rows, and `accepted`, `right` and `cost`
    are by weight. None: all rows count the same.

    Examples
    --------
    >>> Counts.from_shares(30, coverage=2 / 3, accuracy=0.95, cost=1.5)
    Counts(rows=30, accepted=20, right=19, cost=1.5, units=None)
    """

    rows: int
    accepted: int
    right: int
    cost: float
    units: int | None = None

    @classmethod
    def from_shares(cls, rows: int, coverage: float, accuracy: float, cost: float, *, units: int | None = None) -> Counts:
        """Return the counts that these shares were computed from: files hold shares alone."""
        accepted = round(coverage * (units or rows))
        return cls(rows, accepted, round(accuracy * accepted), cost, units)

    @classmethod
    def of_expected(cls, expected: Expected) -> Counts:
        """Return the counts of a manifest, by weight where it has them."""
        counted = expected.weighted
        if counted is not None:
            return cls(expected.rows, counted.accepted, counted.right, counted.mean_cost, counted.units)
        return cls(expected.rows, expected.accepted, expected.right, expected.cost.mean)

    @property
    def total(self) -> int:
        """What all rows count: their number, or their units."""
        return self.units or self.rows

    @property
    def wrong(self) -> int:
        """Rows accepted with a wrong label."""
        return self.accepted - self.right

    @property
    def coverage(self) -> float:
        """Share of the rows that are accepted."""
        return self.accepted / self.total

    @property
    def accuracy(self) -> float:
        """Share of the accepted rows that are right; 0 when none is accepted."""
        return self.right / self.accepted if self.accepted else 0.0
