"""The proof by simulation: with a known truth and the choice included, the guarantee is broken no more often than allowed.

Each repeat draws validation and certify rows for a landscape of designs whose true errors are known, lets a procedure choose one
and state an error, and looks whether the truth is worse. The procedure is a parameter: ours must keep the guarantee where naive
ones break it at least three times as often as allowed. If the line, the stop at the first failure or the stated error were lost
from ours, it would be one of the naive ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import pytest
from scipy import stats

from emsco_runtime.bundle.manifest import Certificate
from emsco_train.designs.design import Design
from emsco_train.designs.selection import Requirements
from emsco_train.errors import CertificationError
from emsco_train.guarantee.candidates import Candidate, order_candidates
from emsco_train.guarantee.evidence import CostRange, Evidence
from emsco_train.guarantee.promise import Promise
from emsco_train.support.binomial import binomial_cdf, upper_bound
from tests.train.certified_choice import choose_certified

pytestmark = pytest.mark.uncounted

ERROR, CONFIDENCE = 0.05, 0.95
ALPHA = 1 - CONFIDENCE
ROWS = 800
# A difference that is small takes more repeats to be seen.
SHORT, MIDDLE, LONG = 400, 1_000, 20_000
PROMISE = Promise(max_error=ERROR, confidence=CONFIDENCE)


class Counts(NamedTuple):
    """Accepted and wrong rows per design, in one repeat."""

    accepted: list[int]
    wrong: list[int]


class Statement(NamedTuple):
    """The design that a procedure chose and the error that it states of it; the certificate, where it gives one."""

    design: int
    error: float
    certificate: Certificate | None = None


Procedure: TypeAlias = Callable[[Counts, Counts], Statement | None]


@dataclass(frozen=True, eq=False)
class CandidatePool:
    """Designs by the share of items and the error of each slice that they accept.

    `nested`: design k accepts the slices 1 to k of the same rows, as with falling thresholds; otherwise each design has rows of
    its own, which is the worst that can happen to uncorrected tests.
    """

    share: np.ndarray
    slice_error: np.ndarray
    nested: bool

    @property
    def coverage(self) -> np.ndarray:
        """True coverage of each design."""
        return np.cumsum(self.share) if self.nested else self.share

    @property
    def error(self) -> np.ndarray:
        """True error of each design."""
        if not self.nested:
            return self.slice_error
        return np.cumsum(self.share * self.slice_error) / self.coverage

    def draw(self, repeats: int, rng: np.random.Generator) -> list[Counts]:
        """Draw the counts of all repeats at once."""
        if self.nested:
            accepted = rng.multinomial(ROWS, [*self.share, 1 - self.share.sum()], size=repeats)[:, :-1]
        else:
            accepted = rng.binomial(ROWS, self.share, size=(repeats, len(self.share)))
        wrong = rng.binomial(accepted, self.slice_error)
        if self.nested:
            accepted, wrong = accepted.cumsum(axis=1), wrong.cumsum(axis=1)
        return [Counts(*pair) for pair in zip(accepted.tolist(), wrong.tolist(), strict=True)]


# Half the designs are a little too bad, and those are the preferred ones, since they accept more.
TEMPTING = CandidatePool(np.linspace(0.4, 0.95, 14), np.repeat([0.025, 0.051], 7), nested=False)
# All designs are a little too bad: nothing should be certified at all, and tests are at their level.
ALL_BAD = CandidatePool(np.linspace(0.6, 0.95, 14), np.full(14, 0.0501), nested=False)
# Thresholds of one cascade: every design contains the one before, and becomes too bad on the way.
NESTED = CandidatePool(np.repeat([0.35, 0.045], [1, 13]), np.repeat([0.02, 0.1], [1, 13]), nested=True)


def our_procedure(validation: Counts, certify: Counts) -> Statement | None:
    """Choose as `emsco-export --max-error` does."""
    candidates = [_candidate(index, validation, certify) for index in range(len(validation.accepted))]
    try:
        made = choose_certified(candidates, rows=ROWS, promise=PROMISE, full_cost=1.0)
    except CertificationError:
        return None
    return Statement(int(made.design.id), made.certificate.max_error, made.certificate)


def all_tested(validation: Counts, certify: Counts) -> Statement | None:
    """Naive: test every design at the full level, and take the widest that passes."""
    passed = [index for index in range(len(certify.accepted)) if _passes(certify, index)]
    return Statement(max(passed, key=lambda index: certify.accepted[index]), ERROR) if passed else None


def lowest_bound(validation: Counts, certify: Counts) -> Statement | None:
    """Naive: take the design with the lowest bound on the certify rows, and state that bound."""
    return min(
        (Statement(index, _own_bound(certify, index)) for index in range(len(certify.accepted))), key=lambda made: made.error
    )


def continue_past_failures(validation: Counts, certify: Counts) -> Statement | None:
    """Naive: test in our order, but do not stop at the first failure."""
    passed = [index for index in _line(validation, certify) if _passes(certify, index)]
    return Statement(passed[-1], ERROR) if passed else None


def _candidate(index: int, validation: Counts, certify: Counts) -> Candidate:
    accepted, wrong = validation.accepted[index], validation.wrong[index]
    made = Design(str(index), (("x",),), (), accepted / ROWS, (accepted - wrong) / accepted, 1.0, 0.0, 1, (0,), (0.9, 0.9), ROWS)
    found, false = certify.accepted[index], certify.wrong[index]
    return Candidate(made, lambda: _evidence(found, false))


def _evidence(accepted: int, wrong: int) -> Evidence:
    label, target = np.repeat([0, -1], [accepted, ROWS - accepted]), np.repeat([1, 0], [wrong, ROWS - wrong])
    return Evidence.of(label, target, ("no", "yes"), cost=np.ones(ROWS), cost_range=CostRange(1.0, 1.0))


def _line(validation: Counts, certify: Counts) -> list[int]:
    candidates = [_candidate(index, validation, certify) for index in range(len(validation.accepted))]
    try:
        sequence = order_candidates(candidates, rows=ROWS, promise=PROMISE, requirements=Requirements(), full_cost=1.0)
    except CertificationError:
        return []
    return [int(candidate.design.id) for candidate in sequence]


def _passes(counts: Counts, index: int) -> bool:
    return binomial_cdf(counts.wrong[index], counts.accepted[index], ERROR) <= ALPHA


def _own_bound(counts: Counts, index: int) -> float:
    return upper_bound(counts.wrong[index], counts.accepted[index], CONFIDENCE)


@functools.cache
def statements(procedure: Procedure, landscape: CandidatePool, repeats: int) -> list[Statement | None]:
    """Return what a procedure states in every repeat; the same rows for every procedure, and simulated once for all tests."""
    rng = np.random.default_rng(20_220_718)
    validation, certify = landscape.draw(repeats, rng), landscape.draw(repeats, rng)
    return [procedure(*pair) for pair in zip(validation, certify, strict=True)]


def violation_rate(procedure: Procedure, landscape: CandidatePool, repeats: int) -> float:
    """Return the share of repeats in which the chosen design's true error is above the stated one."""
    made = statements(procedure, landscape, repeats)
    return sum(said is not None and bool(landscape.error[said.design] > said.error) for said in made) / repeats


