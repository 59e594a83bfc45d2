"""The certificate of a design, and the choice under a largest error: which designs are tested, in which order, what is stated."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_train.designs.design import Design
from emsco_train.designs.selection import Requirements
from emsco_train.errors import CertificationError, DataError, DesignError, SelectionError
from emsco_train.guarantee.bounds import max_wrong_allowed
from emsco_train.guarantee.candidates import Candidate, order_candidates, pass_probability
from emsco_train.guarantee.certificate import certify
from emsco_train.guarantee.decision_counts import DecisionCounts
from emsco_train.guarantee.evidence import CostRange, Evidence
from emsco_train.guarantee.fixed_sequence import CertifiedDesign
from emsco_train.guarantee.promise import Promise
from emsco_train.models.evaluation import REJECTED
from emsco_train.support.binomial import binomial_cdf, lower_bound, upper_bound
from tests.train.certified_choice import choose_certified

LABELS = ("ham", "spam")
ROWS = 1000


def make_evidence(accepted: int, wrong: int, rows: int = ROWS) -> Evidence:
    """Return decisions of a design that accepts everything as the first label, at a cost of 1."""
    label = np.repeat([0, REJECTED], [accepted, rows - accepted])
    target = np.repeat([1, 0], [wrong, rows - wrong])
    return decided(label, target)


def decided(label: np.ndarray, target: np.ndarray) -> Evidence:
    """Return decisions at a cost of 1 each, which may be 4."""
    return Evidence.of(label, target, LABELS, cost=np.ones(len(label)), cost_range=CostRange(1.0, 4.0))


def design(name: str, accepted: int, wrong: int, cost: float = 1.0, rows: int = ROWS) -> Design:
    """Return a design with these validation figures."""
    accuracy = (accepted - wrong) / accepted if accepted else 0.0
    return Design(name, (("x",),), (), accepted / rows, accuracy, cost, 0.0, 1, (0,), (0.9, 0.9), rows)


@dataclass
class CandidateSet:
    """Candidates that record which of them were tested."""

    evaluated: list[str] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)

    def add(
        self, name: str, validation: tuple[int, int], certified: tuple[int, int], *, cost: float = 1.0, rows: int = ROWS
    ) -> CandidateSet:
        """Add a design by (accepted, wrong) on validation and on the certify rows."""

        def decide() -> Evidence:
            self.evaluated.append(name)
            return make_evidence(*certified)

        self.candidates.append(Candidate(design(name, *validation, cost=cost, rows=rows), decide))
        return self

    def choose(
        self, max_error: float = 0.03, confidence: float = 0.95, requirements: Requirements | None = None
    ) -> CertifiedDesign:
        """Choose among the candidates."""
        return choose_certified(
            self.candidates,
            rows=ROWS,
            promise=Promise(max_error=max_error, confidence=confidence),
            full_cost=10.0,
            requirements=requirements,
        )

    def order(self) -> list[str]:
        """Return the ids in the order of testing."""
        promise = Promise(max_error=0.03)
        sequence = order_candidates(self.candidates, rows=ROWS, promise=promise, requirements=Requirements(), full_cost=10.0)
        return [candidate.design.id for candidate in sequence]

    def refused(self, max_error: float = 0.03, confidence: float = 0.95) -> CertificationError:
        """Choose what cannot be certified and return the error."""
        with pytest.raises(CertificationError) as caught:
            self.choose(max_error, confidence)
        return caught.value


# Counting


@given(st.data(), st.integers(2, 5), st.integers(1, 60))
def test_decision_counts_count_each_row_where_it_belongs(data: st.DataObject, labels: int, rows: int) -> None:
    """The counts equal a plain loop over the rows, labels that training never saw included."""
    positions = st.lists(st.integers(-1, labels - 1), min_size=rows, max_size=rows)
    label, target = data.draw(positions), data.draw(positions)
    columns = np.array(label), np.array(target), range(labels)
    made = DecisionCounts.of(*columns)
    pairs = list(zip(label, target, strict=True))
    for position in range(labels):
        assert made.accepted[position] == sum(given == position for given, _ in pairs)
        assert made.accepted_wrong[position] == sum(given == position != true for given, true in pairs)
        assert made.true[position] == sum(true == position for _, true in pairs)
    assert made.all_accepted == sum(given != REJECTED for given, _ in pairs)
    assert made.all_wrong == sum(given not in (REJECTED, true) for given, true in pairs)
    # Every possible count makes a valid certificate.
    evidence = Evidence.of(*columns, cost=np.ones(rows), cost_range=CostRange(1.0, 4.0))
    assert certify(evidence, 0.9).rows == rows


@pytest.mark.parametrize(
    ("label", "target", "message"),
    [([0], [0, 1], "1 decision for 2 rows"), ([], [], "0 decisions"), ([2], [0], "label holds"), ([0], [-2], "target holds")],
)
def test_decision_counts_refuse_bad_columns(label: list[int], target: list[int], message: str) -> None:
    """Columns of different length, none at all, and positions without a label are refused."""
    with pytest.raises(DataError, match=message):
        DecisionCounts.of(np.array(label, dtype=np.intp), np.array(target, dtype=np.intp), LABELS)


# A design fixed in advance


def test_certificate_of_a_fixed_design() -> None:
    """Every bound is the exact one of its own count, separately at the confidence given."""
    label = np.repeat([0, 0, 1, 1, REJECTED, REJECTED], [200, 4, 100, 6, 50, 40])
    target = np.repeat([0, 1, 1, 0, 0, 1], [200, 4, 100, 6, 50, 40])
    made = certify(decided(label, target), 0.95)
    assert (made.method, made.split, made.scope) == ("clopper-pearson", "certify", "no budget, no deadline, no fallback")
    assert (made.rows, made.accepted, made.wrong, made.joint, made.choice) == (400, 310, 10, False, None)
    assert made.max_error == upper_bound(10, 310, 0.95)
    assert (made.coverage.lower, made.coverage.upper) == (lower_bound(310, 400, 0.95), upper_bound(310, 400, 0.95))
    ham, spam = made.labels
    assert (ham.accepted_as.upper, ham.true.upper) == (upper_bound(4, 204, 0.95), upper_bound(6, 256, 0.95))
    assert (spam.accepted_as.upper, spam.true.upper) == (upper_bound(6, 106, 0.95), upper_bound(4, 144, 0.95))


def test_certificate_of_nothing() -> None:
    """A design that accepts nothing gets the bound 1, and one that is always wrong does too."""
    nothing = decided(np.full(5, REJECTED), np.zeros(5, dtype=np.intp))
    assert certify(nothing, 0.95).max_error == 1.0
    always = certify(decided(np.ones(5, dtype=np.intp), np.zeros(5, dtype=np.intp)), 0.95)
    assert (always.max_error, always.labels[1].accepted_as.upper, always.labels[0].true.upper) == (1.0, 1.0, 1.0)


def test_a_certificate_needs_a_confidence() -> None:
    """A confidence that no guarantee can have is refused before anything is computed."""
    with pytest.raises(DesignError, match="confidence is 1"):
        certify(make_evidence(10, 0), 1.0)


# Which designs are tested


def ordered_names(
    group: CandidateSet, *, rows: int = ROWS, max_error: float = 0.03, requirements: Requirements | None = None
) -> list[str]:
    """Return the ids in the order of testing."""
    sequence = order_candidates(
        group.candidates,
        rows=rows,
        promise=Promise(max_error=max_error),
        requirements=requirements or Requirements(),
        full_cost=10.0,
    )
    return [candidate.design.id for candidate in sequence]


def test_sequence_is_from_the_safest_to_the_preferred() -> None:
    """It begins with a design that is likely to pass, ends with the preferred one, and leaves out what would not be chosen."""
    group = CandidateSet()
    group.add("wide", (900, 22), (0, 0)).add("safe", (400, 1), (0, 0)).add("middle", (700, 12), (0, 0))
    group.add("less safe, less preferred", (350, 2), (0, 0)).add("neither", (600, 14), (0, 0))
    assert ordered_names(group) == ["safe", "middle", "wide"]
    assert group.evaluated == []


def test_sequence_leaves_out_what_cannot_pass() -> None:
    """A validation error above the largest one, or too few rows to pass even without a wrong one, keeps a design out."""
    group = (
        CandidateSet()
        .add("few", (98, 0), (0, 0))
        .add("errs", (900, 28), (0, 0))
        .add("none", (0, 0), (0, 0))
        .add("good", (500, 5), (0, 0))
    )
    assert ordered_names(group) == ["good"]
    # 99 rows without a wrong one are the least at 3 % and 95 %; at 27 wrong of 900 the error is just the largest one.
    group.add("just enough", (99, 0), (0, 0)).add("just right", (900, 27), (0, 0))
    assert ordered_names(group) == ["good", "just right"]


def test_number_of_certify_rows_counts() -> None:
    """What validation accepted is scaled to the certify rows at hand: few of them keep narrow designs out."""
    group = CandidateSet().add("narrow", (400, 0), (0, 0)).add("wide", (900, 9), (0, 0))
    assert ordered_names(group) == ["narrow", "wide"]
    assert ordered_names(group, rows=200) == ["wide"]


@pytest.mark.parametrize(
    ("requirements", "sequence"),
    [
        (Requirements(), ["safe", "expensive"]),
        (Requirements(by="cost"), ["safe", "cheap"]),
        (Requirements(min_coverage=0.3), ["safe", "cheap"]),
        (Requirements(min_coverage=0.3, by="coverage"), ["safe", "expensive"]),
        (Requirements(max_cost=4.0), ["cheap"]),
        (Requirements(min_accuracy=0.985), ["safe"]),
        (Requirements(by="accuracy"), ["safe"]),
    ],
    ids=repr,
)
def test_requirements_decide_by_validation(requirements: Requirements, sequence: list[str]) -> None:
    """Floors and caps come first; then coverage decides, or cost where a coverage is required."""
    group = CandidateSet()
    group.add("safe", (600, 2), (0, 0), cost=5.0).add("cheap", (500, 8), (0, 0), cost=2.0)
    group.add("expensive", (900, 20), (0, 0), cost=9.0)
    assert ordered_names(group, requirements=requirements) == sequence


@pytest.mark.parametrize(
    ("requirements", "sequence"),
    [
        (Requirements(), ["cheap"]),
        (Requirements(by="coverage"), ["expensive"]),
        (Requirements(min_coverage=0.9), ["narrow"]),
    ],
)
def test_a_promise_alone_buys_no_item_in_a_thousand(requirements: Requirements, sequence: list[str]) -> None:
    """Of designs that cover the same in whole percents the cheapest is preferred, unless coverage is what was asked for."""
    figures = {"expensive": (1000, 14.0), "cheap": (996, 6.0), "narrow": (950, 2.0)}
    candidates = CandidateSet()
    for name, (accepted, cost) in figures.items():
        candidates.add(name, (accepted, 0), (accepted, 0), cost=cost)
    found = order_candidates(
        candidates.candidates, rows=ROWS, promise=Promise(max_error=0.2), requirements=requirements, full_cost=20.0
    )
    assert [candidate.design.id for candidate in found] == sequence


def test_pass_probability_is_a_probability() -> None:
    """It equals a simulation of its model: an error that the validation rows leave open, then wrong certify rows."""
    rng = np.random.default_rng(5)
    candidate = Candidate(design("x", 500, 7), lambda: make_evidence(0, 0))
    errors = rng.beta(8, 494, size=200_000)
    passed = rng.binomial(350, errors) <= max_wrong_allowed(350, 0.03, 0.95)
    assert pass_probability(candidate, 700, Promise(max_error=0.03)) == pytest.approx(passed.mean(), abs=0.01)


@given(st.integers(100, 900), st.integers(0, 20))
def test_pass_probability_falls_with_errors(accepted: int, wrong: int) -> None:
    """With one more wrong validation row a design is never considered safer."""
    promise = Promise(max_error=0.05)
    better, worse = (Candidate(design("x", accepted, count), lambda: make_evidence(0, 0)) for count in (wrong, wrong + 1))
    assert 0 <= pass_probability(worse, ROWS, promise) <= pass_probability(better, ROWS, promise) <= 1


def test_figures_of_other_rows_are_refused() -> None:
    """A coverage that cannot come from the given number of validation rows is a mistake of the caller."""
    for rows in (999, 0):
        with pytest.raises(DesignError, match=f"of {rows} validation rows is not a whole number"):
            Candidate(design("x", 501, 7).with_rows(rows), lambda: make_evidence(0, 0))


# The tests in order


def test_preferred_of_the_passed_is_chosen() -> None:
    """All pass: the last one is chosen, and the certificate states the error asked for, not its own bound."""
    group = CandidateSet().add("safe", (400, 1), (390, 2)).add("middle", (700, 12), (690, 9)).add("wide", (900, 22), (880, 14))
    made = group.choose()
    assert (made.design.id, group.order()) == ("wide", ["safe", "middle", "wide"])
    given = made.certificate
    assert (given.method, given.max_error, given.confidence, given.joint) == ("fixed-sequence", 0.03, 0.95, True)
    assert (given.rows, given.accepted, given.wrong) == (ROWS, 880, 14)
    assert upper_bound(14, 880, 0.95) < given.max_error
    assert given.choice is not None
    assert (given.choice.candidates, given.choice.tested, given.choice.passed) == (3, 3, 3)


def test_bounds_of_a_choice_are_joint() -> None:
    """Coverage and labels of a chosen design are bounded for all candidates at once: at 1 - (1 - L) / candidates."""
    group = CandidateSet().add("safe", (400, 1), (390, 2)).add("wide", (900, 22), (880, 14))
    given = group.choose().certificate
    assert given.coverage.lower == lower_bound(880, ROWS, 0.975) < lower_bound(880, ROWS, 0.95)
    assert given.labels[0].accepted_as.upper == upper_bound(14, 880, 0.975)
    assert given.labels[1].true.upper == upper_bound(14, 14, 0.975)


def test_testing_stops_at_the_first_failure() -> None:
    """Designs after a failure are not tested at all, however well they would do."""
    group = CandidateSet().add("safe", (400, 1), (390, 2)).add("middle", (700, 12), (690, 30)).add("wide", (900, 22), (900, 0))
    made = group.choose()
    assert group.evaluated == ["safe", "middle"]
    assert made.design.id == "safe"
    choice = made.certificate.choice
    assert choice is not None
    assert (choice.candidates, choice.tested, choice.passed) == (3, 2, 1)


@given(st.lists(st.tuples(st.integers(200, 1000), st.integers(0, 25), st.integers(0, 40)), min_size=1, max_size=12))
def test_choice_is_the_preferred_among_the_passed(figures: list[tuple[int, int, int]]) -> None:
    """Whatever the figures: the first ones are tested, each but the last passed, and the requirements decide among them."""
    group = CandidateSet()
    for number, (accepted, wrong, found) in enumerate(figures):
        group.add(f"d{number}", (accepted, wrong), (accepted, found))
    try:
        made = group.choose()
    except CertificationError:
        assert len(group.evaluated) <= 1
        return
    by_id = {candidate.design.id: candidate for candidate in group.candidates}
    found_wrong = {f"d{number}": (accepted, found) for number, (accepted, _, found) in enumerate(figures)}
    passes = [binomial_cdf(wrong, accepted, 0.03) <= 0.05 for accepted, wrong in (found_wrong[name] for name in group.evaluated)]
    sequence = group.order()
    assert group.evaluated == sequence[: len(group.evaluated)]
    assert all(passes[:-1])
    assert len(group.evaluated) == len(sequence) or not passes[-1]
    passed = [by_id[name].design for name, passing in zip(group.evaluated, passes, strict=True) if passing]
    assert made.design is Requirements(by="coverage").choose(passed, 10.0)


def test_every_design_is_tested_on_all_rows() -> None:
    """Counts of other rows than the certify rows are refused: the tests would not be about the same thing."""
    group = CandidateSet().add("safe", (400, 1), (390, 2))
    with pytest.raises(DesignError, match="it decided 1,000 of 900 certify rows"):
        choose_certified(group.candidates, rows=900, promise=Promise(max_error=0.03), full_cost=10.0)


# Nothing certified


def test_first_failure_names_the_nearest_bound_and_the_rows() -> None:
    """The safest fails: its bound, about how many rows it would take, in accepted and in certify rows, and a caution."""
    group = CandidateSet().add("safe", (400, 1), (400, 10)).add("wide", (900, 22), (900, 0))
    error = group.refused()
    assert group.evaluated == ["safe"]
    assert (error.nearest, error.bound, error.rows_needed) == ("safe", upper_bound(10, 400, 0.95), 645)
    text = str(error)
    for said in (
        "no design can be certified for an error of at most 3 % at 95 % confidence",
        "designs are tested in a fixed order, up to the first that fails. The first of 2, safe, the safest on the validation",
        " rows, was wrong in 10 of 400 accepted certify rows, so its error may be as large as 4.2",
        "; the other one was not tested. It takes",
        "It takes about 645 accepted rows if the true error is half as large (1.5 %), 1,613 certify rows at its coverage",
        "Asking the same rows again",
    ):
        assert said in text
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.nearest, copied.bound, copied.rows_needed) == (text, "safe", error.bound, 645)


def test_where_more_rows_would_not_help() -> None:
    """With rows enough, the error itself is too large: the advice is another search."""
    text = str(CandidateSet().add("safe", (900, 5), (900, 40)).refused())
    assert "the only design to test, by the validation rows, was safe: it was wrong in 40 of 900" in text
    assert "not tested" not in text
    assert "It takes about 645 accepted rows if the true error is half as large (1.5 %), and there are 900, so" in text
    assert "it is not for lack of rows: search with higher thresholds" in text


def test_a_refusal_says_how_many_were_not_tested() -> None:
    """The first of several fails: all the others count as not tested."""
    group = CandidateSet().add("safe", (400, 1), (400, 40)).add("wide", (700, 14), (700, 0)).add("widest", (900, 22), (900, 0))
    assert "The first of 3, safe, " in (text := str(group.refused()))
    assert "; the other 2 were not tested. " in text


def test_refusals_name_the_rows_that_measured_designs() -> None:
    """Cross-fitted designs have no validation rows, and no message speaks of such."""
    for validation, said in (
        ((400, 1), "by the cross-fitted rows, was x"),
        ((900, 40), "(40 wrong of 900 accepted cross-fitted rows)"),
    ):
        candidate = Candidate(design("x", *validation), lambda: make_evidence(400, 40), None, "cross-fitted")
        with pytest.raises(CertificationError) as caught:
            choose_certified([candidate], rows=ROWS, promise=Promise(max_error=0.03), full_cost=10.0)
        assert said in str(caught.value)
        assert "validation" not in str(caught.value)


def test_too_few_certify_rows_for_any_design() -> None:
    """With fewer certify rows than it takes, no design could help: the message has both numbers, and counts no designs."""
    candidates = [Candidate(design(name, 900, 0), lambda: make_evidence(0, 0)) for name in "ab"]
    with pytest.raises(CertificationError) as caught:
        choose_certified(candidates, rows=25, promise=Promise(max_error=0.01), full_cost=10.0)
    assert "confidence: there are 25 certify rows, and it takes at least 299 accepted, all of them right; near" in str(
        caught.value
    )
    with pytest.raises(CertificationError, match="it takes at least 299 accepted as 'ham', all of them right"):
        choose_certified(
            [Candidate(design("x", 900, 0), lambda: make_evidence(0, 0), lambda: make_evidence(900, 0))],
            rows=25,
            promise=Promise(max_error_of={"ham": 0.01}),
            full_cost=10.0,
        )


def test_a_design_that_suddenly_accepts_nothing() -> None:
    """Nothing accepted on the certify rows: the bound is 1, and no number of certify rows is made up."""
    error = CandidateSet().add("safe", (400, 1), (0, 0)).refused()
    assert error.bound == 1.0
    assert "at its coverage" not in str(error)


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        (
            [("a", 900, 40), ("b", 500, 30)],
            ": 2 of 2 designs have a larger error on the validation rows; nearest is a (40 wrong of 900",
        ),
        (
            [("a", 90, 0), ("b", 50, 0)],
            ": 2 of 2 designs would, by the validation rows, accept fewer than 99 of the 1,000 certify rows, too few",
        ),
        ([("a", 900, 40), ("b", 90, 0)], ": 1 of 2 designs has a larger error on the validation rows; 1 of 2 designs would, by"),
    ],
    ids=["all err", "all too narrow", "both"],
)
def test_hopeless_by_validation(figures: list[tuple[str, int, int]], message: str) -> None:
    """Where validation rules out all designs, the error says so, and the certify rows stay unseen."""
    group = CandidateSet()
    for name, accepted, wrong in figures:
        group.add(name, (accepted, wrong), (accepted, 0))
    error = group.refused()
    assert group.evaluated == []
    assert error.bound is None
    assert error.rows_needed == 645
    assert message in str(error)
    assert "The certify rows were not looked at" in str(error)


def test_requirements_that_nothing_meets() -> None:
    """Floors that no design reaches, or no designs at all, are an error of the selection, and no row is looked at."""
    group = CandidateSet().add("safe", (400, 1), (390, 2))
    with pytest.raises(SelectionError, match=r"min_coverage=0\.5"):
        group.choose(requirements=Requirements(min_coverage=0.5))
    assert group.evaluated == []
    with pytest.raises(SelectionError, match="empty"):
        CandidateSet().choose()


@pytest.mark.parametrize(("max_error", "confidence"), [(0.0, 0.95), (1.0, 0.95), (0.03, 1.0), (0.03, 0.2)])
def test_targets_that_cannot_be(max_error: float, confidence: float) -> None:
    """What no rows could show is refused before any are looked at."""
    group = CandidateSet().add("safe", (400, 1), (390, 2))
    with pytest.raises(DesignError, match="a number"):
        group.choose(max_error, confidence)
    assert group.evaluated == []
