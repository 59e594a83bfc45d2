"""What bundles and decisions are summarised as: costs per item, and what a certificate says."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from emsco_runtime.bundle.manifest import Certificate, CertifyUse, CostSummary, LikelyFigures
from emsco_runtime.support.formatting import percent, percent_at_least, percent_at_most, pluralize, round_up

__all__ = [
    "describe_certificate",
    "describe_likely",
    "describe_use",
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


def describe_certificate(certificate: Certificate | None, cost_unit: str = "") -> list[str]:
    """Return what a certificate says, as commands print it."""
    if certificate is None:
        return ["certificate  none"]
    choice, coverage, cost = certificate.choice, certificate.coverage, certificate.cost
    tests = "" if choice is None else f", {pluralize(choice.tested, 'design')} tested of {choice.candidates}"
    weights = "" if certificate.weights is None else f", by weights up to {certificate.weights.max_weight:g}"
    counted = f"{certificate.rows:,}" + ("" if certificate.drawn_from is None else ", one of each group")
    rows = f"{certificate.method}, {pluralize(certificate.accepted, 'accepted row')} of {counted}{tests}{weights}"
    confidence = f"at {percent_at_least(certificate.confidence)} confidence"
    if not certificate.is_held:
        confidence += ", which is not held"
    stated = _describe_limits(certificate, cost_unit)
    if len(stated) == 1:
        guarantee = [f"{stated[0]} {confidence} ({rows})"]
    else:
        guarantee = [f"all of this together {confidence} ({rows}):", *(f"- {limit}" for limit in stated)]
    bounds = [f"coverage >= {percent_at_least(coverage.lower)}", f"coverage <= {percent_at_most(coverage.upper)}"]
    if certificate.promise is not None and certificate.promise.max_error is None:
        bounds.insert(0, f"error among accepted <= {percent_at_most(certificate.max_error)}")
    if cost is not None:
        bounds.append(f"mean cost <= {_format_cost_bound(cost.upper, cost_unit)}")
    each = "each of these bounds, and of those per label, holds on its own, not jointly"
    each += "; they hold for every candidate" if certificate.joint else ""
    lines = [
        *guarantee,
        f"{', '.join(bounds)}; {each}",
        f"scope: {certificate.scope}; {certificate.split} rows{_describe_novelty(certificate)}",
        *(describe_use(certificate.use) if certificate.repeated is None else []),
    ]
    return [f"{'' if place else 'certificate':<13}{line}" for place, line in enumerate(lines)]


def describe_likely(likely: LikelyFigures, cost_unit: str) -> str:
    """Return in words what a choice is likely to give on new rows.

    Examples
    --------
    >>> describe_likely(LikelyFigures(coverage=0.8123, accuracy=0.9051, cost=3.21987), "ms").split("; ")[0]
    'expected on new rows: coverage 81.2 %, accuracy 90.5 %, mean cost 3.21987 ms'
    """
    shares = f"coverage {100 * likely.coverage:.1f} %, accuracy {100 * likely.accuracy:.1f} %"
    why = "the figures above are optimistic, because the design was chosen by them"
    return f"expected on new rows: {shares}, mean cost {likely.cost:.6g} {cost_unit}; {why}"


def describe_use(use: CertifyUse | None) -> list[str]:
    """Return what a use of the certify rows means for the confidence, as commands print it; nothing for the only one planned.

    Examples
    --------
    >>> describe_use(CertifyUse(number=4, planned=1, confidence=0.95))[0]
    'the certify rows had been used 3 times before, 1 use was planned: the confidence is not held; certify with new rows'
    """
    if use is None or (use.is_planned and use.planned == 1):
        return []
    if use.is_planned:
        together = f"all of them together at {percent_at_least(use.confidence)} confidence"
        return [f"use {use.number} of {use.planned} planned, {together}, if none was asked for because of what another showed"]
    were = "was" if use.planned == 1 else "were"
    before = f"used {pluralize(use.number - 1, 'time')} before, {pluralize(use.planned, 'use')} {were} planned"
    return [f"the certify rows had been {before}: the confidence is not held; certify with new rows"]


def _describe_novelty(certificate: Certificate) -> str:
    if certificate.repeated is not None:
        again = f"{certificate.repeated:,} occur again among the rows of the training"
        return f", of which {again}: keep rows of one origin together"
    if certificate.use is None:
        return "; whether they had been used before is not recorded"
    return ", not used before" if certificate.use.number == 1 else ", used before"


def _describe_limits(certificate: Certificate, cost_unit: str) -> list[str]:
    """Return what is guaranteed together, one text for each limit."""
    promise = certificate.promise
    if promise is None:
        return [f"error among accepted <= {percent_at_most(certificate.max_error)}"]
    limits = [] if promise.max_error is None else [f"error among accepted <= {percent_at_most(promise.max_error)}"]
    limits += [f"error among accepted as {limit.label} <= {percent_at_most(limit.max_error)}" for limit in promise.max_error_of]
    limits += [f"recall of {limit.label} >= {percent_at_least(limit.min_recall)}" for limit in promise.min_recall]
    if promise.min_coverage is not None:
        limits.append(f"coverage >= {percent_at_least(promise.min_coverage)}")
    if promise.max_cost is not None:
        limits.append(f"mean cost <= {_format_cost_bound(promise.max_cost, cost_unit)}")
    return limits


def _format_cost_bound(cost: float, unit: str) -> str:
    return f"{round_up(cost)} {unit}".rstrip()
