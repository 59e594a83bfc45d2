"""Summaries of many decisions: the figures that a manifest promises and that `emsco-run` prints, computed in one place."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from emsco_runtime.manifest import CostSummary

__all__ = ["percent", "summarise_costs"]


def summarise_costs(costs: Sequence[float]) -> CostSummary:
    """Return mean, median, 95 % quantile and maximum of costs per item.

    The quantiles are costs that some item had (no interpolation), the mean is exact to the last bit, whatever the order.

    Examples
    --------
    >>> summarise_costs([1.0, 1.0, 4.0, 28.0])
    CostSummary(mean=8.5, p50=1.0, p95=28.0, max=28.0)
    """
    low, high = min(costs), max(costs)
    # Rounding can put the mean of equal numbers a hair outside them.
    mean = min(max(math.fsum(costs) / len(costs), low), high)
    p50, p95 = np.quantile(costs, [0.5, 0.95], method="inverted_cdf").tolist()
    return CostSummary(mean=mean, p50=p50, p95=p95, max=high)


def percent(part: int, whole: int) -> str:
    """Return a share as text, the same everywhere it is printed.

    Examples
    --------
    >>> percent(531, 569)
    '93.32 %'
    >>> percent(0, 0)
    'n/a'
    """
    return f"{100 * part / whole:.2f} %" if whole else "n/a"
