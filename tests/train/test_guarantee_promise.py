"""One promise for several limits: what can be asked for, how each limit is tested, which designs are tried, what is stated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from emsco_runtime.bundle.manifest import Certificate
from emsco_train.data.label_counts import count_by_label
from emsco_train.designs.design import Design
from emsco_train.designs.selection import Requirements
from emsco_train.errors import CertificationError, DataError, DesignError
from emsco_train.guarantee.candidates import Candidate, order_candidates, pass_probability
from emsco_train.guarantee.certificate import certify
from emsco_train.guarantee.choice import SelectionCriteria
from emsco_train.guarantee.evidence import CostRange, Evidence, Weights
from emsco_train.guarantee.limits import CostLimit, ShareLimit
from emsco_train.guarantee.promise import Promise
from emsco_train.support.binomial import binomial_cdf, upper_bound
from tests.train.certified_choice import choose_certified

LABELS = ("ham", "spam")
ROWS = 1000
COSTS = CostRange(1.0, 5.0)


def make_evidence(
    ham: tuple[int, int] = (400, 4), spam: tuple[int, int] = (400, 4), expensive: int = 300, weights: Weights | None = None
) -> Evidence:
    """Return decisions by (accepted, wrong) as each label; `expensive` rows cost 5, the others 1."""
    label = np.repeat([0, 1, -1], [ham[0], spam[0], ROWS - ham[0] - spam[0]])
    wrong = np.concatenate([np.arange(ham[0]) < ham[1], np.arange(spam[0]) < spam[1], np.zeros(ROWS - ham[0] - spam[0], bool)])
    target = np.where(wrong, 1 - label, np.maximum(label, 0))
    # Spread over all rows, so that no order is a lucky one.
    cost = np.where(np.arange(ROWS) * expensive % ROWS < expensive, COSTS.high, COSTS.low)
    return Evidence.of(label, target, LABELS, cost=cost, cost_range=COSTS, weights=weights)


def make_candidate(name: str, validation: Evidence, certified: Evidence | None = None) -> Candidate:
    """Return a design that does this with the validation and the certify rows."""
    counts = validation.counts
    right = counts.all_accepted - counts.all_wrong
    figures = counts.all_accepted / ROWS, right / counts.all_accepted, float(validation.cost.mean())
    design = Design(name, (("x",),), (), *figures, 0.0, 1, (0,), (0.9, 0.9), ROWS)
    return Candidate(design, lambda: certified or validation, lambda: validation)


def refuse(candidate: Candidate, **limits: Any) -> CertificationError:
    """Ask for what cannot be certified, and return the error."""
    with pytest.raises(CertificationError) as caught:
        choose_certified([candidate], rows=ROWS, promise=Promise(**limits), full_cost=5.0)
    return caught.value


# What can be asked for


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_error": 0.0}, "max_error is 0.0"),
        ({"max_error_of": {"spam": 1.5}}, "`max_error_of` 'spam' is 1.5: expected a number above 0 and below 1"),
        ({"max_error": 0.1, "min_coverage": 1.0}, "min_coverage is 1.0: expected a number from 0 to below 1"),
        ({"max_error": 0.1, "min_coverage": "all"}, "min_coverage is 'all'"),
        ({"max_error": 0.1, "max_cost": -1.0}, "max_cost is -1.0: expected a finite number of at least 0"),
        ({"max_error": 0.1, "confidence": 1.0}, "confidence is 1.0"),
        ({"min_coverage": 0.8}, "a coverage, a recall or a cost is promised together with an error"),
        ({"min_recall": {"spam": 0.8}}, "a coverage, a recall or a cost is promised together with an error"),
        ({"max_error": 0.1, "min_recall": {"spam": 1.0}}, "`min_recall` 'spam' is 1.0: expected a number above 0 and below 1"),
        ({"max_cost": 3.0}, "a coverage, a recall or a cost is promised together with an error"),
    ],
)
def test_promises_that_cannot_be(limits: dict[str, Any], message: str) -> None:
    """What no rows could show, and a coverage or cost without an error, is refused with the value."""
    with pytest.raises(DesignError) as caught:
        Promise(**limits)
    assert message in str(caught.value)


def test_limits_of_a_promise() -> None:
    """Each limit that is asked for has its test; a coverage of 0 is none."""
    promise = Promise(max_error=0.03, max_error_of={"spam": 0.01}, min_coverage=0.75, max_cost=4.0)
    assert promise.limits() == (
        ShareLimit("error", 0.03),
        ShareLimit("label", 0.01, "spam"),
        ShareLimit("coverage", 0.25),
        CostLimit(4.0),
    )
    assert promise.describe().endswith("a coverage of at least 75 % and a mean cost of at most 4")
    assert Promise(max_error=0.03, min_coverage=0).limits() == (ShareLimit("error", 0.03),)
    assert not Promise(confidence=0.9).is_asked


@pytest.mark.parametrize("percent", range(1, 100))
def test_a_floor_is_described_as_it_was_asked_for(percent: int) -> None:
    """A coverage of 0.2 is called 20 % in messages, and not 19.9 %, although 1 - (1 - 0.2) is below 0.2; so is a recall."""
    share = percent / 100
    _, recall, coverage = Promise(max_error=0.03, min_recall={"spam": share}, min_coverage=share).limits()
    assert coverage.describe() == f"a coverage of at least {percent} %"
    assert recall.describe() == f"a recall of 'spam' of at least {percent} %"


def test_labels_are_those_of_the_data() -> None:
    """A command gives labels as text; a name that is no label is an error that lists them."""
    assert Promise(max_error_of={"1": 0.1}).with_labels((0, 1)).max_error_of == {1: 0.1}
    with pytest.raises(DesignError, match=r"`max_error_of` names 'eggs', which is not a label \(labels: ham, spam\)"):
        Promise(max_error_of={"eggs": 0.1}).with_labels(LABELS)
    assert Promise(max_error=0.1, min_recall={"1": 0.8}).with_labels((0, 1)).min_recall == {1: 0.8}
    with pytest.raises(DesignError, match=r"`min_recall` names 'eggs', which is not a label \(labels: ham, spam\)"):
        Promise(max_error=0.1, min_recall={"eggs": 0.8}).with_labels(LABELS)


def test_floors_are_promised_with_an_error_alone() -> None:
    """A command's floor on coverage and cap on cost are promised where an error is; accuracy is a figure of validation always."""
    floors = Requirements(min_accuracy=0.9, min_coverage=0.8, max_cost=3.0)
    asked = SelectionCriteria.of(floors, max_error_of={"spam": 0.1}, confidence=0.9)
    assert asked.promise == Promise(max_error_of={"spam": 0.1}, min_coverage=0.8, max_cost=3.0, confidence=0.9)
    assert SelectionCriteria.of(floors, confidence=0.9).promise == Promise(confidence=0.9)
    with pytest.raises(DesignError, match="`design` was given together with requirements"):
        SelectionCriteria.of(Requirements(), "abc", max_error_of={"spam": 0.1})
    floors = Requirements.of(min_recall={"spam": 0.7}, min_accuracy_of={"spam": 0.9})
    assert SelectionCriteria.of(floors, max_error=0.1).promise == Promise(max_error=0.1, min_recall={"spam": 0.7})
    assert not SelectionCriteria.of(floors).promise.is_asked


