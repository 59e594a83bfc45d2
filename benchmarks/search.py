"""The search engine against a plain evaluation that refits scikit-learn for every stage of every new chromosome: `make bench`.

The plain way runs the same genetic algorithm for a few generations on two processes, and its time is scaled to all of them.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one BLAS thread a process, for both

import numpy as np
import psutil
from _measure import Measurement, report
from _shared_data import DATA, read_columns
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from emsco_train.costs.units import CostUnits
from emsco_train.data.problem import Problem
from emsco_train.data.splits import Shares
from emsco_train.search.genetic.evolution import evolve_population
from emsco_train.search.scoring.evaluator import cumulative_sets
from emsco_train.search.scoring.objectives import Objectives
from emsco_train.search.searches import run_evolve, run_exhaustive
from emsco_train.search.settings import Settings
from emsco_train.search.workbench import Workbench

GENERATIONS = 150
BASELINE_GENERATIONS = 2
SPAMBASE = DATA / "spambase.csv"

_shared: dict[str, Any] = {}


def main() -> None:
    """Measure all lines and print them."""
    narrow = synthetic(15)
    lines = [single_run("one run, 15 features", narrow, 100), repeated_runs(narrow), exact()]
    if SPAMBASE.exists():
        lines.append(single_run("one run, Spambase, 57 features", spambase(), 20))
    else:
        print("Spambase is not there: its line is left out", file=sys.stderr)
    report(lines, "build/bench-search.json")


def synthetic(features: int, validation: int = 1000) -> Problem:
    """Return a problem like the paper's Synthetic15, with 2,000 train rows."""
    rows = 2000 + validation
    X, y = make_classification(rows, features, n_informative=features // 2, n_redundant=features // 5, flip_y=0.1, random_state=0)
    shares = Shares(train=2000 / rows, validation=validation / rows, test=0.0, certify=0.0)
    return Problem.of(X, y, threshold=0.85, costs=[10.0 ** (index % 3) for index in range(features)], shares=shares)


def spambase() -> Problem:
    """Return Spambase with unit costs."""
    columns = read_columns(SPAMBASE)
    return Problem.of(columns.features, columns.label, threshold=0.75)


def single_run(what: str, problem: Problem, target: int) -> Measurement:
    """Measure one run with the paper's settings, k = 5."""
    settings = Settings(max_stages=5, keep_all=True, generations=GENERATIONS)
    warm(problem)
    started = time.perf_counter()
    outcome = run_evolve(problem, settings, seed=0, jobs=2)
    ours = time.perf_counter() - started
    plain = baseline_seconds(problem, settings)
    print(
        f"{what}: {outcome.fits} sets fitted, {len(outcome.front)} designs; plain scaled from {BASELINE_GENERATIONS} generations"
    )
    return Measurement(what, ours, "plain refits, 2 processes", plain, "s", plain / ours, f">= {target}")


def repeated_runs(problem: Problem) -> Measurement:
    """Ten thresholds with ten seeds each, sharing all fits, against a hundred plain runs."""
    thresholds = np.linspace(0.55, 0.95, 10).tolist()
    settings = Settings(max_stages=5, keep_all=True, generations=GENERATIONS)
    started = time.perf_counter()
    bench = Workbench(problem, thresholds, jobs=2)
    for threshold in range(10):
        for seed in range(10):
            run_evolve(problem, settings, seed=seed, workbench=bench, threshold=threshold)
    ours = time.perf_counter() - started
    plain = 100 * baseline_seconds(problem, settings)
    print(f"ten thresholds, ten seeds: {bench.bits.fits} sets fitted")
    return Measurement("10 thresholds x 10 seeds, 15 features", ours, "100 plain runs", plain, "s", plain / ours, ">= 500")


def exact() -> Measurement:
    """Find the exact front of 14 features and four stages, all fits included, against a minute."""
    problem = synthetic(14, validation=250)
    warm(problem)
    started = time.perf_counter()
    outcome = run_exhaustive(problem, Settings(max_stages=4, keep_all=True), jobs=2)
    ours = time.perf_counter() - started
    memory = psutil.Process().memory_info().rss / 2**20
    each = ours / outcome.designs * 1e9
    print(f"exact: {outcome.designs:,} designs, front {len(outcome.front)}, {each:.1f} ns each with fits, RSS {memory:.0f} MB")
    return Measurement("exact front, 14 features, k = 4", ours, "a minute", 60.0, "s", ours / 60.0, "<= 1")


def warm(problem: Problem) -> None:
    """Compile everything once; that is cached on disk between runs of a user too."""
    small = Settings(max_stages=2, population=10, generations=2)
    run_evolve(problem, small, jobs=2)
    run_exhaustive(synthetic(4).sampled(50), Settings(max_stages=2), jobs=2)


def baseline_seconds(problem: Problem, settings: Settings) -> float:
    """Time a few generations of the plain way and scale them to all."""
    _shared["problem"] = problem
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(_fit, [np.ones(len(problem.names), dtype=bool)] * 2))
        started = time.perf_counter()
        few = Settings(max_stages=settings.max_stages, keep_all=True, generations=BASELINE_GENERATIONS)
        evolve_population(_BaselineEvaluator(problem, pool), few, seed=0)
        return (time.perf_counter() - started) / (BASELINE_GENERATIONS + 1) * (GENERATIONS + 1)


class _BaselineEvaluator:
    """Evaluates each new chromosome by refitting all of its stages."""

    def __init__(self, problem: Problem, pool: ProcessPoolExecutor) -> None:
        self._problem = problem
        self._pool = pool
        self._units = CostUnits.of(problem.meter, problem.names)
        self._known: dict[bytes, tuple[int, int, int]] = {}
        self.n, self.rows = len(problem.names), len(problem.validation)

    def __call__(self, population: Any) -> Objectives:
        new = {chromosome.tobytes(): chromosome for chromosome in population if chromosome.tobytes() not in self._known}
        for key, chromosome in new.items():
            self._known[key] = self._evaluate(chromosome)
        counts = np.array([self._known[chromosome.tobytes()] for chromosome in population])
        return Objectives(counts[:, 0], counts[:, 1], counts[:, 2], self.rows, 0.0, self._units.scale)

    def _evaluate(self, chromosome: Any) -> tuple[int, int, int]:
        sets, valid = cumulative_sets(chromosome[None, :])
        stages = sets[0][valid[0]]
        costs = self._units.cost(stages).tolist()
        waiting = np.ones(self.rows, dtype=bool)
        accepted = right = cost = 0
        for probabilities, price in zip(self._pool.map(_fit, stages), costs, strict=True):
            label = probabilities.argmax(axis=1)
            leaving = waiting & (probabilities.max(axis=1) >= np.array(self._problem.thresholds)[label])
            accepted += int(leaving.sum())
            right += int((leaving & (label == self._problem.validation.target)).sum())
            cost += int(leaving.sum()) * price
            waiting &= ~leaving
        return accepted, right, cost + int(waiting.sum()) * costs[-1]


def _fit(chosen: Any) -> Any:
    problem = _shared["problem"]
    columns = np.flatnonzero(chosen)
    model = LogisticRegression(max_iter=1000).fit(problem.train.encoded[:, columns], problem.train.target)
    return model.predict_proba(problem.validation.encoded[:, columns])


if __name__ == "__main__":
    main()
