"""The certificate of a design: what its decisions on the certify rows guarantee.

The rows must be new to everything that shaped the design: fitting, search and selection. They represent production if they are
like its items and were drawn independently of each other; no computation can make up for rows that were not.
"""

from __future__ import annotations

from typing import Literal

from emsco_runtime.bundle.manifest import Certificate, CertifiedChoice, CoverageBounds, LabelBounds, WrongShare
from emsco_train.guarantee.bounds import check_confidence
from emsco_train.guarantee.decision_counts import DecisionCounts
from emsco_train.support.binomial import lower_bound, upper_bound

__all__ = ["certify", "certify_choice"]


def certify(counts: DecisionCounts, confidence: float) -> Certificate:
    """Certify a design that was fixed before anyone looked at these rows, at a confidence from 0.5 to below 1.

    The error among accepted items gets its exact (Clopper-Pearson) upper bound; so do the error among items accepted as each
    label, and the share of each true label that is accepted wrongly. Coverage is bounded from both sides. Each of these bounds
    holds at the confidence given, each taken by itself.

    Examples
    --------
    >>> import numpy as np
    >>> right = np.repeat([0, 1], [150, 50])
    >>> given = certify(DecisionCounts.of(right, right, ("ham", "spam")), 0.95)
    >>> round(given.max_error, 4), [round(bounds.accepted_as.upper, 4) for bounds in given.labels]
    (0.0149, [0.0198, 0.0582])
    """
    level = check_confidence(confidence)
    max_error = upper_bound(counts.all_wrong, counts.all_accepted, level)
    return _certificate("clopper-pearson", counts, max_error, level, level, None)


def certify_choice(counts: DecisionCounts, max_error: float, confidence: float, choice: CertifiedChoice) -> Certificate:
    """Return the certificate of a design that passed the tests of `max_error`, and was chosen for it.

    It states the `max_error` that was tested. Which design was chosen depends on the certify rows, so the chosen one's own bounds
    may be too good. Those on coverage and per label are therefore widened to hold for all candidates at once: each at confidence
    1 - (1 - confidence) / candidates.
    """
    joint = 1.0 - (1.0 - confidence) / choice.candidates
    return _certificate("fixed-sequence", counts, max_error, confidence, joint, choice)


def _certificate(
    method: Literal["clopper-pearson", "fixed-sequence"],
    counts: DecisionCounts,
    max_error: float,
    confidence: float,
    bounds_confidence: float,
    choice: CertifiedChoice | None,
) -> Certificate:
    def wrong_share(wrong: int, rows: int) -> WrongShare:
        return WrongShare(rows=rows, wrong=wrong, upper=upper_bound(wrong, rows, bounds_confidence))

    columns = zip(counts.labels, counts.accepted_wrong, counts.accepted, counts.true_wrong, counts.true, strict=True)
    return Certificate(
        method=method,
        confidence=confidence,
        max_error=max_error,
        rows=counts.rows,
        accepted=counts.all_accepted,
        wrong=counts.all_wrong,
        coverage=CoverageBounds(
            lower=lower_bound(counts.all_accepted, counts.rows, bounds_confidence),
            upper=upper_bound(counts.all_accepted, counts.rows, bounds_confidence),
        ),
        labels=tuple(
            LabelBounds(label=label, accepted_as=wrong_share(accepted_wrong, accepted), true=wrong_share(true_wrong, true))
            for label, accepted_wrong, accepted, true_wrong, true in columns
        ),
        joint=choice is not None,
        choice=choice,
    )
