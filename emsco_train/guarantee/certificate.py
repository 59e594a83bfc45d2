"""The certificate of a design: what its decisions on the certify rows promise.

The rows must be new to everything that shaped the design: fitting, search and selection. They stand for production if they are
like its items and were drawn independently of each other; no sum can make up for rows that were not.
"""

from __future__ import annotations

from emsco_runtime.bundle.manifest import Certificate, CertifiedChoice, CoverageBounds, LabelBounds, WrongShare
from emsco_train.guarantee.bounds import check_confidence, lower_bound, upper_bound
from emsco_train.guarantee.decision_counts import DecisionCounts

__all__ = ["certify", "certify_choice"]


def certify(counts: DecisionCounts, confidence: float) -> Certificate:
    """Certify a design that was fixed before anyone looked at these rows.

    The error among accepted items gets its exact (Clopper-Pearson) upper bound; so do the error among items accepted as each
    label, and the share of each true label that is accepted wrongly. Coverage is bounded from both sides. Each of these bounds
    holds at the confidence given, each taken by itself.

    Parameters
    ----------
    counts
        The design's decisions on the certify rows.
    confidence
        How often such a bound holds, at least: from 0.5 to below 1.

    Examples
    --------
    >>> import numpy as np
    >>> right = np.repeat([0, 1], [150, 50])
    >>> given = certify(DecisionCounts.of(right, right, ("ham", "spam")), 0.95)
    >>> round(given.max_error, 4), [round(bounds.accepted_as.upper, 4) for bounds in given.labels]
    (0.0149, [0.0198, 0.0582])
    """
    level = check_confidence(confidence)
    return Certificate(
        method="clopper-pearson",
        confidence=level,
        max_error=upper_bound(counts.all_wrong, counts.all_accepted, level),
        rows=counts.rows,
        accepted=counts.all_accepted,
        wrong=counts.all_wrong,
        coverage=_coverage_bounds(counts, level),
        labels=_label_bounds(counts, level),
        joint=False,
        choice=None,
    )


def certify_choice(counts: DecisionCounts, max_error: float, confidence: float, choice: CertifiedChoice) -> Certificate:
    """Return the certificate of a design that passed the tests of `max_error`, and was chosen for it.

    It states the `max_error` that was tested. Which design was chosen depends on the certify rows, so the chosen one's own bounds
    may flatter it. Those on coverage and per label are therefore widened to hold for all candidates at once: each at confidence
    1 - (1 - confidence) / candidates.

    Parameters
    ----------
    counts
        The chosen design's decisions on the certify rows.
    max_error, confidence
        What was tested.
    choice
        How many designs were candidates, tested, and passed.
    """
    joint = 1.0 - (1.0 - confidence) / choice.candidates
    return Certificate(
        method="fixed-sequence",
        confidence=confidence,
        max_error=max_error,
        rows=counts.rows,
        accepted=counts.all_accepted,
        wrong=counts.all_wrong,
        coverage=_coverage_bounds(counts, joint),
        labels=_label_bounds(counts, joint),
        joint=True,
        choice=choice,
    )


def _coverage_bounds(counts: DecisionCounts, confidence: float) -> CoverageBounds:
    return CoverageBounds(
        lower=lower_bound(counts.all_accepted, counts.rows, confidence),
        upper=upper_bound(counts.all_accepted, counts.rows, confidence),
    )


def _label_bounds(counts: DecisionCounts, confidence: float) -> tuple[LabelBounds, ...]:
    return tuple(
        LabelBounds(
            label=label,
            accepted_as=_wrong_share(counts.accepted_wrong[position], counts.accepted[position], confidence),
            true=_wrong_share(counts.true_wrong[position], counts.true[position], confidence),
        )
        for position, label in enumerate(counts.labels)
    )


def _wrong_share(wrong: int, rows: int, confidence: float) -> WrongShare:
    return WrongShare(rows=rows, wrong=wrong, upper=upper_bound(wrong, rows, confidence))
