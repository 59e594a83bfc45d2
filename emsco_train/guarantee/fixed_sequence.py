"""The choice under a promise: test one design after the other, and stop at the first that fails.

Why the guarantee holds, whatever the number of candidates: the sequence is fixed before the certify rows are looked at. Suppose
some designs in it break a limit of the promise, and let X be the first of them. To choose any of them, the tests must get past X,
so X must pass all of its tests, also that of the limit which it breaks; and an exact test at level 1 - confidence lets it pass
with no more than that probability. No correction is needed, neither for the number of designs nor for that of limits, because the
one test of the one limit of X decides. (A design passes only if every limit's own test does: an intersection-union test. What
would take a correction is to pass with some limit, whichever it is.) All that is used of the sequence is that it does not depend
on the certify rows; `candidates` makes it from validation figures and from how many certify rows there are. All that is used of
the limits is that they were stated in advance.

Why the certificate states the limits asked for and not the chosen design's own bounds: how far the tests get is decided by the
same rows, so nothing holds such a bound to its confidence. The lowest bound of those that passed was below the true error in 10 %
of the repeats of a trial with 30 equally good candidates, at a nominal 5 %. Bounds that are only reported are corrected for the
number of candidates.

The number of wrong rows among the accepted ones is binomial, given how many are accepted; the test holds for each such number,
and so for all of them together. The same goes for the rows accepted as a label, and, over all rows, for coverage. A split
stratified by label is, if anything, less variable than that. The mean cost, and everything where rows have weights, is tested by
`betting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emsco_runtime.bundle.manifest import Certificate, CertifiedChoice
from emsco_runtime.bundle.summary import pluralize
from emsco_train.designs.design import Design
from emsco_train.errors import CertificationError, DesignError
from emsco_train.guarantee.candidates import Candidate
from emsco_train.guarantee.certificate import certify_choice
from emsco_train.guarantee.evidence import Evidence
from emsco_train.guarantee.limits import CostLimit, Limit, ShareLimit
from emsco_train.guarantee.promise import Promise

__all__ = ["CertifiedDesign", "choose_in_sequence"]


@dataclass(frozen=True, slots=True)
class CertifiedDesign:
    """The chosen design, and its certificate."""

    design: Design
    certificate: Certificate


def choose_in_sequence(sequence: Sequence[Candidate], *, rows: int, promise: Promise) -> CertifiedDesign:
    """Test candidates in the order of `order_candidates` on `rows` certify rows, up to the first that fails.

    Raises
    ------
    CertificationError
        If the first one fails.
    """
    passed: list[Evidence] = []
    for candidate in sequence:
        evidence = _decide_all(candidate, rows)
        failed = [limit for limit in promise.limits() if not limit.passes(evidence, promise.confidence)]
        if failed and not passed:
            raise _failure(sequence, evidence, failed, promise)
        if failed:
            break
        passed.append(evidence)
    tested = min(len(passed) + 1, len(sequence))
    choice = CertifiedChoice(candidates=len(sequence), tested=tested, passed=len(passed))
    # Each design is preferred to the one before it: the last to pass is chosen.
    certificate = certify_choice(passed[-1], promise, choice)
    return CertifiedDesign(sequence[len(passed) - 1].design, certificate)


def _decide_all(candidate: Candidate, rows: int) -> Evidence:
    evidence = candidate.decide()
    if evidence.rows != rows:
        raise DesignError(
            f"design {candidate.design.id}: it decided {evidence.rows:,} of {pluralize(rows, 'certify row')}: "
            "every design must be tested on all of them"
        )
    return evidence


def _failure(sequence: Sequence[Candidate], evidence: Evidence, failed: Sequence[Limit], promise: Promise) -> CertificationError:
    """Return the error that the first of a sequence failed, with what it did on the certify rows."""
    first, confidence = sequence[0], promise.confidence
    found = "; it ".join(limit.describe_result(evidence, confidence) for limit in failed)
    remedies = ". ".join(dict.fromkeys(limit.remedy(evidence, confidence) for limit in failed))
    needed = [
        limit.rows_needed(evidence, confidence) if isinstance(limit, CostLimit) else limit.rows_needed(confidence)
        for limit in failed
    ]
    most = 0.5 if promise.max_error is None else promise.max_error
    return CertificationError(
        f"{promise.refusal_text()}: {_describe_failure(sequence, found)}. {remedies}. "
        "Asking the same rows again for something else proves less than it says",
        first.design.id,
        ShareLimit("error", most).bound(evidence, confidence),
        max(needed),
    )


def _describe_failure(sequence: Sequence[Candidate], found: str) -> str:
    """Return what the first design of a sequence did, and that no other was tested."""
    first, others = sequence[0], len(sequence) - 1
    if not others:
        return f"the only design to test, by the {first.split} rows, was {first.design.id}: it {found}"
    rest = "the other one was" if others == 1 else f"the other {others:,} were"
    return (
        f"designs are tested in a fixed order, up to the first that fails. The first of {len(sequence):,}, {first.design.id}, "
        f"the safest on the {first.split} rows, {found}; {rest} not tested"
    )
