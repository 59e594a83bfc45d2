"""(b) The comparison over the paper's five data sets, at its thresholds, prices and settings, on test rows.

The paper divides a table once and repeats the search; here every run divides it again, so margins hold the luck of the rows, too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from emsco_train import Problem, Settings
from emsco_train.baselines import (
    BoostedTrees,
    CostEffectiveTrees,
    CostOrdered,
    CostSensitiveTree,
    GreedyMiser,
    GreedyOrder,
    Method,
    StaticSelection,
    TunedLasso,
    TwoStage,
)
from emsco_train.data.stage_settings import StageKind, Upgrade
from emsco_train.designs.counts import Counts
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.sweep import search_thresholds
from paper.datasets import PAPER_DATA, QUICK_ROWS, load
from paper.figures import count_test, fit_emsco
from paper.tasks import Plan, measure_missing

# EMSCO with the paper's search and choice (the fittest), and with ours (features may be left out, the knee).
PAPER_METHODS = ("EMSCO", "EMSCO, ours", "EMSCO, curved", "EMSCO, upgraded", "Greedy Miser", "CSTC", "CaCT LASSO", "CO-T")
TODAY_METHODS = ("LightGBM", "HistGradientBoosting", "LightGBM CEGB", "two-stage", "greedy order", "static, a quarter")
QUICK_SETTINGS = {"synthetic50": {"population": 60, "generations": 15}, "synthetic15": {"population": 60, "generations": 25}}


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """The figures of one method on the test rows of one run; `full_cost` is that of all features, `seconds` are of processor."""

    data: str
    method: str
    run: int
    accuracy: float
    coverage: float
    cost: float
    full_cost: float
    seconds: float


def measure(plan: Plan) -> None:
    """Measure every method on every data set."""
    methods = (*PAPER_METHODS, *TODAY_METHODS)
    tasks = [(name, method, run) for run in range(plan.runs) for name in plan.choose(PAPER_DATA) for method in methods]

    def measure_one(data: str, method: str, run: int) -> Iterator[ComparisonRow]:
        yield measure_method(data, method, run, is_quick=plan.is_quick)

    measure_missing(plan.folder / "comparison.csv", ComparisonRow, tasks, measure_one, "comparison")


def measure_method(data: str, method: str, run: int, *, is_quick: bool) -> ComparisonRow:
    """Fit one method, and measure it."""
    found = load(data)
    stages: StageKind = "curved" if method.endswith(("curved", "upgraded")) else "straight"
    problem = found.problem(run, stages=stages, max_rows=QUICK_ROWS if is_quick else None)
    started = time.process_time()
    if method.startswith("EMSCO"):
        short = QUICK_SETTINGS.get(data, {}) if is_quick else {}
        counts = _measure_emsco(problem, replace(found.settings, **short), run, method)
    else:
        assert problem.test is not None
        fitted = make_method(method, problem).fit(problem)
        counts = fitted.decide(problem.test.codes, problem.thresholds).count(problem.test.target)
    seconds = time.process_time() - started
    return ComparisonRow(data, method, run, counts.accuracy, counts.coverage, counts.cost, problem.full_cost, seconds)


def make_method(name: str, problem: Problem) -> Method:
    """Return the method of a name."""
    made: dict[str, Method] = {
        "Greedy Miser": GreedyMiser(),
        "CSTC": CostSensitiveTree(),
        "CaCT LASSO": TunedLasso(),
        "CO-T": CostOrdered(),
        "LightGBM": BoostedTrees("lightgbm"),
        "HistGradientBoosting": BoostedTrees("sklearn"),
        "LightGBM CEGB": CostEffectiveTrees(),
        "two-stage": TwoStage(),
        "greedy order": GreedyOrder(),
        "static, a quarter": StaticSelection(0.25 * problem.full_cost),
    }
    return made[name]


def _measure_emsco(problem: Problem, settings: Settings, seed: int, method: str) -> Counts:
    is_papers = method == "EMSCO"
    chosen = replace(settings, keep_all=True, seeded=False, recombine=False) if is_papers else settings
    upgrade: Upgrade | None = "boosted" if method.endswith("upgraded") else None
    fitters = ProblemFitters(problem)
    searches = search_thresholds(problem, None, chosen, method="evolve", seed=seed, jobs=1, fitters=fitters, upgrade=upgrade)
    front = next(searches).front
    design = front.fittest if is_papers else front.knee
    return count_test(problem, fit_emsco(design, fitters))
