"""`CostModel`: what each feature costs to acquire, and which features share an acquisition.

Costs are priced by the runtime's `Meter`, and by nothing else: see `CostModel.meter`.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from emsco_runtime.bundle.meter import Meter
from emsco_runtime.support.formatting import pluralize, shorten
from emsco_train.costs.cost_group import CostGroup
from emsco_train.costs.costs_file import CostComments, format_costs, read_costs
from emsco_train.costs.derived import pay_through_sources
from emsco_train.errors import DesignError
from emsco_train.support.numbers import is_number
from emsco_train.support.validation_errors import raise_faults

__all__ = ["CostGroup", "CostModel", "Costs"]

# Costs are summed over all features, and then over up to 67 million rows: both sums must be finite numbers.
_MAX_COST_SUM = 1e300
_LONGEST_UNIT = 256  # as in a bundle
# Names of each kind in an error: with the costs of another table, all of them are wrong.
_MAX_SHOWN = 10


@dataclass(frozen=True, slots=True)
class CostModel:
    """Prices of features and groups, in the user's own unit.

    Parameters
    ----------
    features
        Own cost of each feature: finite and not negative; all costs together are at most 1e300.
    groups
        Groups of features with their shared costs; a feature may be in several.
    unit
        What the numbers count: "EUR", "ms of CPU", "lookups".

    Examples
    --------
    >>> blood = CostGroup("blood", 2.1, ("glucose", "insulin"))
    >>> costs = CostModel.from_mapping({"age": 1, "glucose": 15.5, "insulin": 20.7}, groups=[blood], unit="CAD")
    >>> costs.meter().cost(["age", "glucose"])
    18.6
    >>> costs.groups_of("insulin")
    ('blood',)
    """

    features: Mapping[str, float]
    groups: tuple[CostGroup, ...] = ()
    unit: str = "units"

    def __post_init__(self) -> None:
        """Check every number and every group; list all faults in one error."""
        faults = [*_number_faults(self), *_group_faults(self)] or _sum_faults(self)
        if not faults and not any(self.features.values()) and not any(group.cost for group in self.groups):
            faults = ["all costs are 0: give at least one feature or group a cost above 0, or `costs=None` for 1 each"]
        faults += _unit_faults(self.unit)
        raise_faults("costs", faults)

    @classmethod
    def from_mapping(
        cls,
        features: Mapping[str, float],
        *,
        groups: Iterable[CostGroup] = (),
        derived: Mapping[str, Sequence[str]] | None = None,
        unit: str = "units",
    ) -> CostModel:
        """Make a cost model from feature name -> cost.

        Parameters
        ----------
        features, groups, unit
            As above.
        derived
            Feature -> the features that it is derived from, through which it is paid: their own prices become groups.

        Examples
        --------
        >>> costs = CostModel.from_mapping({"height": 1, "weight": 2, "bmi": 0}, derived={"bmi": ["height", "weight"]})
        >>> [costs.meter().cost(names) for names in (["height"], ["bmi"], ["bmi", "height"])]
        [1.0, 3.0, 3.0]
        """
        # Copied, so that a later change of the caller's mapping does not reach a frozen record.
        return cls(*pay_through_sources(dict(features), tuple(groups), derived or {}), unit)

    @classmethod
    def of(cls, costs: Costs, names: Sequence[str]) -> CostModel:
        """Make a cost model from any of the forms in which costs can be given.

        Parameters
        ----------
        costs
            A cost model, a mapping or a pandas Series name -> cost, a sequence in the order of `names`, or None for 1 each.
        names
            Every feature of the data, in column order.

        Examples
        --------
        >>> CostModel.of([3, 4], ["a", "b"]).meter().cost(["a", "b"])
        7.0
        """
        if costs is None:
            return cls.from_mapping(dict.fromkeys(names, 1.0))
        if isinstance(costs, CostModel):
            return costs
        if isinstance(costs, Mapping) or _is_series(costs):
            # As the columns of a frame, whose names may be numbers, get their names.
            return cls.from_mapping({_column_name(name, names, costs): cost for name, cost in costs.items()})
        if isinstance(costs, str | os.PathLike):
            raise DesignError(f"costs is {costs!r}: a file of them is read with `CostModel.from_file({os.fspath(costs)!r})`")
        if not isinstance(costs, Sequence | np.ndarray):
            forms = "a mapping by name, or a list or an array in column order"
            raise DesignError(f"expected {len(names)} costs in {forms}; got {type(costs).__name__} {costs!r}")
        if len(costs) != len(names):
            raise DesignError(f"expected {len(names)} costs, one per column in order; got {costs!r}. Or give a mapping by name")
        return cls.from_mapping(dict(zip(names, costs, strict=True)))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], names: Sequence[str] | None = None) -> CostModel:
        """Read a costs file: TOML, JSON of the same shape, or one line of numbers.

        Parameters
        ----------
        path
            The file; `emsco_train.costs.costs_file` shows the three forms and how they are recognised.
        names
            Every feature of the data, in column order: needed for one line of numbers, which has no names.
        """
        read = read_costs(path, names)
        try:
            return cls.from_mapping(read.features, groups=read.groups, derived=read.derived, unit=read.unit)
        except DesignError as error:
            raise DesignError(f"costs file {os.fspath(path)}: {str(error).removeprefix('costs: ')}") from None

    def to_toml(self, comments: CostComments | None = None) -> str:
        """Return the text of a costs file that `from_file` reads back as it is.

        Parameters
        ----------
        comments
            Comments of the file.

        Examples
        --------
        >>> print(CostModel.from_mapping({"age": 1, "blood test": 2.5}, unit="EUR").to_toml(), end="")
        unit = "EUR"
        <BLANKLINE>
        [features]
        age = 1
        "blood test" = 2.5
        """
        return format_costs(self.features, self.groups, self.unit, comments or CostComments())

    def meter(self) -> Meter:
        """Return the cost function over these prices."""
        own = {name: float(cost) for name, cost in self.features.items()}
        needed: dict[str, tuple[str, ...]] = {}
        for group in self.groups:
            needed |= {name: (*needed.get(name, ()), group.name) for name in group.features}
        return Meter(own, needed, {group.name: float(group.cost) for group in self.groups})

    def groups_of(self, name: str) -> tuple[str, ...]:
        """Return the names of the groups that a feature needs, in the order of the groups."""
        return tuple(group.name for group in self.groups if name in group.features)

    def check(self, known: Iterable[str], needed: Iterable[str]) -> None:
        """Raise one error that lists the prices that are missing and those that belong to no feature, the first of many.

        Parameters
        ----------
        known
            All feature names of the data: a price for any other name is a mistake.
        needed
            The names that must have a price.
        """
        columns = list(known)
        missing = [name for name in needed if name not in self.features]
        names = set(columns)
        unknown = [name for name in self.features if name not in names]
        faults = [f"no cost for feature {name!r}: add it, or leave it out" for name in missing[:_MAX_SHOWN]]
        if len(missing) > _MAX_SHOWN:
            faults.append(f"no cost for {pluralize(len(missing) - _MAX_SHOWN, 'more feature')}")
        faults += [
            f"a cost for {name!r}, which is not a feature: remove it, or correct its name" for name in unknown[:_MAX_SHOWN]
        ]
        if len(unknown) > _MAX_SHOWN:
            faults.append(f"{pluralize(len(unknown) - _MAX_SHOWN, 'more cost')} of what is not a feature")
        if unknown:
            faults[-1] += f" (features: {_join_names(columns)})"
        raise_faults("costs", faults)


Costs: TypeAlias = CostModel | Mapping[str, float] | Sequence[float] | None


def _column_name(name: object, names: Sequence[str], costs: Mapping[str, float]) -> Any:
    """Return a name that is no text as text, if a column has that and no other cost is for it; else as it is."""
    return str(name) if not isinstance(name, str) and str(name) in names and str(name) not in costs else name


def _is_series(costs: object) -> TypeGuard[Mapping[str, float]]:
    """Return whether costs have names of their own, as in a pandas Series: they may be in any order."""
    return hasattr(costs, "items") and hasattr(costs, "index")


def _number_faults(model: CostModel) -> list[str]:
    prices = [(f"feature {name!r}", cost) for name, cost in model.features.items()]
    prices += [(f"group {group.name!r}", group.cost) for group in model.groups]
    return [
        f"the cost of {owner} is {cost!r}: expected a finite number, 0 or more"
        for owner, cost in prices
        if not is_number(cost) or cost < 0
    ]


def _unit_faults(unit: object) -> list[str]:
    if not isinstance(unit, str) or not unit:
        return [f"unit is {unit!r}: name what the costs count, such as 'EUR'"]
    if len(unit) > _LONGEST_UNIT or any(one < " " or one == "\x7f" for one in unit):
        detail = f"expected at most {_LONGEST_UNIT} characters without control characters, such as 'EUR'"
        return [f"unit is {shorten(repr(unit))}: {detail}"]
    return []


def _sum_faults(model: CostModel) -> list[str]:
    prices = [*model.features.values(), *(group.cost for group in model.groups)]
    # Each divided first: their own sum may be more than a number can hold.
    if math.fsum(float(price) / _MAX_COST_SUM for price in prices) <= 1:
        return []
    largest = f"the largest is {max(prices):g}"
    return [f"all costs together are more than {_MAX_COST_SUM:g} ({largest}), too much to compute: give them in a larger unit"]


def _group_faults(model: CostModel) -> list[str]:
    faults: list[str] = []
    names: set[str] = set()
    for group in model.groups:
        if group.name in names:
            faults.append(f"two groups are called {group.name!r}: give each its own name")
        names.add(group.name)
        faults += [
            f"group {group.name!r} holds {name!r}, which has no cost of its own: add one (it may be 0)"
            for name in group.features
            if name not in model.features
        ]
        faults += [
            f"group {group.name!r} names {name!r} twice: once is enough"
            for name, count in Counter(group.features).items()
            if count > 1
        ]
    return faults


def _join_names(names: Sequence[str], limit: int = 20) -> str:
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")
