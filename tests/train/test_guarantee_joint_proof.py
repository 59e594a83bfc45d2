"""The proof by simulation for joint promises: errors, errors and recall per label, coverage and cost, a ladder, and weights.

Items have a confidence at each of two stages, and the designs are one cascade at a ladder of thresholds: a lower threshold
accepts more, costs less and errs more. So acceptance is nested, every design has its own cost, and all true figures are known by
formula. Each repeat draws validation and certify rows, chooses as `emsco-export` does, and looks whether the truth breaks any
limit of the certificate, or one of the bounds that it reports.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from scipy import stats

from emsco_runtime.bundle.manifest import Certificate
from emsco_train.designs.design import Design
from emsco_train.designs.selection import Requirements
from emsco_train.errors import CertificationError, SelectionError
from emsco_train.guarantee.candidates import Candidate
from emsco_train.guarantee.evidence import CostRange, Evidence, Weights
from emsco_train.guarantee.promise import Promise
from tests.train.certified_choice import choose_certified

pytestmark = pytest.mark.uncounted

ALPHA = 0.05
ROWS = 600
SHORT, LONG = 100, 20_000
LABELS = ("ham", "spam")
SPAM, SPAM_SHARE, SPAM_FACTOR = 1, 0.4, 1.2
HAM_FACTOR = (1 - SPAM_SHARE * SPAM_FACTOR) / (1 - SPAM_SHARE)
COSTS = CostRange(1.0, 5.0)
HEAVY, HEAVY_SHARE, HEAVY_FACTOR = 4.0, 0.3, 1.5
LIGHT_FACTOR = (1 - HEAVY_SHARE * HEAVY_FACTOR) / (1 - HEAVY_SHARE)


@dataclass(frozen=True, eq=False)
class Truth:
    """The true figures of the cascade at a threshold."""

    error: float
    error_of_spam: float
    coverage: float
    cost: float
    recall_of_spam: float

    def breaks(self, promise: Promise) -> list[str]:
        """Return the limits that it breaks."""
        kept = {
            "error": promise.max_error is None or self.error <= promise.max_error,
            "label": self.error_of_spam <= promise.max_error_of.get("spam", 1.0),
            "recall": self.recall_of_spam >= promise.min_recall.get("spam", 0.0),
            "coverage": promise.min_coverage is None or self.coverage >= promise.min_coverage,
            "cost": promise.max_cost is None or self.cost <= promise.max_cost,
        }
        return [name for name, fine in kept.items() if not fine]


@dataclass(frozen=True, eq=False)
class Rows:
    """Items: the confidence at both stages, the label that they would get, whether that is wrong at each stage, the weight."""

    confidence: np.ndarray
    label: np.ndarray
    wrong: np.ndarray
    weight: np.ndarray

    def decide(self, threshold: float, *, weighted: bool) -> Evidence:
        """Return what the cascade does at a threshold."""
        first, second = self.confidence >= threshold
        label = np.where(first | second, self.label, -1)
        wrong = np.where(first, self.wrong[0], self.wrong[1])
        target = np.where(wrong, 1 - self.label, self.label)
        weights = Weights(self.weight, HEAVY) if weighted else None
        cost = np.where(first, COSTS.low, COSTS.high)
        return Evidence.of(label, target, LABELS, cost=cost, cost_range=COSTS, weights=weights)


@dataclass(frozen=True, eq=False)
class Ladder:
    """One cascade at many thresholds, and what is to be promised.

    `slope`: how much a row of confidence 0 errs. `flattering`: the validation rows make all designs look good, as those do that
    were chosen by them; so all pass on to the tests, and nothing but these keeps the promise.
    """

    thresholds: np.ndarray
    promise: Promise
    slope: float = 0.24
    weighted: bool = False
    flattering: bool = False
    floors: Requirements = field(default_factory=Requirements)

    def truth(self, threshold: float) -> Truth:
        """Return the true figures, by formula: confidences are uniform, and a row of confidence c errs with slope * (1 - c)."""
        slope = self.slope
        if self.weighted:
            heavy = HEAVY_SHARE * HEAVY
            slope *= (heavy * HEAVY_FACTOR + (1 - HEAVY_SHARE) * LIGHT_FACTOR) / (heavy + 1 - HEAVY_SHARE)
        error, coverage = slope * (1 - threshold) / 2, 1 - threshold**2
        cost = COSTS.low + (COSTS.high - COSTS.low) * threshold
        # Spam is what is called so rightly, and what is called ham wrongly, at the stage that decides, or at the last.
        wrong = slope / 2 * ((1 - threshold) ** 2 + threshold)
        spam = SPAM_SHARE * (1 - wrong * SPAM_FACTOR) + (1 - SPAM_SHARE) * wrong * HAM_FACTOR
        recall = SPAM_SHARE * coverage * (1 - error * SPAM_FACTOR) / spam
        return Truth(error, error * SPAM_FACTOR, coverage, cost, recall)

    def draw(self, rng: np.random.Generator, *, flattering: bool = False) -> Rows:
        """Draw rows."""
        confidence = rng.random((2, ROWS)) ** (0.7 if flattering else 1.0)
        spam, heavy = rng.random(ROWS) < SPAM_SHARE, rng.random(ROWS) < HEAVY_SHARE
        factor = np.where(spam, SPAM_FACTOR, HAM_FACTOR) * np.where(heavy, HEAVY_FACTOR, LIGHT_FACTOR)
        wrong = rng.random((2, ROWS)) < self.slope * (1 - confidence) * factor * (0.6 if flattering else 1.0)
        return Rows(confidence, spam.astype(np.intp), wrong, np.where(heavy, HEAVY, 1.0))

    def choose(self, validation: Rows, certify: Rows, *, weighted: bool) -> tuple[float, Certificate] | None:
        """Choose as `emsco-export` does; return the threshold and the certificate, if there is one."""
        candidates = [self._candidate(place, validation, certify, weighted=weighted) for place in range(len(self.thresholds))]
        try:
            made = choose_certified(candidates, rows=ROWS, promise=self.promise, full_cost=COSTS.high, requirements=self.floors)
        except (CertificationError, SelectionError):
            return None
        return float(self.thresholds[int(made.design.id)]), made.certificate

    def _candidate(self, place: int, validation: Rows, certify: Rows, *, weighted: bool) -> Candidate:
        threshold = float(self.thresholds[place])
        seen = validation.decide(threshold, weighted=False)
        accepted, wrong = seen.counts.all_accepted, seen.counts.all_wrong
        share, right, cost = accepted / ROWS, (accepted - wrong) / accepted, float(seen.cost.mean())
        made = Design(str(place), (("x",),), (), share, right, cost, 0.0, 1, (0,), (0.9, 0.9), ROWS)
        return Candidate(made, functools.partial(certify.decide, threshold, weighted=weighted), lambda: seen)


NARROW = np.linspace(0.5, 0.51, 4)
EVERYTHING = Promise(max_error=0.11, max_error_of={"spam": 0.14}, min_recall={"spam": 0.5}, min_coverage=0.55, max_cost=3.6)
BY_WEIGHT = replace(EVERYTHING, max_error=0.14, max_error_of={"spam": 0.2}, min_recall={"spam": 0.45})
FLOORS = Requirements(min_coverage=0.55, max_cost=3.6)
STEPS = np.linspace(0.1, 0.8, 12)
LADDERS = {
    # One limit is missed by a hair by all designs, and the others are kept with room: its test is at its level.
    "error": Ladder(NARROW, replace(EVERYTHING, max_error=0.0587, max_error_of={"spam": 0.3}), flattering=True),
    "label": Ladder(NARROW, replace(EVERYTHING, max_error=0.3, max_error_of={"spam": 0.0705}), flattering=True),
    "recall": Ladder(NARROW, replace(EVERYTHING, min_recall={"spam": 0.6903}), flattering=True),
    "coverage": Ladder(NARROW, replace(EVERYTHING, min_coverage=0.7505), flattering=True),
    "cost": Ladder(NARROW, replace(EVERYTHING, max_cost=2.999), flattering=True),
    # Every threshold misses the error or the cost: any certificate is broken.
    "none is good": Ladder(np.linspace(0.4, 0.6, 6), Promise(max_error=0.0599, max_cost=2.999), flattering=True),
    # Good thresholds in the middle: those above cost too much, those below err too much, and are preferred.
    "ladder": Ladder(STEPS, EVERYTHING, floors=FLOORS),
    "ladder, flattered": Ladder(STEPS, EVERYTHING, floors=FLOORS, flattering=True),
    # Heavy rows err more: by weight all designs miss the error by a hair, by rows they are well below it.
    "weights": Ladder(NARROW, replace(EVERYTHING, max_error=0.0698, max_error_of={}), weighted=True, flattering=True),
    "weights, ladder": Ladder(STEPS, BY_WEIGHT, floors=FLOORS, weighted=True),
}
REPEATS = [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.proof)]


@dataclass
class Result:
    """How many repeats gave a certificate, broke its promise, or one of the bounds that it reports."""

    given: int = 0
    broken: int = 0
    bounds: Counter[str] = field(default_factory=Counter)


@functools.cache
def simulate(name: str, repeats: int, *, ignore_weights: bool = False) -> Result:
    """Simulate the whole choice, once for all tests."""
    ladder, rng, result = LADDERS[name], np.random.default_rng(20_251_116), Result()
    for _ in range(repeats):
        validation = ladder.draw(rng, flattering=ladder.flattering)
        made = ladder.choose(validation, ladder.draw(rng), weighted=ladder.weighted and not ignore_weights)
        if made is None:
            continue
        threshold, certificate = made
        truth = ladder.truth(threshold)
        result.given += 1
        result.broken += bool(truth.breaks(ladder.promise))
        recall = certificate.labels[SPAM].recall
        assert certificate.cost is not None
        assert recall is not None
        result.bounds.update(
            {
                "cost": truth.cost > certificate.cost.upper,
                "coverage, lower": truth.coverage < certificate.coverage.lower,
                "coverage, upper": truth.coverage > certificate.coverage.upper,
                "error of spam": truth.error_of_spam > certificate.labels[SPAM].accepted_as.upper,
                "recall of spam": truth.recall_of_spam < recall.lower,
            }
        )
    return result


def tolerated(repeats: int) -> float:
    """Return how many repeats a procedure that breaks exactly ALPHA of its guarantees exceeds once in 10,000 simulations."""
    return float(stats.binom.ppf(1 - 1e-4, repeats, ALPHA))


@pytest.mark.parametrize("repeats", REPEATS)
@pytest.mark.parametrize("name", LADDERS)
def test_a_joint_promise_is_kept(name: str, repeats: int) -> None:
    """The choice included, at most the stated share of promises has any limit broken, and the bounds reported hold as well."""
    result = simulate(name, repeats)
    assert result.broken <= tolerated(repeats)
    assert max(result.bounds.values(), default=0) <= tolerated(repeats)


def test_all_designs_of_the_hard_cases_break_the_promise() -> None:
    """The landscapes are what they claim: of the narrow ones every design breaks one limit, of the others some are good."""
    for name, ladder in LADDERS.items():
        broken = [ladder.truth(float(threshold)).breaks(ladder.promise) for threshold in ladder.thresholds]
        assert all(broken) != ("ladder" in name)
        if "ladder" in name:
            assert any(broken)
        elif name != "none is good":
            assert all(len(limits) == 1 for limits in broken)


@pytest.mark.parametrize("name", ["ladder", "weights, ladder"])
def test_good_designs_are_certified(name: str) -> None:
    """The promise is not kept by giving none: where a threshold keeps all limits, most repeats certify one."""
    assert simulate(name, SHORT).given >= 0.6 * SHORT


def test_ignoring_weights_breaks_the_promise() -> None:
    """The simulation shows it: tested by rows, the error by weight is above the limit in most certificates."""
    assert simulate("weights", SHORT, ignore_weights=True).broken >= 3 * ALPHA * SHORT
