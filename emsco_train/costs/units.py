"""Costs as whole numbers of a small unit, so that equal costs are equal and comparing them is exact.

Sums of decimal prices depend on the order of adding in their last bits, so comparing millions of such sums would distinguish
designs that cost the same. Prices as people write them (a few decimals) become whole numbers without loss; others are rounded to
a unit of about a trillionth of the total. Costs that are shown to people are still computed by the `Meter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.bundle.meter import Meter
from emsco_runtime.support.arrays import Mask

__all__ = ["CostUnits"]

# Most units of one item, and of all validation rows together: sums must stay well inside 64 bits.
_MAX_ITEM_UNITS = 2**40
_MAX_TOTAL_UNITS = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class CostUnits:
    """Prices of features and of their groups in whole units, of which `scale` make 1 of the user's cost.

    `members` says which feature belongs to which group [features, groups].

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
    def of(cls, meter: Meter, names: Sequence[str], rows: int = 1) -> CostUnits:
        """Turn a meter's prices of these features into units.

        Costs are to be summed over `rows` rows; above four million, prices with many digits are rounded a little more.
        """
        groups = sorted({group for name in names for group in meter.groups_of(name)})
        own = [meter.features[name] for name in names]
        shared = [meter.groups[group] for group in groups]
        scale = _scale([*own, *shared], min(_MAX_ITEM_UNITS, _MAX_TOTAL_UNITS // rows))
        members = np.array([[group in meter.groups_of(name) for group in groups] for name in names], dtype=np.bool_)
        return cls(_to_units(own, scale), _to_units(shared, scale), members.reshape(len(names), len(groups)), float(scale))

    def cost(self, sets: Mask) -> NDArray[np.int64]:
        """Return the units that acquiring each set [sets, features] costs, each feature and each of their groups once."""
        touched = (sets.astype(np.int64) @ self.members.astype(np.int64)) > 0
        return np.asarray(sets.astype(np.int64) @ self.features + touched.astype(np.int64) @ self.groups)


def _scale(prices: Sequence[float], largest: int) -> Decimal:
    exact = [Decimal(repr(float(price))) for price in prices]
    decimals = max(0, *(-int(price.normalize().as_tuple().exponent) for price in exact))
    total = sum(exact, Decimal(0))
    if total * 10**decimals <= largest:
        return Decimal(10) ** decimals
    return Decimal(largest) / total


def _to_units(prices: Sequence[float], scale: Decimal) -> NDArray[np.int64]:
    return np.array([int((Decimal(repr(float(price))) * scale).to_integral_value()) for price in prices], dtype=np.int64)