# Each limit's own test


def test_shares_are_tested_exactly() -> None:
    """The tests of shares are the binomial ones of their own counts, and their bounds the exact ones."""
    evidence = make_evidence(ham=(400, 9), spam=(300, 2))
    for limit, hits, rows in (
        (ShareLimit("error", 0.03), 11, 700),
        (ShareLimit("label", 0.03, "ham"), 9, 400),
        (ShareLimit("label", 0.03, "spam"), 2, 300),
        (ShareLimit("coverage", 0.33), 300, 1000),
        # Rejected rows are ham here: of 693 of ham, 391 are accepted as it, of 307 of spam 298.
        (ShareLimit("recall", 0.47, "ham"), 302, 693),
        (ShareLimit("recall", 0.06, "spam"), 9, 307),
    ):
        assert limit.count(evidence.counts) == (hits, rows)
        assert limit.passes(evidence, 0.95) == (binomial_cdf(hits, rows, limit.most) <= 0.05)
        assert limit.bound(evidence, 0.95) == upper_bound(hits, rows, 0.95)


def test_a_label_that_is_never_accepted_shows_nothing() -> None:
    """No row accepted as a label: its limit fails, whatever it is."""
    assert not ShareLimit("label", 0.9, "spam").passes(make_evidence(spam=(0, 0)), 0.95)


