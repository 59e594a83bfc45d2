"""(f) Spambase without reject: accuracy of all answers against the mean number of features, at 4, 10, 15 and 25.

EMSCO's designs answer at their last stage, however unsure; of the fronts of the experiment (d), at many thresholds, validation
rows choose the design that answers best for at most that many features on average.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from emsco_runtime.bundle.rule import accept_rows
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.baselines.fitted import FittedCascade
from emsco_train.baselines.greedy_order import select_within
from emsco_train.data.labelled_rows import Split
from emsco_train.models.cascade_model import CascadeFitter
from emsco_train.models.evaluation import evaluate, run_stages
from emsco_train.models.fitted_set import ProblemFitters, StageDecisions
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
            yield BudgetRow(method, run, budget, *_Scored.of(own.test, fitted).answer_all(0.0))
        return
    problem, front = search("spambase", run, method.removeprefix("EMSCO, "), is_quick=is_quick)
    fitters = ProblemFitters(problem)
    cascades = [fit_emsco(design, fitters) for design in front]
    scored = [_Scored.of(problem.validation, cascade) for cascade in cascades]
    tried = [
        (cascade, level, *rows.answer_all(level)) for cascade, rows in zip(cascades, scored, strict=True) for level in THRESHOLDS
    ]
    for budget in BUDGETS:
        within = [each for each in tried if each[3] <= budget]
        if within:
            cascade, level, *_ = max(within, key=lambda each: (each[2], -each[3]))
            yield BudgetRow(method, run, budget, *_Scored.of(problem.test, cascade).answer_all(level))


@dataclass(frozen=True, slots=True, eq=False)
class _Scored:
    """The scores of a cascade for some rows, once for all thresholds: by stage [rows, labels], and the sizes of their sets."""

    probabilities: tuple[Floats, ...]
    sizes: Sequence[float]
    target: Ints

    @classmethod
    def of(cls, split: Split | None, cascade: FittedCascade) -> _Scored:
        """Score the rows of a split."""
        assert split is not None
        found = evaluate(cascade.model, split.codes[:, cascade.positions])
        sizes = tuple(itertools.accumulate(len(stage.acquire) for stage in cascade.model.stages))
        return cls(found.probabilities, sizes, split.target)

    def answer_all(self, threshold: float) -> tuple[float, float]:
        """Return the accuracy where the last stage answers what it would reject, and the mean number of features."""
        *early, last = self.probabilities
        stages = [_accept(scores, threshold) for scores in early] + [_accept(last, 0.0)]
        found = run_stages(stages, self.sizes)
        return float((found.label == self.target).mean()), float(found.cost.mean())


def _accept(scores: Floats, threshold: float) -> StageDecisions:
    label, _, confident, _ = accept_rows(scores, [threshold] * scores.shape[1])
    return StageDecisions(scores, label, confident)
