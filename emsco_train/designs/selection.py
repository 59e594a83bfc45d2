"""`Requirements`: what a user wants of a design, and the one that meets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from emsco_runtime.bundle.summary import pluralize
from emsco_train.designs.design import Design
from emsco_train.errors import DesignError, SelectionError
from emsco_train.support.numbers import is_number

__all__ = ["Requirements", "SelectBy"]

SelectBy: TypeAlias = Literal["cost", "accuracy", "coverage", "fitness"]


@dataclass(frozen=True, slots=True)
class Requirements:
    """Floors, a cap, and what decides among the designs that satisfy them.

    Parameters
    ----------
    min_accuracy, min_coverage, max_cost, by
        As in `Front.select`; None: no such wish. A floor of 0 is none, and is kept as None.
    """

    min_accuracy: float | None = None
    min_coverage: float | None = None
    max_cost: float | None = None
    by: SelectBy | None = None

    def __post_init__(self) -> None:
        """Refuse what no design could ever mean; list every fault in one error."""
        floors = {"min_accuracy": self.min_accuracy, "min_coverage": self.min_coverage}
        faults = [
            f"{name} is {floor!r}: a number from 0 to 1 is due"
            for name, floor in floors.items()
            if floor is not None and (not is_number(floor) or not 0 <= floor <= 1)
        ]
        if self.max_cost is not None and (not is_number(self.max_cost) or self.max_cost < 0):
            faults.append(f"max_cost is {self.max_cost!r}: a finite number, 0 or more, is due")
        if self.by is not None and self.by not in get_args(SelectBy):
            faults.append(f"by is {self.by!r}: one of {', '.join(get_args(SelectBy))} is due")
        if faults:
            raise DesignError("select: " + "; ".join(faults))
        for name, floor in floors.items():
            if floor == 0:
                # Every design has it: it must not decide what the best design is, as a floor does.
                object.__setattr__(self, name, None)

    @property
    def objective(self) -> SelectBy:
        """What decides: as wished, or by what kind of wish there is."""
        if self.by is not None:
            return self.by
        if self.min_accuracy is not None or self.min_coverage is not None:
            return "cost"
        return "fitness" if self.max_cost is None else "accuracy"

    def choose(self, designs: Sequence[Design], full_cost: float) -> Design:
        """Return the best design that satisfies the wish, or raise `SelectionError` with the nearest.

        Parameters
        ----------
        designs
            Fittest first; the first of equals wins.
        full_cost
            Cost of acquiring every feature: puts distances in cost beside those in accuracy and coverage.
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
        return not any(self._shortfall(design))

    def _shortfall(self, design: Design) -> tuple[float, float, float]:
        """Return by how much a design misses each part of the wish; 0 where it does not."""
        accuracy = 0.0 if self.min_accuracy is None else max(0.0, self.min_accuracy - design.accuracy)
        coverage = 0.0 if self.min_coverage is None else max(0.0, self.min_coverage - design.coverage)
        cost = 0.0 if self.max_cost is None else max(0.0, design.cost - self.max_cost)
        return accuracy, coverage, cost

    def _distance(self, design: Design, full_cost: float) -> float:
        accuracy, coverage, cost = self._shortfall(design)
        return accuracy + coverage + cost / full_cost

    def _failure_message(self, nearest: Design, designs: Sequence[Design]) -> str:
        accuracy, coverage, cost = self._shortfall(nearest)
        near = [
            f"accuracy {nearest.accuracy:.4g}" + (f" ({accuracy:.2g} short)" if accuracy else ""),
            f"coverage {nearest.coverage:.4g}" + (f" ({coverage:.2g} short)" if coverage else ""),
            f"cost {nearest.cost:.6g}" + (f" ({cost:.3g} over)" if cost else ""),
        ]
        text = (
            f"none of {pluralize(len(designs), 'design')} satisfies {self._describe()}; "
            f"nearest is {nearest.id}: {', '.join(near)}"
        )
        each_possible = all(any(shortfall[part] == 0 for shortfall in map(self._shortfall, designs)) for part in range(3))
        reason = (
            "Each of the wishes can be met alone, but not together"
            if each_possible
            else f"Within reach alone: {self._describe_best(designs)}"
        )
        return f"{text}. {reason}. Ask for less, or search with other thresholds"

    def _describe(self) -> str:
        parts = {"min_accuracy": self.min_accuracy, "min_coverage": self.min_coverage, "max_cost": self.max_cost}
        return ", ".join(f"{name}={value:g}" for name, value in parts.items() if value is not None)

    def _describe_best(self, designs: Sequence[Design]) -> str:
        best = []
        if self.min_accuracy is not None:
            best.append(f"accuracy {max(design.accuracy for design in designs):.4g}")
        if self.min_coverage is not None:
            best.append(f"coverage {max(design.coverage for design in designs):.4g}")
        if self.max_cost is not None:
            best.append(f"cost {min(design.cost for design in designs):.6g}")
        return ", ".join(best)


def _sort_key(design: Design, by: SelectBy) -> tuple[float, ...]:
    sort_keys: dict[SelectBy, tuple[float, ...]] = {
        "cost": (-design.cost, design.accuracy, design.coverage),
        "accuracy": (design.accuracy, design.coverage, -design.cost),
        "coverage": (design.coverage, design.accuracy, -design.cost),
        "fitness": (design.fitness,),
    }
    return sort_keys[by]