def test_costs_are_tested_by_betting() -> None:
    """300 of 1,000 rows cost 5 and the others 1: 2.2 on average, which shows less than 2.4, and not less than 2.25."""
    evidence = make_evidence(expensive=300)
    assert CostLimit(2.4).passes(evidence, 0.95)
    assert not CostLimit(2.25).passes(evidence, 0.95)
    assert CostLimit(5.0).passes(make_evidence(expensive=1000), 0.95)


def test_costs_of_rows_without_weight_show_nothing() -> None:
    """Where no certify row has any weight, the refusal states their mean, and the highest cost there is as the bound."""
    evidence = make_evidence(expensive=300, weights=Weights(np.zeros(ROWS), 1.0))
    assert not CostLimit(4.0).passes(evidence, 0.95)
    found = CostLimit(4.0).describe_result(evidence, 0.95)
    assert found == "cost 2.2 on average over 1,000 certify rows, so its mean cost may be as high as 5"


def test_a_recall_is_promised_with_an_error() -> None:
    """The first of two designs finds too little of the label: it is left out by validation; the other is certified for both."""
    lazy, eager = make_evidence(ham=(600, 5), spam=(100, 1)), make_evidence(ham=(500, 5), spam=(290, 4))
    promise = Promise(max_error=0.05, min_recall={"spam": 0.9})
    made = choose_certified(
        [make_candidate("lazy", lazy), make_candidate("eager", eager)], rows=ROWS, promise=promise, full_cost=5.0
    )
    assert made.design.id == "eager"
    assert made.certificate.promise is not None
    assert made.certificate.promise.min_recall[0].min_recall == 0.9
    recall = made.certificate.labels[1].recall
    assert recall is not None
    assert (recall.right, recall.rows) == (286, 291)
    assert recall.lower < recall.share


def test_refused_recalls() -> None:
    """Refusals say what was found, what it takes, and what would help: by validation, for lack of rows, and by the test."""
    few = make_evidence(ham=(900, 5), spam=(20, 0))
    message = str(refuse(make_candidate("few", few), max_error=0.05, min_recall={"spam": 0.95}))
    assert "1 of 1 design has a smaller recall of 'spam' on the validation rows" in message
    assert "a recall of 'spam' of at least 95 %" in message
    rare = make_evidence(ham=(900, 0), spam=(20, 0))
    message = str(refuse(make_candidate("rare", rare), max_error=0.05, min_recall={"spam": 0.95}))
    assert "there are fewer certify rows of 'spam' than the 59 that show such a recall if all are accepted as it" in message
    good, bad = make_evidence(ham=(500, 5), spam=(290, 4)), make_evidence(ham=(500, 100), spam=(290, 4))
    message = str(refuse(make_candidate("good", good, bad), max_error=0.3, min_recall={"spam": 0.9}))
    assert "accepted 286 of 386 certify rows of 'spam' as it, so its recall may be as low as 70.1 %" in message
    assert "certify rows of 'spam' if the true recall is 95 %" in message


def test_counts_of_the_search_are_enough() -> None:
    """A design that knows its counts per label is ordered by them: its decisions on the validation rows are not asked for."""
    evidence = make_evidence(ham=(500, 5), spam=(290, 4))
    known = make_candidate("known", evidence)
    labels = count_by_label(evidence.label, evidence.target, LABELS)
    silent = Candidate(replace(known.design, labels=labels), known.decide)
    for limit in (ShareLimit("label", 0.1, "spam"), ShareLimit("recall", 0.1, "spam")):
        assert silent.count(limit) == known.count(limit)
        assert silent.expected_rows(limit, 500) == known.expected_rows(limit, 500)


