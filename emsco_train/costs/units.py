"""Costs as whole numbers of a small unit, so that equal costs are equal and comparing them is exact.

Sums of decimal prices depend on the order of adding in their last bits; a search that compares millions of such sums would tell
designs apart that cost the same. Prices as people write them (a few decimals) become whole numbers without loss; others are
rounded to a unit of about a trillionth of the whole. What is shown to people is priced by the `Meter`, as always.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from emsco_runtime._arrays import Mask
from emsco_runtime.meter import Meter

__all__ = ["CostUnits"]

# Sums over all validation rows must stay well inside 64 bits: 2**40 units for one item leaves room for eight million rows.
_LARGEST = 2**40


@dataclass(frozen=True, slots=True, eq=False)
class CostUnits:
    """Prices of n features and their groups in whole units.

    Parameters
    ----------
    features
        Own cost of each feature.
    groups
        Cost of each group.
    members
        Which feature belongs to which group [features, groups].
    scale
        Units that make 1 of the user's cost.

    Examples
    --------
    >>> units = CostUnits.of(Meter({"a": 0.1, "b": 0.2}, {"a": "g", "b": "g"}, {"g": 1.5}), ["a", "b"])
    >>> units.cost(np.array([[True, False], [True, True]])).tolist(), units.scale
    ([16, 18], 10.0)
    """

    features: NDArray[np.int64]
    groups: NDArray[np.int64]
    members: Mask
    scale: float

    @classmethod
    def of(cls, meter: Meter, names: Sequence[str]) -> CostUnits:
        """Turn a meter's prices into units, for features in this order."""
        groups = sorted({meter.group_of[name] for name in names if name in meter.group_of})
        own = [meter.features[name] for name in names]
        shared = [meter.groups[group] for group in groups]
        scale = _scale([*own, *shared])
        members = np.array([[meter.group_of.get(name) == group for group in groups] for name in names], dtype=np.bool_)
        return cls(_whole(own, scale), _whole(shared, scale), members.reshape(len(names), len(groups)), float(scale))

    def cost(self, sets: Mask) -> NDArray[np.int64]:
        """Return the units that acquiring each set [sets, features] costs, each feature and each touched group once."""
        touched = (sets.astype(np.int64) @ self.members.astype(np.int64)) > 0
        return np.asarray(sets.astype(np.int64) @ self.features + touched.astype(np.int64) @ self.groups)


def _scale(prices: Sequence[float]) -> Decimal:
    exact = [Decimal(repr(float(price))) for price in prices]
    decimals = max(0, *(-int(price.normalize().as_tuple().exponent) for price in exact))
    total = sum(exact, Decimal(0))
    if total * 10**decimals <= _LARGEST:
        return Decimal(10) ** decimals
    return Decimal(_LARGEST) / total


def _whole(prices: Sequence[float], scale: Decimal) -> NDArray[np.int64]:
    return np.array([int((Decimal(repr(float(price))) * scale).to_integral_value()) for price in prices], dtype=np.int64)
