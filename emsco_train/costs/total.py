"""The total of costs that several rows paid each, rounded once."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["total_cost"]


def total_cost(rows: Sequence[int], costs: Sequence[float]) -> float:
    """Return the sum of costs, each times the number of rows that paid it, rounded once at the end.

    So the total does not depend on the order, and rows that are counted by stage cost what they cost one by one.

    Examples
    --------
    >>> total_cost([3, 7], [0.1, 0.3]), 3 * 0.1 + 7 * 0.3
    (2.4, 2.4000000000000004)
    """
    # Denominators of floats are powers of two, so the largest one is a multiple of all. Fractions take six times as long.
    ratios = [float(cost).as_integer_ratio() for cost in costs]
    common = max((denominator for _, denominator in ratios), default=1)
    terms = (count * numerator * (common // denominator) for count, (numerator, denominator) in zip(rows, ratios, strict=True))
    return sum(terms) / common