# Weights


def test_by_weight_all_limits_are_about_shares_by_weight() -> None:
    """Rows that are wrong weigh four times as much: what passes by rows fails by weight, and the bounds say so."""
    plain = make_evidence()
    heavy = np.where(plain.wrong, 4.0, 1.0)
    weighted = make_evidence(weights=Weights(heavy, 4.0))
    limit = ShareLimit("error", 0.03)
    assert limit.passes(plain, 0.95)
    assert not limit.passes(weighted, 0.95)
    assert limit.bound(weighted, 0.95) > limit.bound(plain, 0.95)
    assert ShareLimit("label", 0.2, "spam").passes(weighted, 0.95)
    assert ShareLimit("coverage", 0.35).passes(weighted, 0.95)
    assert ShareLimit("recall", 0.1, "spam").passes(plain, 0.95)
    assert ShareLimit("recall", 0.1, "spam").passes(weighted, 0.95)
    assert ShareLimit("recall", 0.04, "spam").passes(plain, 0.95)
    assert not ShareLimit("recall", 0.04, "spam").passes(weighted, 0.95)


def test_certificate_of_weighted_rows() -> None:
    """Counts are of rows; shares and bounds are by weight, by betting; the largest weight is stated."""
    wrong = make_evidence().wrong
    made = certify(make_evidence(weights=Weights(np.where(wrong, 4.0, 1.0), 5.0)), 0.95)
    assert (made.method, made.rows, made.accepted, made.wrong) == ("betting", ROWS, 800, 8)
    assert made.weights is not None
    assert made.weights.max_weight == 5.0
    assert made.weights.error == pytest.approx(32 / 824)
    assert made.weights.coverage == pytest.approx(824 / 1024)
    assert made.weights.error < made.max_error
    assert made.coverage.lower < made.weights.coverage < made.coverage.upper
    assert made.labels[0].accepted_as.weighted == pytest.approx(16 / 412)
    assert made.labels[1].recall is not None
    assert made.labels[1].recall.weighted == pytest.approx(396 / 412)
    nothing = certify(make_evidence(weights=Weights(np.zeros(ROWS), 1.0)), 0.95)
    assert (nothing.max_error, nothing.coverage.lower, nothing.coverage.upper) == (1.0, 0.0, 1.0)
    assert nothing.cost is not None
    assert nothing.cost.upper == COSTS.high
    assert nothing.labels[1].recall is not None
    assert (nothing.labels[1].recall.weighted, nothing.labels[1].recall.lower) == (0.0, 0.0)


def test_a_weight_above_the_stated_limit_refuses_the_certificate() -> None:
    """The limit must have been known in advance: a row above it is not bounded by anything, and there is no certificate."""
    with pytest.raises(CertificationError, match=r"2 certify rows weigh more than 3, .* row 1: 3\.5"):
        Weights(np.array([1.0, 3.5, 9.0]), 3.0)


@pytest.mark.parametrize(
    ("weights", "most", "message"),
    [
        ([1.0, -1.0], 2.0, "row 1 has the weight -1.0"),
        ([math.nan], 2.0, "row 0 has the weight nan"),
        ([1.0], 0.0, "max_weight is 0.0"),
        ([1.0], math.inf, "max_weight is inf"),
    ],
)
def test_weights_that_are_none(weights: list[float], most: float, message: str) -> None:
    """Negative weights, gaps, and a limit that is none are faults of the data."""
    with pytest.raises(DataError, match=message):
        Weights(np.array(weights), most)


def test_one_cost_and_one_weight_for_each_row() -> None:
    """Columns of another length are refused."""
    label = np.zeros(3, dtype=np.intp)
    with pytest.raises(DataError, match="got 2 costs for 3 rows"):
        Evidence.of(label, label, LABELS, cost=np.ones(2), cost_range=COSTS)
    with pytest.raises(DataError, match="got 2 weights for 3 rows"):
        Evidence.of(label, label, LABELS, cost=np.ones(3), cost_range=COSTS, weights=Weights(np.ones(2), 1.0))
    assert CostRange.of([1.0, 2.0, 7.0]) == CostRange(1.0, 7.0)


