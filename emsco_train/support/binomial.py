"""Exact bounds and tests for a share that was counted on rows.

Everything here uses the binomial distribution itself, not an approximation of it: of `rows` independent rows, each is a hit with
the same unknown probability.
"""

from __future__ import annotations

import math

from emsco_train.errors import DesignError

__all__ = ["binomial_cdf", "is_cdf_below", "lower_bound", "lower_bound_level", "upper_bound"]

# The sum of a tail is right to about nine digits; where more of them would decide, the exact function does.
_RELATIVE_TOLERANCE = 1e-6
_NEGLIGIBLE = 1e-16


def upper_bound(hits: float, rows: float, confidence: float) -> float:
    """Return the exact (Clopper-Pearson) upper bound on a share: the largest one that agrees with the count.

    Whatever the true share, the bound is below it in at most 1 - confidence of all samples. Without rows it is 1.

    Parameters
    ----------
    hits
        How many rows were hits.
    rows
        Of how many. Effective numbers of rows, which need not be whole, are taken as they are.
    confidence
        How often the bound holds, at least.

    Examples
    --------
    >>> round(upper_bound(0, 100, 0.95), 4), round(upper_bound(3, 100, 0.95), 4), upper_bound(0, 0, 0.95)
    (0.0295, 0.0757, 1.0)
    """
    _check_counts(hits, rows)
    if hits == rows:
        return 1.0
    from scipy.special import betaincinv  # noqa: PLC0415 - loads a compiled library, needed for guarantees only

    return float(betaincinv(hits + 1, rows - hits, confidence))


def lower_bound(hits: float, rows: float, confidence: float) -> float:
    """Return the exact (Clopper-Pearson) lower bound on a share, as in `upper_bound`; 0 without rows.

    Examples
    --------
    >>> round(lower_bound(97, 100, 0.95), 4), lower_bound(0, 100, 0.95)
    (0.9243, 0.0)
    """
    _check_counts(hits, rows)
    if hits == 0:
        return 0.0
    from scipy.special import betaincinv  # noqa: PLC0415 - as above

    return float(betaincinv(hits, rows - hits + 1, 1.0 - confidence))


def lower_bound_level(hits: float, rows: float, share: float) -> float:
    """Return the highest confidence at which `lower_bound` is not below a share.

    Examples
    --------
    >>> round(lower_bound_level(97, 100, 0.9243), 3), lower_bound_level(0, 100, 0.1), lower_bound_level(0, 0, 0.0)
    (0.95, 0.0, 1.0)
    """
    _check_counts(hits, rows)
    if share <= 0.0 or hits == 0:
        return float(share <= 0.0)
    from scipy.special import betainc  # noqa: PLC0415 - as above

    return 1.0 - float(betainc(hits, rows - hits + 1, share))


def binomial_cdf(hits: int, rows: int, share: float) -> float:
    """Return the probability of so few hits, or fewer, if the true share is as given; 1 without rows.

    With the wrong rows among the accepted ones as hits, this is the exact p-value of "the error is above `share`": any error
    above it makes so few wrong rows even less likely.

    Examples
    --------
    >>> round(binomial_cdf(0, 59, 0.05), 4), round(binomial_cdf(0, 58, 0.05), 4), binomial_cdf(0, 0, 0.05)
    (0.0485, 0.051, 1.0)
    """
    _check_counts(hits, rows)
    if hits == rows:
        return 1.0
    from scipy.special import betainc  # noqa: PLC0415 - as above

    return float(betainc(rows - hits, hits + 1, 1.0 - share))


def is_cdf_below(hits: int, rows: int, share: float, level: float) -> bool:
    """Return whether `binomial_cdf` is at most `level`, which is below a half; mostly without importing scipy.

    Examples
    --------
    >>> is_cdf_below(160, 200, 0.95, 0.01), is_cdf_below(189, 200, 0.95, 0.01), is_cdf_below(0, 0, 0.95, 0.01)
    (True, False, False)
    """
    _check_counts(hits, rows)
    # The median is next to the mean, so from the mean on the probability is at least a half.
    if hits >= rows * share:
        return False
    probability = _lower_tail(hits, rows, share)
    if abs(probability - level) > _RELATIVE_TOLERANCE * level:
        return probability < level
    return binomial_cdf(hits, rows, share) <= level


def _lower_tail(hits: int, rows: int, share: float) -> float:
    """Return `binomial_cdf` below the mean, to about nine digits: the sum over `hits` hits, one less, and so on."""
    if share >= 1.0:
        return 0.0
    ways = math.lgamma(rows + 1) - math.lgamma(hits + 1) - math.lgamma(rows - hits + 1)
    term = math.exp(ways + hits * math.log(share) + (rows - hits) * math.log1p(-share))
    total, count = 0.0, hits
    while term > _NEGLIGIBLE * total:
        total += term
        term *= count * (1.0 - share) / ((rows - count + 1) * share)
        count -= 1
    return total


def _check_counts(hits: float, rows: float) -> None:
    if not 0 <= hits <= rows:
        raise DesignError(f"{hits:g} of {rows:g} rows is not possible: hits must be between 0 and the number of rows")
