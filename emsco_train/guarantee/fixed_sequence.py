"""The choice under a largest error: test one design after the other, and stop at the first that fails.

Why the promise is kept, whatever the number of candidates: the line is settled before the certify rows are looked at. Suppose
some designs in it have too large an error, and let X be the first of them. To choose any of them, the walk must get past X, so
X must pass its own test; and an exact test at level 1 - confidence lets it pass with no more than that chance. No correction for
the number of tests is due, because the one test of X decides. All that is used of the line is that it does not depend on the
certify rows; `candidates` settles it by validation figures and by how many certify rows there are.

Why the certificate states the wished error and not the chosen design's own bound: how far the walk gets is decided by the same
rows, so nothing holds such a bound to its confidence. The lowest bound of those that passed was below the true error in 10 % of
the repeats of a trial with 30 equally good candidates, at a promised 5 %.

Binomial is the number of wrong rows among the accepted ones, given how many are accepted; the test holds for each such number,
and so for all of them together. A split stratified by label is, if anything, less variable than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emsco_runtime.bundle.manifest import Certificate, CertifiedChoice
from emsco_runtime.bundle.summary import percent_at_most, pluralize
from emsco_train.designs.design import Design
from emsco_train.designs.selection import Requirements
from emsco_train.errors import CertificationError, DesignError
from emsco_train.guarantee.bounds import binomial_cdf, rows_needed, upper_bound
from emsco_train.guarantee.candidates import Candidate, order_candidates
from emsco_train.guarantee.certificate import certify_choice
from emsco_train.guarantee.decision_counts import DecisionCounts
from emsco_train.guarantee.error_target import ErrorTarget

__all__ = ["CertifiedDesign", "choose_certified"]


@dataclass(frozen=True, slots=True)
class CertifiedDesign:
    """The chosen design and what is promised of it.

    Parameters
    ----------
    design
        With its figures on the validation rows.
    certificate
        For the manifest.
    sequence
        Ids of the designs that stood in line, in order; the first of them were tested, as many as the certificate says.
    """

    design: Design
    certificate: Certificate
    sequence: tuple[str, ...]


def choose_certified(
    candidates: Sequence[Candidate],
    *,
    rows: int,
    max_error: float,
    confidence: float,
    full_cost: float,
    requirements: Requirements | None = None,
) -> CertifiedDesign:
    """Choose the most wished design of those that are shown to have an error of at most `max_error`.

    Parameters
    ----------
    candidates
        Designs with their validation figures, fittest first.
    rows
        How many certify rows there are.
    max_error
        The largest share of wrong labels among accepted items: above 0 and below 1.
    confidence
        How often such a promise is kept, at least: from 0.5 to below 1.
    full_cost
        Cost of acquiring every feature, as for `Requirements.choose`.
    requirements
        Floors and caps on validation figures, and what decides among the designs that pass. Unless it says by what, the one
        with most coverage on validation; where it has a floor on coverage, the cheapest.

    Raises
    ------
    SelectionError
        If no design satisfies the floors and caps.
    CertificationError
        If nothing can be certified: it tells the nearest bound, and about how many rows it would take.
    """
    target = ErrorTarget(max_error, confidence)
    sequence = order_candidates(
        candidates, rows=rows, target=target, requirements=requirements or Requirements(), full_cost=full_cost
    )
    passed, failed = _test_in_order(sequence, rows, target)
    if not passed:
        raise _failure(sequence[0], failed[0], target)
    choice = CertifiedChoice(candidates=len(sequence), tested=len(passed) + len(failed), passed=len(passed))
    # Each design in line is more wished than the one before: the last to pass is the choice.
    certificate = certify_choice(passed[-1], target.max_error, target.confidence, choice)
    return CertifiedDesign(sequence[len(passed) - 1].design, certificate, tuple(candidate.design.id for candidate in sequence))


def _test_in_order(
    sequence: Sequence[Candidate], rows: int, target: ErrorTarget
) -> tuple[list[DecisionCounts], list[DecisionCounts]]:
    """Return the counts of the designs that passed, and of the one that failed, if any did."""
    passed: list[DecisionCounts] = []
    for candidate in sequence:
        counts = candidate.decide()
        if counts.rows != rows:
            detail = f"it decided {counts.rows:,} of {pluralize(rows, 'certify row')}"
            raise DesignError(f"design {candidate.design.id}: {detail}: every design is tested on all of them")
        if binomial_cdf(counts.all_wrong, counts.all_accepted, target.max_error) > 1.0 - target.confidence:
            return passed, [counts]
        passed.append(counts)
    return passed, []


def _failure(first: Candidate, counts: DecisionCounts, target: ErrorTarget) -> CertificationError:
    accepted, wrong = counts.all_accepted, counts.all_wrong
    bound = upper_bound(wrong, accepted, target.confidence)
    needed = rows_needed(target.max_error, target.confidence)
    detail = (
        f"the safest by validation, {first.design.id}, was wrong in {wrong:,} of {pluralize(accepted, 'accepted certify row')}"
    )
    text = f"{target.refusal_text()}: {detail}, so its error may be as large as {percent_at_most(bound)}"
    if accepted < needed:
        share = f", {pluralize(-(-needed * counts.rows // accepted), 'certify row')} at its coverage" if accepted else ""
        advice = f"It takes {target.rows_text(needed)}{share}. Give more rows, or search with other thresholds"
    else:
        advice = f"It takes {target.rows_text(needed)}, and there are no fewer: search with higher thresholds"
    caution = "Asking the same rows again for another error proves less than it says"
    return CertificationError(f"{text}. {advice}. {caution}", first.design.id, bound, needed)
