"""The cost function: the one place where an acquisition is priced.

Training, baselines, export and runtime all compute costs with `Meter.cost`. A cost is always computed from a *set* of features
with `math.fsum`, never accumulated, so that the order of work cannot change its last digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Meter", "StageCost"]


class StageCost(NamedTuple):
    """What a stage adds to the cost of an item, and the cost of everything up to and including it."""

    added: float
    total: float


@dataclass(frozen=True, slots=True)
class Meter:
    """Prices of features and of the groups that share an acquisition.

    Parameters
    ----------
    features
        Own cost of each feature.
    group_of
        Group of each feature that belongs to one; a tuple of them for a feature that needs several.
    groups
        Cost of each group, paid once per item, whichever of its features comes first.

    Examples
    --------
    >>> meter = Meter({"insulin": 20.5, "glucose": 1.0}, {"glucose": "blood", "insulin": "blood"}, {"blood": 2.1})
    >>> meter.cost(["glucose"])
    3.1
    >>> meter.cost(["glucose", "insulin", "glucose"])
    23.6
    >>> meter.stage_costs([["glucose"], ["insulin"]])
    [StageCost(added=3.1, total=3.1), StageCost(added=20.5, total=23.6)]

    A feature that is computed from two sources needs both groups:

    >>> Meter({"links": 0.0, "age": 0.0}, {"links": "body", "age": ("body", "whois")}, {"body": 2.0, "whois": 30.0}).cost(["age"])
    32.0
    """

    features: Mapping[str, float]
    group_of: Mapping[str, str | tuple[str, ...]]
    groups: Mapping[str, float]

    def cost(self, names: Iterable[str]) -> float:
        """Return what it costs to acquire these features, each feature and each group once."""
        chosen = set(names)
        return math.fsum([self.features[name] for name in chosen] + [self.groups[group] for group in self._groups(chosen)])

    def increment(self, before: Iterable[str], added: Iterable[str]) -> float:
        """Return what `added` costs once `before` is paid: new features, and groups of which no feature was acquired."""
        paid = set(before)
        new = set(added) - paid
        groups = self._groups(new) - self._groups(paid)
        return math.fsum([self.features[name] for name in new] + [self.groups[group] for group in groups])

    def stage_costs(self, stages: Iterable[Iterable[str]]) -> list[StageCost]:
        """Return the costs of stages that acquire these features, one after the other."""
        costs: list[StageCost] = []
        acquired: set[str] = set()
        for names in stages:
            before, acquired = acquired, acquired.union(names)
            costs.append(StageCost(self.increment(before, acquired), self.cost(acquired)))
        return costs

    @property
    def total(self) -> float:
        """Return what all features cost together."""
        return self.cost(self.features)

    def groups_of(self, name: str) -> tuple[str, ...]:
        """Return the groups that a feature needs, in their given order."""
        found = self.group_of.get(name, ())
        return (found,) if isinstance(found, str) else found

    def _groups(self, names: Iterable[str]) -> set[str]:
        return {group for name in names for group in self.groups_of(name)}
