"""The cost function: the one place where an acquisition is priced.

Training, baselines, export and runtime all bill through `Meter.cost`. A cost is always computed from a *set* of features with
`math.fsum`, never accumulated, so that the order of work cannot change the last digit of a bill.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["Meter"]


@dataclass(frozen=True, slots=True)
class Meter:
    """Prices of features and of the groups that share an acquisition.

    Parameters
    ----------
    features
        Own cost of each feature.
    group_of
        Group of each feature that belongs to one.
    groups
        Cost of each group, paid once per item, whichever of its features comes first.

    Examples
    --------
    >>> meter = Meter({"insulin": 20.5, "glucose": 1.0}, {"glucose": "blood", "insulin": "blood"}, {"blood": 2.1})
    >>> meter.cost(["glucose"])
    3.1
    >>> meter.cost(["glucose", "insulin", "glucose"])
    23.6
    """

    features: Mapping[str, float]
    group_of: Mapping[str, str]
    groups: Mapping[str, float]

    def cost(self, names: Iterable[str]) -> float:
        """Return what it costs to acquire these features, each feature and each group once."""
        chosen = set(names)
        touched = {self.group_of[name] for name in chosen if name in self.group_of}
        return math.fsum([self.features[name] for name in chosen] + [self.groups[group] for group in touched])

    def increment(self, before: Iterable[str], added: Iterable[str]) -> float:
        """Return what `added` costs once `before` is paid: new features and newly touched groups."""
        paid = set(before)
        new = set(added) - paid
        groups_paid = {self.group_of[name] for name in paid if name in self.group_of}
        groups_new = {self.group_of[name] for name in new if name in self.group_of} - groups_paid
        return math.fsum([self.features[name] for name in new] + [self.groups[group] for group in groups_new])
