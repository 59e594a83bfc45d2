"""Numbers as the page writes them: shares, costs, counts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from emsco_runtime.bundle.summary import percent
from emsco_train.runs.run_file import CountsEntry

__all__ = ["CostFormat", "format_accuracy", "format_coverage", "format_duration"]

_COST_DIGITS = 5
_MAX_DECIMALS = 9


@dataclass(frozen=True, slots=True)
class CostFormat:
    """Costs with the same number of decimals everywhere, so that columns of them line up.

    Examples
    --------
    >>> cost_format = CostFormat(44.29, "CAD")
    >>> cost_format.without_unit(5.30370), cost_format.with_unit(21.0)
    ('5.304', '21.000 CAD')
    >>> cost_format.compact(21.0)
    '21 CAD'
    """

    # Cost of all features: it gets five digits.
    full_cost: float
    unit: str

    @property
    def decimals(self) -> int:
        """How many decimals a cost has."""
        return min(max(0, _COST_DIGITS - 1 - math.floor(math.log10(self.full_cost))), _MAX_DECIMALS)

    def without_unit(self, cost: float) -> str:
        """Return a cost without its unit."""
        return f"{cost:,.{self.decimals}f}"

    def with_unit(self, cost: float) -> str:
        """Return a cost with its unit."""
        return f"{self.without_unit(cost)} {self.unit}"

    def compact(self, cost: float) -> str:
        """Return a price with its unit, without trailing zeros."""
        return f"{cost:.6g} {self.unit}"


def format_coverage(counts: CountsEntry) -> str:
    """Return the share of accepted rows."""
    return percent(counts.accepted, counts.total)


def format_accuracy(counts: CountsEntry) -> str:
    """Return the share of accepted rows that are right."""
    return percent(counts.right, counts.accepted)


def format_duration(seconds: float) -> str:
    """Return a duration in the unit that fits it.

    Examples
    --------
    >>> format_duration(0.24), format_duration(150.0)
    ('0.2 s', '2 min')
    """
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