def tolerated_rate(repeats: int) -> float:
    """Return the share that a procedure which breaks exactly ALPHA of its guarantees exceeds once in 10,000 such simulations."""
    return float(stats.binom.ppf(1 - 1e-4, repeats, ALPHA)) / repeats


LANDSCAPES = {"tempting": TEMPTING, "all bad": ALL_BAD, "nested": NESTED}
NAIVE = {
    "all tested, tempting": (all_tested, TEMPTING),
    "all tested, all bad": (all_tested, ALL_BAD),
    "lowest bound, all bad": (lowest_bound, ALL_BAD),
    "lowest bound, tempting": (lowest_bound, TEMPTING),
}
REPEATS = [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.proof)]


@pytest.mark.parametrize("repeats", REPEATS)
@pytest.mark.parametrize("name", LANDSCAPES)
def test_ours_keeps_the_promise(name: str, repeats: int) -> None:
    """The choice included, no more guarantees are broken than allowed, within what chance does to this many repeats."""
    assert violation_rate(our_procedure, LANDSCAPES[name], repeats) <= tolerated_rate(repeats)


@pytest.mark.parametrize("repeats", REPEATS)
@pytest.mark.parametrize("name", NAIVE)
def test_naive_ways_break_it(name: str, repeats: int) -> None:
    """On the same rows, naive ways break at least three times as many guarantees as allowed: the simulation shows it."""
    procedure, landscape = NAIVE[name]
    assert violation_rate(procedure, landscape, repeats) >= 3 * ALPHA


@pytest.mark.proof
def test_stopping_at_the_first_failure_matters() -> None:
    """Our own sequence, tested past failures, breaks the guarantee too often where every design is a little too bad."""
    assert violation_rate(continue_past_failures, ALL_BAD, MIDDLE) > tolerated_rate(MIDDLE)


@pytest.mark.parametrize("name", ["tempting", "nested"])
def test_ours_certifies_what_is_good(name: str) -> None:
    """The guarantee is not kept by giving none: where there are good designs, most repeats certify one."""
    made = [said for said in statements(our_procedure, LANDSCAPES[name], SHORT) if said is not None]
    assert len(made) >= 0.6 * SHORT


@pytest.mark.parametrize("name", LANDSCAPES)
def test_joint_bounds_of_a_choice_hold(name: str) -> None:
    """Coverage and errors by label of the chosen design stay within their joint bounds as often as stated, each of them."""
    landscape = LANDSCAPES[name]
    breaks = np.zeros(3)
    for said in statements(our_procedure, landscape, SHORT):
        if said is not None and said.certificate is not None:
            coverage, bounds = landscape.coverage[said.design], said.certificate.coverage
            accepted_as = said.certificate.labels[0].accepted_as.upper
            breaks += [coverage < bounds.lower, coverage > bounds.upper, landscape.error[said.design] > accepted_as]
    assert breaks.max() / SHORT <= tolerated_rate(SHORT)
