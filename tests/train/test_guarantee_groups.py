"""Certificates of rows that come in groups: a group is one piece of evidence, however many rows it has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from emsco_runtime.bundle.summary import describe_certificate
from emsco_train import CertificationError, Design, Problem, exhaustive
from emsco_train.guarantee.certificate import certify
from emsco_train.guarantee.choice import SelectionCriteria, certify_design, choose_design
from emsco_train.guarantee.evidence import CostRange, Evidence
from emsco_train.guarantee.independent_rows import draw_independent_rows
from emsco_train.guarantee.ledger import MemoryLedger
from emsco_train.guarantee.promise import Promise

GROUP_ROWS = 5
CONFIDENCE = 0.9


def make_problem(groups: int = 300, *, noise: float = 0.3) -> Problem:
    """Rows in groups of five: equal labels in a group, nearly equal values."""
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(groups, 3))
    values = np.repeat(centres, GROUP_ROWS, axis=0) + rng.normal(size=(groups * GROUP_ROWS, 3)) * 0.01
    target = np.repeat((centres[:, 0] + noise * rng.normal(size=groups) > 0).astype(int), GROUP_ROWS)
    return Problem.of(values, target, seed=0, threshold=0.6, groups=np.repeat(np.arange(groups), GROUP_ROWS))


def test_one_row_of_each_group_is_counted() -> None:
    """The certificate counts groups, says from how many rows they were drawn, and `emsco-inspect` shows it."""
    problem = make_problem()
    design = Design.of((0, -1, -1), problem.names, problem.thresholds, coverage=0.0, accuracy=0.0, cost=1.0)
    certificate = certify_design(problem, design, CONFIDENCE, MemoryLedger())
    assert certificate is not None
    assert problem.certify is not None
    assert certificate.rows * GROUP_ROWS == len(problem.certify) == certificate.drawn_from
    assert f"of {certificate.rows}, one of each group" in describe_certificate(certificate, "")[0]


def test_rows_are_drawn_blindly_and_always_the_same() -> None:
    """Which row of a group counts depends on the number of rows alone, and every group has one."""
    problem = make_problem()
    rows = problem.certify
    assert rows is not None
    drawn = draw_independent_rows(rows)
    turned = draw_independent_rows(replace(rows, target=1 - rows.target, codes=rows.codes + 1.0))
    assert drawn.rows.tolist() == turned.rows.tolist()
    assert rows.groups is not None
    assert drawn.groups is not None
    assert sorted(drawn.groups.tolist()) == sorted(set(rows.groups.tolist()))
    assert len(draw_independent_rows(replace(rows, groups=None))) == len(rows)


def test_the_confidence_is_held_for_groups() -> None:
    """Where all rows of a group are right or wrong together, counting all rows breaks many bounds, counting groups few."""
    rows = make_problem().certify
    assert rows is not None
    assert rows.groups is not None
    rng = np.random.default_rng(1)
    _, group = np.unique(rows.groups, return_inverse=True)
    error, repeats, broken = 0.1, 600, {"all": 0, "drawn": 0}
    for _ in range(repeats):
        wrong = (rng.random(group.max() + 1) < error)[group]
        for name, tested in (("all", rows), ("drawn", draw_independent_rows(rows))):
            found = wrong[np.searchsorted(rows.rows, tested.rows)].astype(np.intp)
            zeros = np.zeros(len(found), dtype=np.intp)
            evidence = Evidence.of(zeros, found, ("no", "yes"), cost=np.ones(len(found)), cost_range=CostRange(1.0, 2.0))
            broken[name] += certify(evidence, CONFIDENCE).max_error < error
    assert broken["drawn"] <= repeats * (1 - CONFIDENCE) + 3 * np.sqrt(repeats * CONFIDENCE * (1 - CONFIDENCE))
    assert broken["all"] > 2 * broken["drawn"]


def test_a_refusal_says_how_many_rows_count() -> None:
    """What is refused for want of rows says that groups count, not rows; the row numbers of the message are then plain."""
    problem = make_problem(150, noise=1.0)
    front = exhaustive(problem)
    with pytest.raises(CertificationError, match=r"Of each group one row counts, so that there are 30 certify rows$"):
        choose_design(problem, front, SelectionCriteria(promise=Promise(max_error=0.01)), MemoryLedger())
