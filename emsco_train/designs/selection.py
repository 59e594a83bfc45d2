"""`Constraints`: the limits that a design must meet, in a search; `Requirements`: the same for the choice of one from a front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.support.arrays import Floats
from emsco_train.designs.design import Design
from emsco_train.errors import DesignError, SelectionError
from emsco_train.support.numbers import is_number

__all__ = ["Constraints", "Requirements", "SelectBy"]

SelectBy: TypeAlias = Literal["cost", "accuracy", "coverage", "fitness"]

# Each limit, the figure that it is on, which of the designs' figures is the best, and the digits to show.
_LIMITS = (
    ("min_accuracy", "accuracy", max, ".4g"),
    ("min_coverage", "coverage", max, ".4g"),
    ("max_cost", "cost", min, ".6g"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What a design must satisfy to be returned; None leaves a figure free.

    Parameters
    ----------
    max_cost
        Cap on the mean cost of an item, in the user's cost unit.
    min_coverage
        Floor on the share of accepted items; 0 is no floor.
    min_accuracy
        Floor on the share of accepted items with the right label; 0 is no floor.

    Examples
    --------
    >>> Constraints(max_cost=40, min_accuracy=0.95)
    Constraints(max_cost=40.0, min_coverage=None, min_accuracy=0.95)
    """

    max_cost: float | None = None
    min_coverage: float | None = None
    min_accuracy: float | None = None

    def __post_init__(self) -> None:
        """Check every number, and make them plain floats."""
        # Not 0: a search divides by the cap.
        self._normalize("constraints", zero_cost=False)

    def _normalize(self, where: str, *, zero_cost: bool, other_faults: Sequence[str] = ()) -> None:
        floors = {"min_accuracy": self.min_accuracy, "min_coverage": self.min_coverage}
        faults = [
            f"{name} is {floor!r}: expected a number from 0 to 1"
            for name, floor in floors.items()
            if floor is not None and not (is_number(floor) and 0 <= floor <= 1)
        ]
        cap = self.max_cost
        if cap is not None and not (is_number(cap) and (cap >= 0 if zero_cost else cap > 0)):
            faults.append(f"max_cost is {cap!r}: expected a finite number {'of at least' if zero_cost else 'above'} 0")
        if faults or other_faults:
            raise DesignError(f"{where}: {'; '.join([*faults, *other_faults])}")
        for name, floor in floors.items():
            # Every design reaches a floor of 0: it must not count as a constraint, nor decide which design is the best.
            object.__setattr__(self, name, float(floor) if floor else None)
        object.__setattr__(self, "max_cost", None if cap is None else float(cap))

    def any(self) -> bool:
        """Return whether anything is constrained at all."""
        return (self.max_cost, self.min_coverage, self.min_accuracy) != (None, None, None)

    def shortfalls(self, cost: Any, coverage: Any, accuracy: Any) -> tuple[Any, Any, Any]:
        """Return by how much figures, or arrays of them, miss each limit; 0 where they do not."""
        return (
            0.0 if self.max_cost is None else np.maximum(cost - self.max_cost, 0.0),
            0.0 if self.min_coverage is None else np.maximum(self.min_coverage - coverage, 0.0),
            0.0 if self.min_accuracy is None else np.maximum(self.min_accuracy - accuracy, 0.0),
        )

    def violations(self, cost: Floats, coverage: Floats, accuracy: Floats) -> Floats:
        """Return the sum of the shortfalls of each design, each divided by its limit."""
        limits = (self.max_cost or 1.0, self.min_coverage or 1.0, self.min_accuracy or 1.0)
        shortfalls = zip(self.shortfalls(cost, coverage, accuracy), limits, strict=True)
        return sum((shortfall / limit for shortfall, limit in shortfalls), np.zeros(len(cost)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements(Constraints):
    """Constraints on the choice from a front, where a cap of 0 is allowed, and what decides; as in `Front.select`."""

    by: SelectBy | None = None

    def __post_init__(self) -> None:
        """Check all of them, and list every fault in one error."""
        known = get_args(SelectBy)
        faults = [] if self.by in (None, *known) else [f"by is {self.by!r}: expected one of {', '.join(known)}"]
        self._normalize("select", zero_cost=True, other_faults=faults)

    @property
    def objective(self) -> SelectBy:
        """What decides: as required, or by which limits there are."""
        if self.by is not None:
            return self.by
        if self.min_accuracy is not None or self.min_coverage is not None:
            return "cost"
        return "fitness" if self.max_cost is None else "accuracy"

    def choose(self, designs: Sequence[Design], full_cost: float) -> Design:
        """Return the best design that meets the requirements, the first of equals, or raise `SelectionError` with the nearest.

        Distances in cost are divided by the cost of all features, to be comparable with those in accuracy and coverage.
        """
        satisfying = [design for design in designs if self.meets(design)]
        if satisfying:
            return max(satisfying, key=lambda design: _sort_key(design, self.objective))
        if not designs:
            raise SelectionError("the front is empty: no design satisfied the constraints of the search. Loosen them")
        nearest = min(designs, key=lambda design: self._distance(design, full_cost))
        raise SelectionError(self._failure_message(nearest, designs), nearest.id)

    def meets(self, design: Design) -> bool:
        """Return whether a design satisfies every floor and the cap."""
        return not any(self.shortfalls(design.cost, design.coverage, design.accuracy))

    def _distance(self, design: Design, full_cost: float) -> float:
        cost, coverage, accuracy = self.shortfalls(design.cost, design.coverage, design.accuracy)
        return float(accuracy + coverage + cost / full_cost)

    def _failure_message(self, nearest: Design, designs: Sequence[Design]) -> str:
        asked, reachable = [], []
        best: dict[str, float] = {}
        for name, figure, choose, digits in _LIMITS:
            limit, best[figure] = getattr(self, name), choose(getattr(design, figure) for design in designs)
            if limit is not None:
                asked.append(f"{name}={limit:g}")
                reachable.append(f"{figure} {best[figure]:{digits}}")
        cost, coverage, accuracy = self.shortfalls(nearest.cost, nearest.coverage, nearest.accuracy)
        near = (
            f"accuracy {nearest.accuracy:.4g}" + (f" ({accuracy:.2g} short)" if accuracy else ""),
            f"coverage {nearest.coverage:.4g}" + (f" ({coverage:.2g} short)" if coverage else ""),
            f"cost {nearest.cost:.6g}" + (f" ({cost:.3g} over)" if cost else ""),
        )
        reason = "Each of the requirements can be met alone, but not together"
        if any(self.shortfalls(**best)):
            reason = f"Within reach alone: {', '.join(reachable)}"
        return (
            f"none of {pluralize(len(designs), 'design')} satisfies {', '.join(asked)}; nearest is {nearest.id}: "
            f"{', '.join(near)}. {reason}. Ask for less, or search with other thresholds"
        )


def _sort_key(design: Design, by: SelectBy) -> tuple[float, ...]:
    sort_keys: dict[SelectBy, tuple[float, ...]] = {
        "cost": (-design.cost, design.accuracy, design.coverage),
        "accuracy": (design.accuracy, design.coverage, -design.cost),
        "coverage": (design.coverage, design.accuracy, -design.cost),
        "fitness": (design.fitness,),
    }
    return sort_keys[by]
