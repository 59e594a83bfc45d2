"""The figures of a method on some rows, as all experiments keep them."""

from __future__ import annotations

from emsco_train import Design, Problem
from emsco_train.baselines.bill import Bill
from emsco_train.baselines.fitted import FittedCascade
from emsco_train.designs.counts import Counts
from emsco_train.export.searched_design import fit_design
from emsco_train.models.evaluation import evaluate
from emsco_train.models.fitted_set import ProblemFitters


def fit_emsco(design: Design, fitters: ProblemFitters) -> FittedCascade:
    """Fit a design of a front on the train rows, with the stages that it was measured with."""
    own = fitters.upgraded(design.upgrade)
    model = fit_design(own.problem, design, own)
    return FittedCascade(model, own.problem.encoder.positions([feature.name for feature in model.features]))


def count_test(problem: Problem, fitted: FittedCascade) -> Counts:
    """Count what a fitted design does with the test rows, at its thresholds."""
    assert problem.test is not None
    found = evaluate(fitted.model, problem.test.codes[:, fitted.positions])
    return Bill(found.label, found.cost, problem.labels).count(problem.test.target)
