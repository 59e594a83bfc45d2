"""The knee of a front: the design that is shown and exported when nothing is asked for.

A design that accepts everything, is always right and costs nothing would be ideal. How far another one is from it has three
parts, each a share of what it takes no design at all to get:

- the share of the rows that it rejects, of all rows;
- its error among accepted rows, as a share of the error of always giving the most frequent label (1 - base rate);
- its mean cost, as a share of the cost of all features.

The knee is the design with the least sum of the squares of these, among those that accept at least half as much as the one that
accepts most. The half keeps away designs that are right because they hardly ever answer, where every other costs nearly
everything. (The paper's fitness has no such limit: whatever costs next to nothing has a high one, whatever else it does.) The
figures are bounds at the default of `sure` where a design knows its rows: of many designs, the luckiest look best. By them no
design of the front is better than the knee in all of coverage, accuracy and cost.
"""

from __future__ import annotations

from collections.abc import Sequence

from emsco_train.designs.design import Design
from emsco_train.designs.precision import Bounds
from emsco_train.designs.sure_level import DEFAULT_SURE

__all__ = ["find_knee", "least_useful_coverage"]

# Of the largest coverage.
_LEAST_COVERAGE = 0.5


def least_useful_coverage(bounds: Sequence[Bounds]) -> float:
    """Return half of the best coverage: an accurate design that accepts hardly anything is not worth a look."""
    return _LEAST_COVERAGE * max(one.coverage for one in bounds)


def find_knee(designs: Sequence[Design], full_cost: float) -> Design:
    """Return the knee of some designs, the first of equals; `full_cost` is that of all features.

    Examples
    --------
    >>> figures = [(0.03, 1.0, 1.0), (0.8, 0.97, 2.0), (0.9, 0.97, 8.0), (1.0, 0.9, 9.0)]
    >>> designs = [
    ...     Design.of((0,), ["a"], (0.9, 0.9), coverage=coverage, accuracy=accuracy, cost=cost)
    ...     for coverage, accuracy, cost in figures
    ... ]
    >>> find_knee(designs, full_cost=10.0).coverage
    0.8
    """
    sure = DEFAULT_SURE if all(design.precision is not None for design in designs) else None
    bounds = [design.bounds(sure) for design in designs]
    least = least_useful_coverage(bounds)
    useful = [place for place, one in enumerate(bounds) if one.coverage >= least]
    return designs[min(useful, key=lambda place: _distance(bounds[place], _base_error(designs[place]), full_cost))]


def _distance(figures: Bounds, base_error: float, full_cost: float) -> float:
    """Return the square of the distance from the ideal."""
    parts = (1.0 - figures.coverage, (1.0 - figures.accuracy) / base_error, figures.cost / full_cost)
    return sum(part * part for part in parts)


def _base_error(design: Design) -> float:
    """Return the error of always giving the most frequent label; 1 where the rows of labels are unknown, or all have one."""
    rows = [counts.rows for counts in design.labels]
    return 1.0 - max(rows) / sum(rows) if sum(map(bool, rows)) > 1 else 1.0
