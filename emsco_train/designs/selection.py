"""`Constraints`: the limits that a design must meet, in a search; `Requirements`: the same for the choice of one from a front."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from emsco_runtime.bundle.manifest import Label, LabelCounts
from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.support.arrays import Floats
from emsco_train.designs.design import Design
from emsco_train.designs.knee import find_knee
from emsco_train.designs.label_floors import LabelFloor, make_label_floors
from emsco_train.designs.precision import Bounds
from emsco_train.designs.sure_level import DEFAULT_SURE
from emsco_train.errors import DesignError, SelectionError
from emsco_train.support.binomial import lower_bound_level
from emsco_train.support.numbers import is_number

__all__ = ["Constraints", "MatchEverything", "Requirements", "SelectBy"]

SelectBy: TypeAlias = Literal["cost", "accuracy", "coverage", "fitness", "knee"]

# Each limit, the figure that it is on, the digits to show, and the word for a miss.
_LIMITS = (
    ("min_accuracy", "accuracy", ".4g", "short"),
    ("min_coverage", "coverage", ".4g", "short"),
    ("max_cost", "cost", ".6g", "over"),
)
# Nobody has more rows than this.
_MAX_ROWS = 1e9

# Of the rows that a figure was counted on, and of the cost of all features: see where they are used.
_COUNTED_ROWS = 0.5
_FREE = 0.01


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
    """Constraints on the choice from a front, where a cap of 0 is allowed, what decides, and how sure; as in `Front.select`."""

    by: SelectBy | None = None
    sure: float | None = DEFAULT_SURE
    # Where cost decides and bounds are asked for: a design that costs 1 % more is preferred if its `confidence` is higher by more
    # than this many hundredths; None: the cheapest is chosen.
    cost_weight: float | None = None
    # Floors on the figures of labels, as `make_label_floors` makes them.
    label_floors: tuple[LabelFloor, ...] = ()
    # Whether an error may suggest another floor, with which other thresholds are tried: not where they are tried anyway, or
    # never.
    suggest_floors: bool = field(default=True, compare=False)

    @classmethod
    def of(
        cls,
        *,
        min_accuracy: float | None = None,
        min_coverage: float | None = None,
        max_cost: float | None = None,
        min_recall: Mapping[Label, float] | None = None,
        min_accuracy_of: Mapping[Label, float] | None = None,
        by: SelectBy | None = None,
        sure: float | None = DEFAULT_SURE,
    ) -> Requirements:
        """Return requirements as users give them, floors per label as mappings label -> number."""
        return cls(
            min_accuracy=min_accuracy,
            min_coverage=min_coverage,
            max_cost=max_cost,
            by=by,
            sure=sure,
            label_floors=make_label_floors(min_recall, min_accuracy_of),
        )

    def __post_init__(self) -> None:
        """Check all of them, and list every fault in one error."""
        known = get_args(SelectBy)
        faults = [] if self.by in (None, *known) else [f"by is {self.by!r}: expected one of {', '.join(known)}"]
        faults += _find_level_faults(self.sure)
        self._normalize("select", zero_cost=True, other_faults=faults)
        # Without a limit only a choice by accuracy uses bounds: requirements that ask for nothing are equal.
        object.__setattr__(self, "sure", self.sure if self.any() or self.by == "accuracy" else DEFAULT_SURE)

    def any(self) -> bool:
        """Return whether anything is required at all."""
        return bool(self.label_floors) or Constraints.any(self)

    @property
    def objective(self) -> SelectBy:
        """What decides: as required, or by which limits there are."""
        if self.by is not None:
            return self.by
        if self.min_accuracy is not None or self.min_coverage is not None or self.label_floors:
            return "cost"
        return "knee" if self.max_cost is None else "accuracy"

    @property
    def weighs_cost(self) -> bool:
        """Whether a design that costs more may be preferred because it is surer."""
        return self.cost_weight is not None and self.sure is not None and self.objective == "cost"

    @property
    def has_both_floors(self) -> bool:
        """Whether coverage (or recall) and accuracy both have a floor, so that neither is reached at the expense of the other."""
        return all(self._floored_sides())

    @property
    def recall_labels(self) -> frozenset[str]:
        """The labels, as text, whose recall has a floor."""
        return frozenset(str(floor.label) for floor in self.label_floors if floor.figure == "recall")

    def check_labels(self, labels: Sequence[Label]) -> None:
        """Raise if a floor names a label that is not among these; labels are compared as text."""
        known = [str(label) for label in labels]
        for floor in self.label_floors:
            if str(floor.label) not in known:
                argument = "min_recall" if floor.figure == "recall" else "min_accuracy_of"
                raise DesignError(f"`{argument}` names {floor.label!r}, which is not a label (labels: {', '.join(known)})")

    def loosen(self, by: float) -> Requirements:
        """Return the same without bounds, with every floor lower by so much and the cap higher by such a share.

        Examples
        --------
        >>> near = Requirements(min_accuracy=0.9, max_cost=4).loosen(0.02)
        >>> near.min_accuracy, near.max_cost, near.sure
        (0.88, 4.08, None)
        """
        return replace(
            self,
            min_accuracy=None if self.min_accuracy is None else max(0.0, self.min_accuracy - by),
            min_coverage=None if self.min_coverage is None else max(0.0, self.min_coverage - by),
            max_cost=None if self.max_cost is None else (1.0 + by) * self.max_cost,
            label_floors=tuple(replace(floor, least=max(0.0, floor.least - by)) for floor in self.label_floors),
            sure=None,
        )

    def label_figures(self, design: Design) -> list[float]:
        """Return the figures of a design that have a floor per label."""
        return [floor.bound(design, None) for floor in self.label_floors]

    def choose(self, designs: Sequence[Design], full_cost: float) -> Design:
        """Return the best design that meets the requirements, the first of equals, or raise `SelectionError` with the nearest.

        Distances in cost are divided by the cost of all features, to be comparable with those in accuracy and coverage.
        """
        in_order = sorted(designs, key=lambda design: design.cost) if self.weighs_cost else designs
        chosen = self.find_best(in_order, full_cost)
        if chosen is not None:
            return chosen
        if not designs:
            raise SelectionError("the front is empty: no design satisfied the constraints of the search. Loosen them")
        nearest = self._nearest(designs, full_cost)
        raise SelectionError(f"{self._describe_failure(nearest, designs)}. {self._advise(designs, full_cost)}", nearest.id)

    def _sort_key(self, design: Design) -> tuple[float, ...]:
        key = _sort_key(design, self.objective)
        if self.objective != "accuracy" or self.sure is None or design.precision is None:
            return key
        # A handful of rows that happen to be right are the most accurate, and say nothing.
        return (design.bounds(self.sure).accuracy, *key)

    def meets(self, design: Design) -> bool:
        """Return whether a design satisfies every floor and the cap, by bounds on its figures where `sure` asks for them."""
        return not self.any() or self._allows(design, self.sure)

    def describe_misses(self, figures: Bounds, labels: Sequence[LabelCounts] = ()) -> list[str]:
        """Return in words which limits some figures miss, those of labels included.

        Examples
        --------
        >>> Requirements(min_accuracy=0.9, max_cost=4).describe_misses(Bounds(coverage=0.8, accuracy=0.87, cost=3.5))
        ['accuracy 0.87 (at least 0.9 was asked for)']
        """
        missed = []
        for name, figure, digits, _ in _LIMITS:
            limit, value = getattr(self, name), getattr(figures, figure)
            if limit is not None and (value > limit if figure == "cost" else value < limit):
                side = "most" if figure == "cost" else "least"
                missed.append(f"{figure} {value:{digits}} (at {side} {limit:g} was asked for)")
        counts = {str(one.label): one for one in labels}
        for floor in self.label_floors:
            own = counts.get(str(floor.label))
            value = None if own is None else getattr(own, floor.figure)
            if value is not None and value < floor.least:
                missed.append(f"{floor.name} {value:.4g} (at least {floor.least:g} was asked for)")
        return missed

    def find_best(self, designs: Iterable[Design], full_cost: float) -> Design | None:
        """Return the best design that meets the requirements, the first of equals; None if no design meets them.

        Where cost is weighed, the designs must come in the order of their costs: those that follow one whose cost alone rules it
        out are not looked at.
        """
        if self.weighs_cost:
            return self._find_most_worth(designs, full_cost)
        satisfying = [design for design in designs if self.meets(design)]
        if satisfying and self.objective == "knee":
            return find_knee(satisfying, full_cost)
        return max(satisfying, key=self._sort_key, default=None)

    def _find_most_worth(self, designs: Iterable[Design], full_cost: float) -> Design | None:
        """Return the design whose confidence is worth its cost most."""
        cost_weight, offset = self.cost_weight or 0.0, 0.0
        best: Design | None = None
        best_key: tuple[float, ...] = (-math.inf,)
        for design in designs:
            # No confidence is above 1.
            if best is not None and 1.0 - cost_weight * math.log(design.cost + offset) < best_key[0]:
                break
            if not self.meets(design):
                continue
            if not design.cost:
                # Nothing is many times as expensive as what costs nothing.
                offset = _FREE * full_cost
            key = (self.confidence(design) - cost_weight * math.log(design.cost + offset), *_sort_key(design, "cost"))
            if key > best_key:
                best, best_key = design, key
        return best

    def confidence(self, design: Design) -> float:
        """Return about how likely all limits hold on new rows: each as likely as its bound says, one apart from the other.

        The figures of a design that is the best of many are less certain than those of one that was fixed in advance: they count
        as if they were of half as many rows.

        Examples
        --------
        >>> design = Design.of((0,), ["a"], (0.9, 0.9), coverage=0.8, accuracy=0.95, cost=1.0, rows=500)
        >>> round(Requirements(min_accuracy=0.93).confidence(design), 2)
        0.83
        >>> round(Requirements(min_accuracy=0.93, min_coverage=0.78).confidence(design), 2)
        0.63
        """
        precision = design.full_precision.scaled(_COUNTED_ROWS)
        levels = [floor.level(design, precision) for floor in self.label_floors]
        if self.min_coverage is not None:
            levels.append(lower_bound_level(design.coverage * precision.rows, precision.rows, self.min_coverage))
        if self.min_accuracy is not None:
            levels.append(lower_bound_level(design.accuracy * precision.accepted, precision.accepted, self.min_accuracy))
        if self.max_cost is not None:
            levels.append(precision.cost_level(design.cost, self.max_cost))
        return math.prod(levels)

    def _floored_sides(self) -> tuple[bool, bool]:
        """Return whether there is a floor on how rightly it answers, and one on how often."""
        figures = {floor.figure for floor in self.label_floors}
        return self.min_accuracy is not None or "accuracy" in figures, self.min_coverage is not None or "recall" in figures

    def _allows(self, design: Design, sure: float | None) -> bool:
        # Floors per label alone need no bounds on the other figures.
        limited = Constraints.any(self)
        return not (limited and self._misses(design.bounds(sure))) and not any(
            floor.shortfall(design, sure) for floor in self.label_floors
        )

    def _misses(self, figures: Bounds) -> bool:
        return any(self.shortfalls(figures.cost, figures.coverage, figures.accuracy))

    def _nearest(self, designs: Sequence[Design], full_cost: float) -> Design:
        def distance(design: Design) -> float:
            figures = design.bounds(self.sure)
            cost, coverage, accuracy = self.shortfalls(figures.cost, figures.coverage, figures.accuracy)
            of_labels = sum(floor.shortfall(design, self.sure) for floor in self.label_floors)
            return float(accuracy + coverage + cost / full_cost + of_labels)

        return min(designs, key=distance)

    def _describe_failure(self, nearest: Design, designs: Sequence[Design]) -> str:
        bounds = [design.bounds(self.sure) for design in designs]
        best = Bounds(
            coverage=max(one.coverage for one in bounds),
            accuracy=max(one.accuracy for one in bounds),
            cost=min(one.cost for one in bounds),
        )
        asked, near, reachable = [], [], []
        for name, figure, digits, miss in _LIMITS:
            limit, own, bound = getattr(self, name), getattr(nearest, figure), getattr(nearest.bounds(self.sure), figure)
            shortfall = 0.0 if limit is None else max(0.0, bound - limit if figure == "cost" else limit - bound)
            near.append(self._describe_figure(f"{figure} {own:{digits}}", f"{bound:{digits}}", shortfall, miss))
            if limit is not None:
                asked.append(f"`{name}={limit:g}`")
                reachable.append(f"{figure} {getattr(best, figure):{digits}}")
        reached = not self._misses(best)
        for floor in self.label_floors:
            own, top = floor.bound(nearest, None), max(floor.bound(design, self.sure) for design in designs)
            bound, shortfall = floor.bound(nearest, self.sure), floor.shortfall(nearest, self.sure)
            near.append(self._describe_figure(f"{floor.name} {own:.4g}", f"{bound:.4g}", shortfall, "short"))
            asked.append(floor.text)
            reachable.append(f"{floor.name} {top:.4g}")
            reached = reached and top >= floor.least
        reason = "Each of the requirements can be met alone, but not together"
        if not reached:
            reason = f"Within reach alone: {', '.join(reachable)}"
        level = "" if self.sure is None else f" with bounds at `sure={self.sure}`"
        return (
            f"none of {pluralize(len(designs), 'design')} satisfies {', '.join(asked)}{level}; nearest is {nearest.id}: "
            f"{', '.join(near)}. {reason}"
        )

    def _describe_figure(self, figure: str, bound: str, shortfall: float, miss: str) -> str:
        notes = [] if self.sure is None else [f"bound {bound}"]
        notes += [f"{shortfall:.2g} {miss}"] if shortfall else []
        return figure + (f" ({', '.join(notes)})" if notes else "")

    def _advise(self, designs: Sequence[Design], full_cost: float) -> str:
        """Return what would help: more rows where only the bounds are in the way, and other requirements."""
        if self.sure is None:
            return self._other_searches()
        by_figures = replace(self, sure=None)
        hopeful = [design for design in designs if by_figures.meets(design)]
        if not hopeful:
            return f"No design satisfies this without bounds either, so more rows alone would not help. {self._other_searches()}"
        design = self._nearest(hopeful, full_cost)
        rows = self._rows_needed(design)
        needed = f"about {rows:,} rows instead of {design.rows:,} would do" if rows else "no number of rows would be enough"
        return (
            f"Without bounds {design.id} satisfies this; if its figures stayed the same, {needed}. "
            "Give more rows, ask for less, or choose by the figures alone with `sure=None`"
        )

    def _other_searches(self) -> str:
        missing = self._missing_floor()
        tuned = "" if missing is None else f", add a floor on {missing}, with which exports try other thresholds, too"
        if self.recall_labels:
            return (
                f"Ask for less{tuned}, or search with a lower threshold of that label, with `objective='balanced'`, or with "
                "`class_weight='balanced'`"
            )
        return f"Ask for less{tuned}, or search with other thresholds"

    def _missing_floor(self) -> str | None:
        """Return the figure whose floor would help; None where both sides have one, or neither, or where it would not help."""
        is_right, is_often = self._floored_sides()
        if is_right == is_often or not self.suggest_floors:
            return None
        return "coverage" if is_right else "accuracy"

    def _rows_needed(self, design: Design) -> int | None:
        """Return about how many rows it takes until the bounds satisfy, if the figures stay; None where that is never."""
        low, high = 1.0, 2.0
        while not self.meets(design.with_more_rows(high)):
            low, high = high, 2.0 * high
            if high * design.rows > _MAX_ROWS:
                return None
        while high > 1.01 * low:
            middle = (low + high) / 2.0
            low, high = (low, middle) if self.meets(design.with_more_rows(middle)) else (middle, high)
        rows = high * design.rows
        unit = 10.0 ** max(0, math.floor(math.log10(rows)) - 1)
        return int(math.ceil(rows / unit) * unit)


@dataclass(frozen=True, slots=True)
class MatchEverything:
    """The requirement to decide at most this share of the answered items differently from one stage of all features.

    An item counts if either answers it. The share holds by an upper bound at the level `sure`; None: as it is counted. Of the
    rows that all features at once give one label no larger share may differ either, as counted; one row may always differ.
    """

    share: float
    sure: float | None = DEFAULT_SURE

    def __post_init__(self) -> None:
        """Check both numbers."""
        faults = [] if is_number(self.share) and 0 < self.share < 1 else [f"{self.share!r} is not a number between 0 and 1"]
        faults += _find_level_faults(self.sure)
        if faults:
            raise DesignError(f"`match_everything`: {'; '.join(faults)}")


def _find_level_faults(sure: object) -> list[str]:
    if sure is None or (is_number(sure) and 0.5 <= sure < 1):
        return []
    return [f"sure is {sure!r}: expected a number from 0.5 to below 1, or none"]


def _sort_key(design: Design, by: SelectBy) -> tuple[float, ...]:
    sort_keys: dict[SelectBy, tuple[float, ...]] = {
        "cost": (-design.cost, design.accuracy, design.coverage),
        "accuracy": (design.accuracy, design.coverage, -design.cost),
        "coverage": (design.coverage, design.accuracy, -design.cost),
        "fitness": (design.fitness,),
        # Where the knee decides, it is taken of all; this is for the comparison of two.
        "knee": (design.fitness,),
    }
    return sort_keys[by]
