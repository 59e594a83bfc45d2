"""What to say where no design of a search satisfies its constraints: which limit is out of reach, and how far it was reached."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emsco_train.costs.units import CostUnits
from emsco_train.data.problem import Problem
from emsco_train.designs.selection import Constraints
from emsco_train.errors import DesignError
from emsco_train.search.scoring.objectives import Objectives
from emsco_train.search.settings import Settings

__all__ = ["check_pinned_cost", "describe_missed_limits"]


def describe_missed_limits(constraints: Constraints, missed: Sequence[Objectives | None]) -> str:
    """Return which limits no design satisfies, and the best that was reached; `missed` are what the designs of searches did.

    Examples
    --------
    >>> two = Objectives(np.array([90, 80]), np.array([81, 80]), np.array([500, 250]), rows=100)
    >>> describe_missed_limits(Constraints(max_cost=2), [two])
    'max_cost is 2, and the cheapest design that was found costs 2.5 (0.5 over)'
    >>> describe_missed_limits(Constraints(max_cost=3, min_coverage=0.85), [two])
    'max_cost is 3; min_coverage is 0.85; each can be kept alone, and the nearest design has cost 2.5, coverage 0.8'
    """
    known = [part for part in missed if part is not None and len(part)]
    figures = {
        "max_cost": [float(cost) for part in known for cost in part.mean_cost],
        "min_coverage": [float(share) for part in known for share in part.coverage],
        "min_accuracy": [float(share) for part in known for share in part.accuracy],
    }
    limits = {name: limit for name in figures if (limit := getattr(constraints, name)) is not None}
    asked = [f"{name} is {limit:g}" for name, limit in limits.items()]
    if not known:
        return "; ".join(asked)
    reached = [_describe_best(name, limit, figures[name]) for name, limit in limits.items()]
    if any(reached):
        return "; ".join(f"{text}{f', and {best}' if best else ''}" for text, best in zip(asked, reached, strict=True))
    cost, coverage, accuracy = (np.array(values) for values in figures.values())
    nearest = int(np.argmin(constraints.violations(cost, coverage, accuracy)))
    own = ", ".join(f"{name.partition('_')[2]} {figures[name][nearest]:.6g}" for name in limits)
    return "; ".join([*asked, f"each can be kept alone, and the nearest design has {own}"])


def _describe_best(name: str, limit: float, values: Sequence[float]) -> str:
    """Return the best that was reached of a figure that has a limit, and by how much it misses; empty where it does not."""
    if name == "max_cost":
        cheapest = min(values)
        return (
            "" if cheapest <= limit else f"the cheapest design that was found costs {cheapest:.6g} ({cheapest - limit:.2g} over)"
        )
    figure, highest = name.removeprefix("min_"), max(values)
    return "" if highest >= limit else f"the highest {figure} that was found is {highest:.4g} ({limit - highest:.2g} short)"


def check_pinned_cost(settings: Settings, problem: Problem) -> None:
    """Raise if the pinned features alone, which every item pays for, cost more than designs may."""
    cap = settings.constraints.max_cost
    if cap is None or not settings.pinned:
        return
    # Raises for a position that is none.
    settings.resolved(len(problem.names))
    names = [problem.names[position] for position in settings.pinned]
    # In whole units, as the search compares: a sum of floats would be more than 0.3 for 0.1 and 0.2.
    units = CostUnits.of(problem.meter, names)
    cost = int(units.cost(np.ones((1, len(names)), dtype=np.bool_))[0]) / units.scale
    if cost > cap:
        raise DesignError(
            f"max_cost is {cap:.10g}, but the pinned features ({', '.join(names)}), which every design pays for, cost "
            f"{cost:.10g}: raise it, or pin others"
        )
