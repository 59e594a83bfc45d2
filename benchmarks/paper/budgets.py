"""(f) Spambase without reject: accuracy of all answers against the mean number of features, at 4, 10, 15 and 25.

EMSCO's designs answer at their last stage, however unsure; of the fronts of the experiment (d), at many thresholds, validation
rows choose the design that answers best for at most that many features on average.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from emsco_train import Problem
from emsco_train.baselines.fitted import FittedCascade
from emsco_train.baselines.greedy_order import select_within
from emsco_train.models.cascade_model import CascadeFitter
from emsco_train.models.evaluation import REJECTED, Evaluation, evaluate
from emsco_train.models.fitted_set import ProblemFitters
from paper.alternatives import make_problem, search
from paper.figures import fit_emsco
from paper.tasks import Plan, measure_missing

BUDGETS = (4, 10, 15, 25)
THRESHOLDS = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)
# The last one takes longest.
METHODS = ("EMSCO, straight", "EMSCO, curved", "static, logistic", "static, boosted", "EMSCO, upgraded")


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """The accuracy of all answers on the test rows, and the mean number of features."""

    method: str
    run: int
    budget: int
    accuracy: float
    features: float


def measure(plan: Plan) -> None:
    """Measure every method."""
    tasks = [(method, run) for run in range(plan.runs) for method in METHODS]

    def measure_one(method: str, run: int) -> Iterator[BudgetRow]:
        return measure_method(method, run, is_quick=plan.is_quick)

    measure_missing(plan.folder / "budgets.csv", BudgetRow, tasks, measure_one, "budgets")


def measure_method(method: str, run: int, *, is_quick: bool) -> Iterator[BudgetRow]:
    """Measure one method at all budgets."""
    if method.startswith("static"):
        problem = make_problem("spambase", run, "straight", is_quick=is_quick)
        own = problem.upgraded("boosted") if method.endswith("boosted") else problem
        for budget in BUDGETS:
            fitted = FittedCascade.of(own, [select_within(problem, budget)], CascadeFitter.of(own))
            yield BudgetRow(method, run, budget, *_answer_all(own, fitted, 0.0, "test"))
        return
    problem, front = search("spambase", run, method.removeprefix("EMSCO, "), is_quick=is_quick)
    fitters = ProblemFitters(problem)
    cascades = [fit_emsco(design, fitters) for design in front]
    tried = [
        (cascade, level, *_answer_all(problem, cascade, level, "validation")) for cascade in cascades for level in THRESHOLDS
    ]
    for budget in BUDGETS:
        within = [each for each in tried if each[3] <= budget]
        if within:
            cascade, level, *_ = max(within, key=lambda each: (each[2], -each[3]))
            yield BudgetRow(method, run, budget, *_answer_all(problem, cascade, level, "test"))


def _answer_all(problem: Problem, cascade: FittedCascade, threshold: float, name: str) -> tuple[float, float]:
    """Return the accuracy where the last stage answers what it would reject, and the mean number of features."""
    split = problem.validation if name == "validation" else problem.test
    assert split is not None
    model = replace(cascade.model, thresholds=(threshold,) * len(problem.labels))
    found: Evaluation = evaluate(model, split.codes[:, cascade.positions])
    answer = np.where(found.label == REJECTED, found.probabilities[-1].argmax(axis=1), found.label)
    sizes = np.cumsum([len(stage.acquire) for stage in model.stages])
    return float((answer == split.target).mean()), float(sizes[found.stage - 1].mean())
