"""What bundles and decisions are summarised as: costs per item, and what a certificate says."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from emsco_runtime.bundle.manifest import Certificate, CostSummary
from emsco_runtime.support.formatting import percent, percent_at_least, percent_at_most, pluralize

__all__ = [
    "describe_certificate",
    "mean_cost",
    "percent",
    "percent_at_least",
    "percent_at_most",
    "pluralize",
    "summarise_costs",
]


def summarise_costs(costs: Sequence[float]) -> CostSummary:
    """Return mean, median, 95 % quantile and maximum of costs per item.

    The quantiles are costs that some item had (no interpolation).

    Examples
    --------
    >>> summarise_costs([1.0, 1.0, 4.0, 28.0])
    CostSummary(mean=8.5, p50=1.0, p95=28.0, max=28.0)
    """
    p50, p95 = np.quantile(costs, [0.5, 0.95], method="inverted_cdf").tolist()
    return CostSummary(mean=mean_cost(costs), p50=p50, p95=p95, max=max(costs))


def mean_cost(costs: Sequence[float]) -> float:
    """Return the mean of costs per item, exact to the last bit, whatever the order."""
    # Rounding can put the mean of equal numbers a hair outside them.
    return min(max(math.fsum(costs) / len(costs), min(costs)), max(costs))


def describe_certificate(certificate: Certificate | None) -> list[str]:
    """Return what a certificate says, as commands print it."""
    if certificate is None:
        return ["certificate  none"]
    choice, coverage = certificate.choice, certificate.coverage
    tests = "" if choice is None else f", {pluralize(choice.tested, 'design')} tested of {choice.candidates}"
    error = f"error among accepted <= {percent_at_most(certificate.max_error)}"
    rows = f"{certificate.method}, {pluralize(certificate.accepted, 'accepted row')} of {certificate.rows:,}{tests}"
    bounds = f"coverage >= {percent_at_least(coverage.lower)}, coverage <= {percent_at_most(coverage.upper)}"
    return [
        f"certificate  {error} at {percent_at_least(certificate.confidence)} confidence ({rows})",
        f"             {bounds}; these and those per label hold each by itself"
        + (", for every candidate" if certificate.joint else ""),
        f"             scope: {certificate.scope}; {certificate.split} rows, which nothing before had seen",
    ]
