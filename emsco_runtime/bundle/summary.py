"""Summaries of many decisions: the figures that a manifest promises and that `emsco-run` prints, computed in one place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import numpy as np

from emsco_runtime.bundle.manifest import CostSummary

__all__ = ["mean_cost", "percent", "percent_at_least", "percent_at_most", "pluralize", "summarise_costs"]

_DIGITS = 3


def summarise_costs(costs: Sequence[float]) -> CostSummary:
    """Return mean, median, 95 % quantile and maximum of costs per item.

    The quantiles are costs that some item had (no interpolation), the mean is exact to the last bit, whatever the order.

    Examples
    --------
    >>> summarise_costs([1.0, 1.0, 4.0, 28.0])
    CostSummary(mean=8.5, p50=1.0, p95=28.0, max=28.0)
    """
    p50, p95 = np.quantile(costs, [0.5, 0.95], method="inverted_cdf").tolist()
    return CostSummary(mean=mean_cost(costs), p50=p50, p95=p95, max=max(costs))


def mean_cost(costs: Sequence[float]) -> float:
    """Return the mean of costs per item, exact to the last bit, whatever the order.

    Examples
    --------
    >>> mean_cost([1.0, 1.0, 4.0, 28.0])
    8.5
    """
    # Rounding can put the mean of equal numbers a hair outside them.
    return min(max(math.fsum(costs) / len(costs), min(costs)), max(costs))


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one.

    Parameters
    ----------
    count
        How many.
    noun
        In the singular; its last word gets the s.

    Examples
    --------
    >>> pluralize(1, "design"), pluralize(2000, "feature set"), pluralize(0, "row")
    ('1 design', '2,000 feature sets', '0 rows')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


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


def percent_at_most(bound: float) -> str:
    """Return an upper bound as text; what is cut off is rounded up, so that no more is said than is known.

    Examples
    --------
    >>> percent_at_most(0.03), percent_at_most(0.021301), percent_at_most(0.0000123456)
    ('3 %', '2.14 %', '0.00124 %')
    """
    return _format_rounded(bound, ROUND_CEILING)


def percent_at_least(bound: float) -> str:
    """Return a lower bound as text; what is cut off is rounded down.

    Examples
    --------
    >>> percent_at_least(0.95), percent_at_least(0.78999), percent_at_least(0.0)
    ('95 %', '78.9 %', '0 %')
    """
    return _format_rounded(bound, ROUND_FLOOR)


def _format_rounded(share: float, rounding: str) -> str:
    # In decimal figures, as the number is written: in binary ones, 0.07 * 100 is above 7 and would be rounded up to 7.01.
    shown = Context(prec=_DIGITS, rounding=rounding).create_decimal(Decimal(repr(share)) * 100)
    return f"{shown.normalize():f} %"
