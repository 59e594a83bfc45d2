"""The choice under a largest error: test one design after the other, and stop at the first that fails.

Why the guarantee holds, whatever the number of candidates: the sequence is fixed before the certify rows are looked at. Suppose
some designs in it have too large an error, and let X be the first of them. To choose any of them, the tests must get past X, so
X must pass its own test; and an exact test at level 1 - confidence lets it pass with no more than that probability. No correction
for the number of tests is needed, because the one test of X decides. All that is used of the sequence is that it does not depend
on the certify rows; `candidates` makes it from validation figures and from how many certify rows there are.

Why the certificate states the largest error asked for and not the chosen design's own bound: how far the tests get is decided by
the same rows, so nothing holds such a bound to its confidence. The lowest bound of those that passed was below the true error in
10 % of the repeats of a trial with 30 equally good candidates, at a nominal 5 %.

The number of wrong rows among the accepted ones is binomial, given how many are accepted; the test holds for each such number,
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
from emsco_train.guarantee.bounds import ErrorTarget, rows_needed
from emsco_train.guarantee.candidates import Candidate, order_candidates
from emsco_train.guarantee.certificate import certify_choice
from emsco_train.guarantee.decision_counts import DecisionCounts
from emsco_train.support.binomial import binomial_cdf, upper_bound

__all__ = ["CertifiedDesign", "choose_certified"]


@dataclass(frozen=True, slots=True)
class CertifiedDesign:
    """The chosen design, its certificate, and the ids in the order of testing: as many were tested as the certificate says."""

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
    """Choose the preferred design of those that are shown, on so many certify rows, to have an error of at most `max_error`.

    Candidates are given fittest first. Of those that meet the requirements and pass, the one with most coverage on validation is
    chosen; where there is a floor on coverage, the cheapest; or as `requirements.by` says.

    Raises
    ------
    SelectionError
        If no design meets the requirements.
    CertificationError
        If nothing can be certified: it holds the nearest bound, and about how many rows it would take.
    """
    target = ErrorTarget(max_error, confidence)
    sequence = order_candidates(
        candidates, rows=rows, target=target, requirements=requirements or Requirements(), full_cost=full_cost
    )
    passed, failed = _test_in_order(sequence, rows, target)
    if not passed:
        raise _failure(sequence[0], failed[0], target)
    choice = CertifiedChoice(candidates=len(sequence), tested=len(passed) + len(failed), passed=len(passed))
    # Each design is preferred to the one before it: the last to pass is chosen.
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
            raise DesignError(
                f"design {candidate.design.id}: it decided {counts.rows:,} of {pluralize(rows, 'certify row')}: "
                "every design must be tested on all of them"
            )
        if binomial_cdf(counts.all_wrong, counts.all_accepted, target.max_error) > 1.0 - target.confidence:
            return passed, [counts]
        passed.append(counts)
    return passed, []


def _failure(first: Candidate, counts: DecisionCounts, target: ErrorTarget) -> CertificationError:
    accepted, wrong = counts.all_accepted, counts.all_wrong
    bound = upper_bound(wrong, accepted, target.confidence)
    needed = rows_needed(target.max_error, target.confidence)
    if accepted < needed:
        share = f", {pluralize(-(-needed * counts.rows // accepted), 'certify row')} at its coverage" if accepted else ""
        advice = f"{share}. Give more rows, or search with other thresholds"
    else:
        advice = ", and there are no fewer: search with higher thresholds"
    return CertificationError(
        f"{target.refusal_text()}: the safest by validation, {first.design.id}, was wrong in {wrong:,} of "
        f"{pluralize(accepted, 'accepted certify row')}, so its error may be as large as {percent_at_most(bound)}. "
        f"It takes {target.rows_text(needed)}{advice}. "
        "Asking the same rows again for another error proves less than it says",
        first.design.id,
        bound,
        needed,
    )
