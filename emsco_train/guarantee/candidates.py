"""Which designs are tested on the certify rows, in which order: decided by validation figures before a certify row is read.

Any sequence made without the certify rows keeps the guarantee; a good one makes it likely that a preferred design is reached.
Ours:

1. Left out are designs that do not meet the requirements, those whose validation figures miss a limit of the promise, and those
   that could not pass even without a wrong row, because too few certify rows would be accepted.
2. Each of the others gets its `pass_probability`: the probability, by its validation figures, that it will pass all tests on
   as many certify rows as there are, in whole percents. It weighs a small error against few accepted rows, and few validation
   rows against many. The safest come first; of equally safe ones, the preferred.
3. Then every design that would not be chosen in any case is left out, because an earlier one is as good by the requirements. A
   useless test could only end the sequence too soon. So every design is preferred to the one before, and less safe.

In trials with 10 to 40 candidates and 500 to 3,000 rows this reached about the same coverage as ordering by the upper bound of
the validation error where designs were nested, and up to 8 points more where they were not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from emsco_runtime.bundle.summary import percent, pluralize
from emsco_train.designs.counts import Counts
from emsco_train.designs.design import Design
from emsco_train.designs.precision import Precision
from emsco_train.designs.selection import Requirements
from emsco_train.errors import CertificationError, DesignError
from emsco_train.guarantee.bounds import max_wrong_allowed, min_rows
from emsco_train.guarantee.evidence import Evidence
from emsco_train.guarantee.limits import CostLimit, Failures, ShareLimit, betting_width
from emsco_train.guarantee.promise import Promise
from emsco_train.support.binomial import upper_bound

__all__ = ["Candidate", "order_candidates", "pass_probability"]

# Probabilities and coverages are compared in whole percents: more digits of estimates only lengthened the sequence in trials.
_DIGITS = 2


# No slots: `cached_property` keeps what the design did on the validation rows.
@dataclass(frozen=True, eq=False)
class Candidate:
    """A design that may be certified, with its figures on the validation rows.

    Parameters
    ----------
    design
        The design; its figures must come from as many rows as it says.
    decide
        Returns what the design does with the certify rows. It is called when the design is tested, and otherwise never.
    decide_validation
        Returns what it does with the validation rows: for limits on the cost, and for limits per label where the design does
        not know its counts per label, or rows have weights.
    split
        Name of the rows that its figures are from, for messages: "validation", or "cross-fitted".
    """

    design: Design
    decide: Callable[[], Evidence]
    decide_validation: Callable[[], Evidence] | None = None
    split: str = "validation"

    def __post_init__(self) -> None:
        """Raise for figures that cannot come from as many rows as the design says."""
        rows, coverage, counts = self.design.rows, self.design.coverage, self.counts
        if rows < 1 or not math.isclose(coverage * counts.total, counts.accepted, abs_tol=1e-6):
            raise DesignError(
                f"design {self.design.id}: coverage {coverage} of {pluralize(rows, f'{self.split} row')} is not a whole number: "
                "give the rows that it was evaluated on"
            )

    @property
    def counts(self) -> Counts:
        """The counts on the validation rows, in units where these have weights."""
        return self.design.counts

    @cached_property
    def validation(self) -> Evidence:
        """What it does with the validation rows."""
        if self.decide_validation is None:
            raise DesignError(
                f"design {self.design.id}: a limit per label or on the cost takes its decisions on the {self.split} rows: "
                "give decide_validation"
            )
        return self.decide_validation()

    def count(self, limit: ShareLimit) -> Failures:
        """Return the validation counts that a limit is about; of rows with weights, as many as say as much without weights."""
        if self.design.units is not None:
            return self._effective_count(limit)
        if limit.kind == "error":
            return Failures(self.counts.wrong, self.counts.accepted)
        if limit.kind == "coverage":
            return Failures(self.counts.rows - self.counts.accepted, self.counts.rows)
        return self._count_label(limit)

    def expected_rows(self, limit: ShareLimit, rows: int) -> int:
        """Return how many of `rows` other rows a limit would be about, by the validation rows, rounded up."""
        if limit.kind == "coverage":
            return rows
        if limit.kind == "error":
            return -(-self.counts.accepted * rows // self.counts.total)
        return -(-self._count_label(limit).rows * rows // self.counts.rows)

    def _count_label(self, limit: ShareLimit) -> Failures:
        """Return the validation rows that a limit per label is about, whatever they weigh."""
        own = next((counts for counts in self.design.labels if counts.label == limit.label), None)
        if own is None or self.design.units is not None:
            return limit.count(self.validation.counts)
        # The search has counted them: nothing needs to be fitted again.
        if limit.kind == "recall":
            return Failures(own.rows - own.right, own.rows)
        return Failures(own.accepted_as - own.right, own.accepted_as)

    def _effective_count(self, limit: ShareLimit) -> Failures:
        design = self.design
        # A design that knows its rows has a precision.
        precision = design.precision or Precision.of_counts(self.counts)
        if limit.kind == "error":
            return _failures_of(1.0 - design.accuracy, precision.accepted)
        if limit.kind == "coverage":
            return _failures_of(1.0 - design.coverage, precision.rows)
        failures, among = limit.masks(self.validation)
        weights = np.ones(self.validation.rows) if self.validation.weights is None else self.validation.weights.of_rows
        total = float(weights[among].sum())
        if not total:
            return Failures(0, 0)
        return _failures_of(float(weights[failures & among].sum()) / total, total**2 / float((weights[among] ** 2).sum()))


def _failures_of(share: float, size: float) -> Failures:
    return Failures(round(share * size), round(size))


def order_candidates(
    candidates: Sequence[Candidate], *, rows: int, promise: Promise, requirements: Requirements, full_cost: float
) -> tuple[Candidate, ...]:
    """Return the candidates to be tested on `rows` certify rows, in order; no `decide` is called.

    Among designs that meet the requirements coverage in whole percents decides, then cost; cost alone where a coverage is
    required; or what they say.

    Raises
    ------
    SelectionError
        If no design meets the requirements.
    CertificationError
        If none of those that do can pass, by their validation figures; the certify rows stay unseen.
    """
    by = requirements.by or ("coverage" if requirements.min_coverage is None else "cost")
    # A promise alone is enough for other thresholds to be tried.
    criterion = replace(requirements, by=by, suggest_floors=False)
    # Raises, with the nearest design, where none meets the requirements.
    criterion.choose([candidate.design for candidate in candidates], full_cost)
    matching = [candidate for candidate in candidates if requirements.meets(candidate.design)]
    faults = _find_faults(matching, rows, promise)
    eligible = [candidate for candidate, fault in zip(matching, faults, strict=True) if fault is None]
    if not eligible:
        raise _no_candidate_error(matching, faults, rows, promise)
    by_probability: dict[float, list[Candidate]] = {}
    for candidate in eligible:
        by_probability.setdefault(pass_probability(candidate, rows, promise), []).append(candidate)
    sequence: list[Candidate] = []
    for probability in sorted(by_probability, reverse=True):
        rivals = [*sequence[-1:], *by_probability[probability]]
        if requirements.by is None and by == "coverage":
            best = max(rivals, key=_coverage_for_cost)
        else:
            chosen = criterion.choose([candidate.design for candidate in rivals], full_cost)
            best = next(candidate for candidate in rivals if candidate.design is chosen)
        if best not in sequence:
            sequence.append(best)
    return tuple(sequence)


def _coverage_for_cost(candidate: Candidate) -> tuple[float, ...]:
    """Return what a promise alone asks for, the larger the better: nobody pays twice the cost for one item in a thousand more."""
    design = candidate.design
    return round(design.coverage, _DIGITS), -design.cost, design.accuracy, design.coverage


def pass_probability(candidate: Candidate, rows: int, promise: Promise) -> float:
    """Return the probability that a candidate passes on `rows` certify rows, by its validation figures, to whole percents.

    It is the product of the probabilities of all limits, as if these were independent: only the order depends on it.
    """
    return round(math.prod(_limit_probability(candidate, rows, limit, promise.confidence) for limit in promise.limits()), _DIGITS)


def _limit_probability(candidate: Candidate, rows: int, limit: ShareLimit | CostLimit, confidence: float) -> float:
    if isinstance(limit, CostLimit):
        return _cost_probability(candidate.validation, rows, limit, confidence)
    return _share_probability(candidate.count(limit), candidate.expected_rows(limit, rows), limit, confidence)


def _share_probability(seen: Failures, rows: int, limit: ShareLimit, confidence: float) -> float:
    """Return the probability that `rows` certify rows show that a share is kept.

    The true share is taken to be distributed as the validation rows leave it (all shares equally likely before them). The number
    of failures then follows a beta-binomial distribution.
    """
    from scipy.special import betaln, gammaln  # noqa: PLC0415 - loads a compiled library, needed for guarantees only

    failures = np.arange(max_wrong_allowed(rows, limit.most, confidence) + 1)
    bad, good = seen.failures + 1, seen.rows - seen.failures + 1
    ways = gammaln(rows + 1) - gammaln(failures + 1) - gammaln(rows - failures + 1)
    probabilities = np.exp(ways + betaln(bad + failures, good + rows - failures) - betaln(bad, good))
    return math.fsum(probabilities.tolist())


def _cost_probability(seen: Evidence, rows: int, limit: CostLimit, confidence: float) -> float:
    """Return the probability that `rows` certify rows show that the mean cost is kept.

    The mean of the certify rows is taken to be normal around that of the validation rows, both with the spread of the latter, and
    the bound to lie above it by what betting takes where it is at its best.
    """
    if limit.most >= seen.cost_range.high:
        return 1.0
    gap, spread = limit.most - seen.mean_cost, float(seen.cost.std())
    if not spread:
        return float(gap >= 0)
    margin = gap / spread - betting_width(confidence) / math.sqrt(rows)
    return 0.5 * math.erfc(-margin / math.sqrt(2.0 * (1.0 / rows + 1.0 / seen.rows)))


@dataclass(frozen=True, slots=True)
class _Fault:
    """Why a design cannot pass: the limit, and whether too few certify rows would show it, even if all were right."""

    limit: ShareLimit | CostLimit
    too_few: bool


def _find_faults(candidates: Sequence[Candidate], rows: int, promise: Promise) -> list[_Fault | None]:
    """Return the first reason for which each design cannot pass, by its validation figures; None: it can."""
    # How many rows each share takes, at the least.
    limits = {limit: _least_rows(limit, promise.confidence) for limit in promise.limits()}

    def find(candidate: Candidate) -> _Fault | None:
        for limit, least in limits.items():
            if isinstance(limit, CostLimit):
                if candidate.design.cost > limit.most:
                    return _Fault(limit, too_few=False)
                continue
            failures, seen = candidate.count(limit)
            if failures > limit.most * seen:
                return _Fault(limit, too_few=False)
            if candidate.expected_rows(limit, rows) < least:
                return _Fault(limit, too_few=True)
        return None

    return [find(candidate) for candidate in candidates]


def _least_rows(limit: ShareLimit | CostLimit, confidence: float) -> int:
    return 0 if isinstance(limit, CostLimit) else min_rows(limit.most, confidence)


def _no_candidate_error(
    matching: Sequence[Candidate], faults: Sequence[_Fault | None], rows: int, promise: Promise
) -> CertificationError:
    def bound(candidate: Candidate) -> float:
        return upper_bound(*candidate.count(ShareLimit("error", 0.5)), promise.confidence)

    nearest = min(matching, key=bound)
    found: dict[_Fault, int] = {}
    for fault in faults:
        if fault is not None:
            found[fault] = found.get(fault, 0) + 1
    ordered = sorted(found, key=lambda fault: fault.too_few)
    reasons = [_fault_text(fault, found[fault], matching, rows, promise.confidence) for fault in ordered]
    shares = [limit for limit in promise.limits() if isinstance(limit, ShareLimit)]
    # Of the limits that fail, or of the first one where that is the cost, which more rows would not help.
    failing = [limit for limit in shares if limit in {fault.limit for fault in found}] or shares[:1]
    needed = " and ".join(limit.rows_text(promise.confidence) for limit in failing)
    return CertificationError(
        f"{promise.refusal_text()}: {'; '.join(reasons)}; nearest is {nearest.design.id} "
        f"({_wrong_text(nearest)}). "
        f"It takes {needed}. The certify rows were not looked at. "
        "Give more rows, ask for less, or search with other thresholds",
        nearest.design.id,
        None,
        max(limit.rows_needed(promise.confidence) for limit in failing),
    )


def _wrong_text(candidate: Candidate) -> str:
    counts = candidate.counts
    if counts.units is not None:
        return f"{percent(counts.wrong, counts.accepted)} wrong of the accepted {candidate.split} rows, by weight"
    return f"{counts.wrong:,} wrong of {pluralize(counts.accepted, f'accepted {candidate.split} row')}"


def _fault_text(fault: _Fault, designs: int, matching: Sequence[Candidate], rows: int, confidence: float) -> str:
    """Return why so many of the designs cannot pass on `rows` certify rows."""
    limit, split = fault.limit, matching[0].split
    some, have = f"{designs:,} of {pluralize(len(matching), 'design')}", "has" if designs == 1 else "have"
    if isinstance(limit, CostLimit):
        return f"{some} {have} a larger mean cost on the {split} rows"
    if not fault.too_few:
        other = "smaller" if limit.kind in ("coverage", "recall") else "larger"
        return f"{some} {have} a {other} {limit.name()} on the {split} rows"
    least = min_rows(limit.most, confidence)
    if limit.kind == "coverage":
        return f"{pluralize(rows, 'certify row')} are fewer than the {least:,} that show such a coverage if all are accepted"
    if limit.kind == "recall":
        few = f"there are fewer certify rows of {limit.label!r} than the {least:,} that show such a recall"
        return f"{few} if all are accepted as it"
    as_label = f" as {limit.label!r}" if limit.kind == "label" else ""
    if rows < least:
        # Whatever designs accept.
        least_text = f"it takes at least {least:,} accepted{as_label}, all of them right"
        return f"there are {pluralize(rows, 'certify row')}, and {least_text}"
    would = f"{some} would, by the {split} rows, accept fewer than {least:,} of the {pluralize(rows, 'certify row')}{as_label}"
    return f"{would}, too few even if all were right"
