"""Who stands in line for certification, and in which order: settled by validation figures before a certify row is looked at.

Any line made without the certify rows keeps the promise; a good one makes it likely that a wished design is reached. Ours:

1. Left out is what validation speaks against: designs below a floor or above a cap of the wish, those whose validation error is
   above the wished one, and those that could not pass even without a wrong row, because too few certify rows would be accepted.
2. Each of the others gets its `outlook`: the chance, by its validation figures, that it will pass the test on so many certify
   rows, in whole percents. It weighs a small error against few accepted rows, and few validation rows against many. The safest
   come first; of equally safe ones, the most wished.
3. Left out is then whoever would not be chosen in any case, because an earlier one is as good by the wish. A useless test could
   only end the walk too soon. So every design in line is more wished, and less safe, than the one before.

In trials with 10 to 40 candidates and 500 to 3,000 rows this reached about the same coverage as ordering by the upper bound of
the validation error where designs were nested, and up to 8 points more where they were not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from emsco_runtime.summary import counted
from emsco_train.designs.design import Design
from emsco_train.designs.wish import By, Wish
from emsco_train.errors import CertificationError, DesignError
from emsco_train.guarantee.bounds import most_wrong, rows_needed, rows_without_error, upper_bound
from emsco_train.guarantee.promise import Promise
from emsco_train.guarantee.tally import Tally

__all__ = ["Candidate", "line_up", "outlook"]

# Outlooks are estimates: telling them apart beyond whole percents only lengthened the line in trials, and is left to rounding.
_DIGITS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A design that may be certified.

    Parameters
    ----------
    design
        With its figures on the validation rows.
    rows
        How many validation rows are behind these figures.
    decide
        Counts the design's decisions on the certify rows. Called when its turn comes, and never if it does not come.
    """

    design: Design
    rows: int
    decide: Callable[[], Tally]

    def __post_init__(self) -> None:
        """Refuse figures that cannot come from so many rows."""
        if self.rows < 1 or not math.isclose(self.design.coverage * self.rows, self.accepted, abs_tol=1e-6):
            told = f"coverage {self.design.coverage} of {counted(self.rows, 'validation row')}"
            raise DesignError(f"design {self.design.id}: {told} is no whole number: give the rows that it was evaluated on")

    @property
    def accepted(self) -> int:
        """Validation rows accepted."""
        return round(self.design.coverage * self.rows)

    @property
    def wrong(self) -> int:
        """Validation rows accepted with a wrong label."""
        return self.accepted - round(self.design.accuracy * self.accepted)

    def expected_accepted(self, rows: int) -> int:
        """Return how many of so many other rows it would accept by its validation coverage, rounded up."""
        return -(-self.accepted * rows // self.rows)


def line_up(
    candidates: Sequence[Candidate], *, rows: int, promise: Promise, wish: Wish, full_cost: float
) -> tuple[Candidate, ...]:
    """Return the candidates to be tested, in order; no `decide` is called.

    Parameters
    ----------
    candidates
        Fittest first.
    rows
        How many certify rows there are.
    promise
        What is to be proved.
    wish
        Floors and caps, and what decides: by default coverage, or cost where a coverage is wished.
    full_cost
        Cost of acquiring every feature, as for `Wish.choose`.

    Raises
    ------
    SelectionError
        If no design satisfies the floors and caps.
    CertificationError
        If validation speaks against all that do; the certify rows stay unseen.
    """
    aim = replace(wish, by=_decider(wish))
    # Raises, with the nearest design, where none satisfies the wish.
    aim.choose([candidate.design for candidate in candidates], full_cost)
    wished = [candidate for candidate in candidates if wish.meets(candidate.design)]
    least = rows_without_error(promise.max_error, promise.confidence)
    able = [candidate for candidate in wished if not _errs(candidate, promise) and candidate.expected_accepted(rows) >= least]
    if not able:
        raise _hopeless(wished, rows, least, promise)
    equals: dict[float, list[Candidate]] = {}
    for candidate in able:
        equals.setdefault(outlook(candidate, rows, promise), []).append(candidate)
    line: list[Candidate] = []
    for chance in sorted(equals, reverse=True):
        best = _most_wished([*line[-1:], *equals[chance]], aim, full_cost)
        if best not in line:
            line.append(best)
    return tuple(line)


def outlook(candidate: Candidate, rows: int, promise: Promise) -> float:
    """Return the chance that a candidate passes, as far as its validation figures tell, in whole percents (0.93).

    The true error is taken to be spread as its validation rows leave it (all errors equally likely before them), and as many
    certify rows to be accepted as validation rows were. The number of wrong ones then follows a beta-binomial distribution.

    Parameters
    ----------
    candidate
        The design with its validation figures.
    rows
        How many certify rows there are.
    promise
        What is to be proved.
    """
    from scipy.special import betaln, gammaln  # noqa: PLC0415 - loads a compiled library, needed only where something is promised

    accepted = candidate.expected_accepted(rows)
    wrong = np.arange(most_wrong(accepted, promise.max_error, promise.confidence) + 1)
    bad, good = candidate.wrong + 1, candidate.accepted - candidate.wrong + 1
    ways = gammaln(accepted + 1) - gammaln(wrong + 1) - gammaln(accepted - wrong + 1)
    chances = np.exp(ways + betaln(bad + wrong, good + accepted - wrong) - betaln(bad, good))
    return round(math.fsum(chances.tolist()), _DIGITS)


def _decider(wish: Wish) -> By:
    if wish.by is not None:
        return wish.by
    return "coverage" if wish.min_coverage is None else "cost"


def _most_wished(candidates: Sequence[Candidate], aim: Wish, full_cost: float) -> Candidate:
    chosen = aim.choose([candidate.design for candidate in candidates], full_cost)
    return next(candidate for candidate in candidates if candidate.design is chosen)


def _errs(candidate: Candidate, promise: Promise) -> bool:
    return candidate.wrong > promise.max_error * candidate.accepted


def _hopeless(wished: Sequence[Candidate], rows: int, least: int, promise: Promise) -> CertificationError:
    nearest = min(wished, key=lambda candidate: upper_bound(candidate.wrong, candidate.accepted, promise.confidence))
    needed = rows_needed(promise.max_error, promise.confidence)
    errs = sum(_errs(candidate, promise) for candidate in wished)
    narrow = f"{len(wished) - errs} would accept fewer than {least} of the {counted(rows, 'certify row')}"
    few = f"{narrow}, too few even if all were right"
    reasons = [f"{errs} of {counted(len(wished), 'design')} have a larger error there"] * (errs > 0) + [few] * (
        errs < len(wished)
    )
    told = f"{nearest.wrong:,} wrong of {counted(nearest.accepted, 'accepted validation row')}"
    text = f"{promise.refused()}, by validation already: {' and '.join(reasons)}; nearest is {nearest.design.id} ({told})"
    advice = f"It takes {promise.rows_told(needed)}. The certify rows were not looked at"
    remedy = "Give more rows, ask for less, or search with other thresholds"
    return CertificationError(f"{text}. {advice}. {remedy}", nearest.design.id, None, needed)
