"""Which rows expected figures come from: every branch of the rule."""

from __future__ import annotations

import numpy as np
import pytest

from emsco_runtime.bundle.manifest import Certificate, CertifiedChoice, CertifyUse
from emsco_train import DesignError, Problem, Shares
from emsco_train.export.expected_rows import choose_expected_rows
from emsco_train.guarantee.certificate import certify, certify_choice
from emsco_train.guarantee.evidence import CostRange, Evidence
from emsco_train.guarantee.promise import Promise

TEST_AND_CERTIFY = Shares(0.4, 0.2, 0.2, 0.2)
CERTIFY_ALONE = Shares(0.6, 0.2, 0.0, 0.2)
NEITHER = Shares(0.6, 0.4, 0.0, 0.0)


def make_problem(shares: Shares, folds: int = 0) -> Problem:
    """Return a small problem, divided in a certain way."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    return Problem.of({"a": x[:, 0], "b": x[:, 1]}, x.sum(axis=1) > 0, shares=shares, folds=folds)


def make_certificate(*, chosen: bool, number: int | None) -> Certificate:
    """Return a certificate of a design that the certify rows helped to choose or not; `number` None: an unknown use."""
    right = np.zeros(200, dtype=np.intp)
    evidence = Evidence.of(right, right, (0, 1), cost=np.ones(200), cost_range=CostRange(1.0, 2.0))
    choice = CertifiedChoice(candidates=1, tested=1, passed=1)
    made = certify_choice(evidence, Promise(max_error=0.1), choice) if chosen else certify(evidence, 0.95)
    use = None if number is None else CertifyUse(number=number, planned=1, confidence=0.95)
    return made.model_copy(update={"use": use})


FIRST = make_certificate(chosen=False, number=1)
LATER = make_certificate(chosen=False, number=2)
UNKNOWN = make_certificate(chosen=False, number=None)
CHOSEN = make_certificate(chosen=True, number=1)


@pytest.mark.parametrize("certificate", [FIRST, LATER, UNKNOWN, CHOSEN, None])
@pytest.mark.parametrize("split", [None, "test"])
def test_test_rows_where_there_are_any(certificate: Certificate | None, split: str | None) -> None:
    """Whatever the certify rows were used for."""
    assert choose_expected_rows(make_problem(TEST_AND_CERTIFY), certificate, split).name == "test"


@pytest.mark.parametrize("split", [None, "test"])
@pytest.mark.parametrize(("folds", "searched"), [(0, "validation"), (3, "cross-fitted")])
def test_without_test_rows(split: str | None, folds: int, searched: str) -> None:
    """Certify rows if the design was fixed before their first use; otherwise the rows of the search, by their own name."""
    problem = make_problem(CERTIFY_ALONE, folds)
    assert choose_expected_rows(problem, FIRST, split).name == "certify"
    for certificate in (LATER, UNKNOWN, CHOSEN, None):
        assert choose_expected_rows(problem, certificate, split).name == searched
    assert problem.held_out.name == searched


@pytest.mark.parametrize(("folds", "searched"), [(0, "validation"), (3, "cross-fitted")])
def test_without_test_and_certify_rows(folds: int, searched: str) -> None:
    """The rows of the search."""
    assert choose_expected_rows(make_problem(NEITHER, folds), None).name == searched


def test_a_split_by_name() -> None:
    """Rows of the search always; certify rows only while they are new to the design; others are refused."""
    plain, folded = make_problem(TEST_AND_CERTIFY), make_problem(TEST_AND_CERTIFY, 3)
    assert choose_expected_rows(plain, CHOSEN, "validation").name == "validation"
    assert choose_expected_rows(folded, CHOSEN, "validation").name == "cross-fitted"
    assert choose_expected_rows(folded, CHOSEN, "cross-fitted").name == "cross-fitted"
    assert choose_expected_rows(plain, FIRST, "certify").name == "certify"
    for certificate in (LATER, UNKNOWN, CHOSEN, None):
        with pytest.raises(DesignError, match="used to choose the design, or before it was chosen: their figures would be too"):
            choose_expected_rows(plain, certificate, "certify")
    with pytest.raises(DesignError, match="split is 'train': expected one of validation, test, certify"):
        choose_expected_rows(plain, FIRST, "train")
    with pytest.raises(DesignError, match=r"split is 'certify': expected one of cross-fitted$"):
        choose_expected_rows(make_problem(NEITHER, 3), None, "certify")
