"""(c) Threshold sweeps: the designs of the exact front (at most three stages) at each threshold, measured on test rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from emsco_train import Settings
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.sweep import search_thresholds
from paper.datasets import load
from paper.figures import count_test, fit_emsco
from paper.tasks import Plan, measure_missing

DATA = ("pima", "credit", "heart")
THRESHOLDS = (0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


@dataclass(frozen=True, slots=True)
class SweepRow:
    """The figures of one design on the test rows, and its threshold."""

    data: str
    run: int
    threshold: float
    design: str
    accuracy: float
    coverage: float
    cost: float
    full_cost: float


def measure(plan: Plan) -> None:
    """Sweep over the thresholds of one division of each data set."""
    tasks = [(name, 0) for name in plan.choose(DATA)]
    measure_missing(plan.folder / "sweeps.csv", SweepRow, tasks, measure_sweep, "sweeps")


def measure_sweep(data: str, run: int) -> Iterator[SweepRow]:
    """Search at all thresholds; sets are fitted once for all of them."""
    problem, settings = load(data).problem(run), Settings(max_stages=3, keep_all=True)
    fitters = ProblemFitters(problem)
    searches = search_thresholds(problem, THRESHOLDS, settings, method="exhaustive", seed=run, jobs=2, fitters=fitters)
    for threshold, outcome in zip(THRESHOLDS, searches, strict=True):
        for design in outcome.front:
            counts = count_test(problem, fit_emsco(design, fitters))
            yield SweepRow(data, run, threshold, design.id, counts.accuracy, counts.coverage, counts.cost, problem.full_cost)