# Which designs are tested


def test_pass_probability_of_all_limits() -> None:
    """It is the product of what each limit alone would have, in whole percents, and near to a simulation of its model."""
    candidate = make_candidate("x", make_evidence(ham=(400, 6), spam=(400, 8), expensive=300))
    limits: list[dict[str, Any]] = [{"max_error_of": {"spam": 0.05}}, {"min_coverage": 0.78}, {"max_cost": 2.45}]
    alone = [pass_probability(candidate, 800, Promise(**{"max_error": 0.9} | limit)) for limit in limits]
    together = pass_probability(candidate, 800, Promise(**{key: value for limit in limits for key, value in limit.items()}))
    assert all(0.05 < probability < 0.99 for probability in alone)
    assert together == pytest.approx(math.prod(alone), abs=0.02)
    rng = np.random.default_rng(3)
    passed = [
        CostLimit(2.45).passes(make_evidence(expensive=int(hits)), 0.95)
        for hits in rng.binomial(ROWS, rng.beta(301, 701, size=300))
    ]
    expected = pass_probability(candidate, ROWS, Promise(max_error=0.9, max_cost=2.45))
    assert np.mean(passed) == pytest.approx(expected, abs=0.12)


def test_costs_that_cannot_fail_or_never_vary() -> None:
    """A cap at the full bill is always kept; one price for all rows is known without a spread."""
    always = make_candidate("x", make_evidence(expensive=1000))
    assert pass_probability(always, ROWS, Promise(max_error=0.9, max_cost=5.0)) == 1.0
    fixed = make_candidate("x", make_evidence(expensive=0))
    assert pass_probability(fixed, ROWS, Promise(max_error=0.9, max_cost=1.5)) == 1.0
    assert pass_probability(always, ROWS, Promise(max_error=0.9, max_cost=4.0)) == 0.0


def test_the_safest_for_all_limits_comes_first() -> None:
    """A design with few errors that hardly keeps the cost comes after one that keeps both with room."""
    both = make_candidate("both", make_evidence(ham=(350, 5), spam=(350, 5), expensive=200))
    tight = make_candidate("tight", make_evidence(ham=(400, 1), spam=(400, 1), expensive=340))
    options = {"rows": ROWS, "requirements": Requirements(), "full_cost": 5.0}
    error, joint = Promise(max_error=0.03), Promise(max_error=0.03, max_cost=2.5)
    assert [one.design.id for one in order_candidates([both, tight], promise=error, **options)] == ["tight"]  # type: ignore[arg-type]
    assert [one.design.id for one in order_candidates([both, tight], promise=joint, **options)] == ["both", "tight"]  # type: ignore[arg-type]


def test_limits_that_take_the_validation_rows() -> None:
    """Figures alone say nothing of labels and of the spread of costs: the decisions on the validation rows are asked for."""
    made = make_candidate("x", make_evidence())
    bare = Candidate(made.design, made.decide)
    assert pass_probability(bare, ROWS, Promise(max_error=0.05, min_coverage=0.7)) > 0.9
    for promise in (Promise(max_error_of={"spam": 0.1}), Promise(max_error=0.05, max_cost=3.0)):
        with pytest.raises(DesignError, match=r"design x: a limit per label or on the cost .* give decide_validation"):
            pass_probability(bare, ROWS, promise)


# What is stated


def test_a_joint_promise_is_stated_whole() -> None:
    """All limits are in the certificate as asked for; bounds on the cost and on the error, where not promised, are reported."""
    candidate = make_candidate("x", make_evidence())
    promise = Promise(max_error=0.03, max_error_of={"spam": 0.04}, min_coverage=0.75, max_cost=2.5)
    made = choose_certified([candidate], rows=ROWS, promise=promise, full_cost=5.0).certificate
    assert (made.method, made.max_error, made.order_seed) == ("fixed-sequence", 0.03, 0)
    assert made.promise == promise.to_limits()
    assert made.cost is not None
    assert made.cost.mean == pytest.approx(2.2)
    assert 2.2 < made.cost.upper < 2.5
    label: Certificate = choose_certified(
        [candidate], rows=ROWS, promise=Promise(max_error_of={"spam": 0.04}), full_cost=5.0
    ).certificate
    assert label.max_error == upper_bound(8, 800, 0.95)


