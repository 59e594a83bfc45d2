"""The certificate of a design: what its decisions on the certify rows guarantee.

The rows must be new to everything that shaped the design: fitting, search and selection. They represent production if they are
like its items and were drawn independently of each other; no computation can make up for rows that were not.
"""

from __future__ import annotations

from typing import Literal

from emsco_runtime.bundle.manifest import (
    Certificate,
    CertifiedChoice,
    CostBound,
    CoverageBounds,
    LabelBounds,
    RightShare,
    WeightedShares,
    WrongShare,
)
from emsco_runtime.support.arrays import Mask
from emsco_train.guarantee.betting import ORDER_SEED
from emsco_train.guarantee.bounds import check_confidence
from emsco_train.guarantee.evidence import Evidence
from emsco_train.guarantee.promise import Promise
from emsco_train.support.binomial import lower_bound, upper_bound

__all__ = ["certify", "certify_choice"]


def certify(evidence: Evidence, confidence: float) -> Certificate:
    """Certify a design that was fixed before anyone looked at these rows, at a confidence from 0.5 to below 1.

    The error among accepted items gets its exact (Clopper-Pearson) upper bound; so do the error among items accepted as each
    label, and the share of each true label that is accepted wrongly. The recall of each label gets its lower bound. Coverage is
    bounded from both sides, the mean cost from above by betting. Where rows have weights, all bounds are by betting, on shares by
    weight. Each of them holds at the confidence given, each taken by itself.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco_train.guarantee.evidence import CostRange
    >>> right = np.repeat([0, 1], [150, 50])
    >>> evidence = Evidence.of(right, right, ("ham", "spam"), cost=np.full(200, 1.0), cost_range=CostRange(1.0, 4.0))
    >>> given = certify(evidence, 0.95)
    >>> round(given.max_error, 4), [round(bounds.accepted_as.upper, 4) for bounds in given.labels], round(given.cost.upper, 2)
    (0.0149, [0.0198, 0.0582], 1.06)
    """
    level = check_confidence(confidence)
    method: Literal["clopper-pearson", "betting"] = "clopper-pearson" if evidence.weights is None else "betting"
    return _certificate(method, evidence, level, level, None, None)


def certify_choice(evidence: Evidence, promise: Promise, choice: CertifiedChoice) -> Certificate:
    """Return the certificate of a design that passed the tests of everything promised, and was chosen for it.

    It states the limits that were tested. Which design was chosen depends on the certify rows, so the chosen one's own bounds may
    be too good. Those on coverage, on the mean cost, per label, and on the error where it is not promised itself, are therefore
    widened to hold for all candidates at once: each at confidence 1 - (1 - confidence) / candidates.
    """
    joint = 1.0 - (1.0 - promise.confidence) / choice.candidates
    return _certificate("fixed-sequence", evidence, promise.confidence, joint, promise, choice)


def _certificate(
    method: Literal["clopper-pearson", "betting", "fixed-sequence"],
    evidence: Evidence,
    confidence: float,
    bounds_confidence: float,
    promise: Promise | None,
    choice: CertifiedChoice | None,
) -> Certificate:
    counts, accepted, wrong = evidence.counts, evidence.accepted, evidence.wrong
    overall = _wrong_share(evidence, wrong, accepted, bounds_confidence)
    costs = evidence.costs()
    # Without rows of any weight nothing was seen; every row has a cost.
    mean_cost = costs.high if costs.mean is None else costs.mean
    return Certificate(
        method=method,
        confidence=confidence,
        max_error=overall.upper if promise is None or promise.max_error is None else promise.max_error,
        rows=counts.rows,
        accepted=counts.all_accepted,
        wrong=counts.all_wrong,
        coverage=_coverage_bounds(evidence, bounds_confidence),
        labels=tuple(
            LabelBounds(
                label=label,
                accepted_as=_wrong_share(evidence, wrong, evidence.label == position, bounds_confidence),
                true=_wrong_share(evidence, wrong, evidence.target == position, bounds_confidence),
                recall=_recall(evidence, position, bounds_confidence),
            )
            for position, label in enumerate(counts.labels)
        ),
        joint=choice is not None,
        choice=choice,
        promise=None if promise is None else promise.to_limits(),
        cost=CostBound(mean=mean_cost, upper=costs.upper_bound(bounds_confidence)),
        weights=None if evidence.weights is None else _weighted_shares(evidence, overall, evidence.weights.max_weight),
        order_seed=ORDER_SEED,
    )


def _wrong_share(evidence: Evidence, wrong: Mask, among: Mask, confidence: float) -> WrongShare:
    rows, hits = int(among.sum()), int((wrong & among).sum())
    if evidence.weights is None:
        return WrongShare(rows=rows, wrong=hits, upper=upper_bound(hits, rows, confidence))
    share = evidence.share(wrong, among)
    weighted = 1.0 if share.mean is None else share.mean
    return WrongShare(rows=rows, wrong=hits, upper=share.upper_bound(confidence), weighted=weighted)


def _recall(evidence: Evidence, position: int, confidence: float) -> RightShare:
    rows, right = evidence.counts.true[position], evidence.counts.right[position]
    if evidence.weights is None:
        return RightShare(rows=rows, right=right, lower=lower_bound(right, rows, confidence))
    missed = evidence.share(evidence.label != position, evidence.target == position)
    seen = 0.0 if missed.mean is None else 1.0 - missed.mean
    # Rounding can put the bound a hair above what was seen.
    return RightShare(rows=rows, right=right, lower=min(1.0 - missed.upper_bound(confidence), seen), weighted=seen)


def _coverage_bounds(evidence: Evidence, confidence: float) -> CoverageBounds:
    counts, accepted = evidence.counts, evidence.accepted
    if evidence.weights is None:
        found = (counts.all_accepted, counts.rows, confidence)
        return CoverageBounds(lower=lower_bound(*found), upper=upper_bound(*found))
    everything = accepted | True
    lower = 1.0 - evidence.share(~accepted, everything).upper_bound(confidence)
    return CoverageBounds(lower=lower, upper=evidence.share(accepted, everything).upper_bound(confidence))


def _weighted_shares(evidence: Evidence, overall: WrongShare, max_weight: float) -> WeightedShares:
    rejected = evidence.share(~evidence.accepted, evidence.accepted | True).mean
    return WeightedShares(max_weight=max_weight, error=overall.share, coverage=0.0 if rejected is None else 1.0 - rejected)