@pytest.mark.parametrize(
    ("certified", "said", "rows_needed"),
    [
        (
            {"spam": (60, 4)},
            [
                "was wrong in 4 of 60 certify rows accepted as 'spam', so its error among these may be as large as 14.7 %",
                "It takes about 483 rows accepted as 'spam' if the true error is half as large (2 %), 8,050 certify rows",
            ],
            483,
        ),
        (
            {"ham": (360, 3), "spam": (360, 3)},
            [
                "accepted 720 of 1,000 certify rows, so its coverage may be as low as 69.5 %",
                "It takes about 65 certify rows if the true coverage is 87.5 %, and there are 1,000, so it is not",
                "for lack of rows: search with lower thresholds",
            ],
            65,
        ),
        ({"expensive": 370}, ["cost 2.48 on average over 1,000 certify rows, so its mean cost may be as high as 2.5"], None),
        ({"expensive": 600}, ["Allow a larger cost, or search for cheaper designs"], 0),
    ],
    ids=["label", "coverage", "cost", "cost above"],
)
def test_failures_name_the_limit(certified: Mapping[str, Any], said: list[str], rows_needed: int | None) -> None:
    """The error says which limit failed on the certify rows, how bad it may be, and what would help."""
    candidate = make_candidate("safe", make_evidence(), make_evidence(**certified))
    limits: dict[str, Any] = {"max_error": 0.05, "max_error_of": {"spam": 0.04}, "min_coverage": 0.75, "max_cost": 2.5}
    if "spam" in certified and "ham" not in certified:
        del limits["min_coverage"]
    error = refuse(candidate, **limits)
    assert all(text in str(error) for text in said)
    assert error.nearest == "safe"
    assert error.bound is not None
    if rows_needed is not None:
        assert error.rows_needed == rows_needed
    else:
        assert f"It takes about {error.rows_needed:,} certify rows if its true mean cost is that of these" in str(error)


def test_several_failures_are_all_named() -> None:
    """Every limit that failed is in the message, not the first alone."""
    error = refuse(
        make_candidate("safe", make_evidence(), make_evidence(ham=(300, 20), spam=(300, 20), expensive=600)),
        max_error=0.03,
        min_coverage=0.75,
        max_cost=2.5,
    )
    for said in ("was wrong in 40 of 600", "; it accepted 600 of 1,000", "; it cost 3.4 on average"):
        assert said in str(error)


@pytest.mark.parametrize(
    ("validation", "limits", "said"),
    [
        ({"spam": (100, 9)}, {"max_error_of": {"spam": 0.05}}, "1 of 1 design has a larger error among rows accepted as 'spam'"),
        (
            {"spam": (20, 0)},
            {"max_error_of": {"spam": 0.05}},
            "accept fewer than 59 of the 1,000 certify rows as 'spam', too few",
        ),
        ({}, {"max_error": 0.05, "min_coverage": 0.9}, "1 of 1 design has a smaller coverage on the validation rows"),
        ({"ham": (600, 0), "spam": (400, 0)}, {"max_error": 0.05, "min_coverage": 0.9999}, "1,000 certify rows are fewer than"),
        ({}, {"max_error": 0.05, "max_cost": 2.0}, "1 of 1 design has a larger mean cost on the validation rows"),
    ],
    ids=["label errs", "label is rare", "coverage", "too few rows for the coverage", "cost"],
)
def test_hopeless_by_validation(validation: dict[str, Any], limits: dict[str, Any], said: str) -> None:
    """Where validation rules out all designs, the message says by which limit, and the certify rows stay unseen."""
    error = refuse(make_candidate("x", make_evidence(**validation)), **limits)
    assert said in str(error)
    assert "The certify rows were not looked at" in str(error)
    assert error.bound is None
