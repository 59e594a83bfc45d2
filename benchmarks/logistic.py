"""The speed of batched fits, each as a ratio to scikit-learn's default solver in the same run."""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # scikit-learn must not gain or lose by threads of its own

import numpy as np
from _measure import Measurement, report
from _shared_data import DATA, read_columns
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from emsco_train.models.logistic.regression import LogisticBatch, LogisticProblem, top_labels
from emsco_train.models.logistic.row_blocks import RowBlocks

SPAMBASE = DATA / "spambase.csv"
WORKERS = 1  # of both: threads of ours and processes of scikit-learn's gain the same, on a machine that is free
SETS = 600


def main() -> None:
    """Measure all lines and print them."""
    X, y = synthetic(100)
    problem = LogisticProblem(X, y, 2)
    top_labels(problem.fit(np.ones((1, 15), dtype=bool)), RowBlocks.of(X))  # compiles, or loads what was compiled
    lines = [*narrow(), *wide(), *tall()]
    report(lines, "build/bench-logistic.json")


def narrow() -> list[Measurement]:
    """One in seven of the 32,767 sets of 15 columns on 2,000 rows, and their scores."""
    X, y = synthetic(2000)
    sets = (np.arange(1, 2**15, 7)[:, None] >> np.arange(15) & 1).astype(bool)
    problem = LogisticProblem(X, y, 2)
    seconds, batch = measure_fit(lambda: problem.fit(sets, workers=WORKERS))
    print(f"15 columns: all 32,767 sets would take {seconds / len(sets) * 32767:.1f} s; {batch.passes.mean():.1f} passes a set")
    scoring, _ = measure_fit(lambda: top_labels(batch.take(slice(0, 4000)), RowBlocks.of(X[:1000]), workers=WORKERS))
    base = sklearn_seconds(X, y, sets[:: len(sets) // 40])
    return [
        line("fit, 15 columns, 2,000 rows", seconds / len(sets), base, ">= 20"),
        line("score 1,000 rows of a 15-column set", scoring / 4000, base, ">= 50"),
    ]


def wide() -> list[Measurement]:
    """Fit sets of Spambase's 57 columns on 1,840 rows."""
    X, y = spambase() if SPAMBASE.exists() else synthetic(1840, 57)
    rng = np.random.default_rng(1)
    sets = rng.random((SETS, X.shape[1])) < rng.uniform(0.15, 1.0, (SETS, 1))
    problem = LogisticProblem(X, y, 2)
    seconds, batch = measure_fit(lambda: problem.fit(sets, workers=WORKERS))
    print(f"57 columns: {sets.sum(axis=1).mean():.0f} in a set, {batch.passes.mean():.1f} passes")
    base = sklearn_seconds(X, y, sets[::50])
    return [line("fit, 57 columns, 1,840 rows", seconds / SETS, base, ">= 10")]


def tall() -> list[Measurement]:
    """One time and four times the rows: linear, as far as caches let it be."""
    seconds = []
    for rows in (20_000, 80_000):
        X, y = synthetic(rows, 40)
        problem = LogisticProblem(X, y, 2)
        sets = np.random.default_rng(2).random((8, 40)) < 0.5
        least, batch = measure_fit(lambda problem=problem, sets=sets: problem.fit(sets, workers=WORKERS))
        seconds.append(least / int(batch.passes.sum()))
    few, many = (second * 1e3 for second in seconds)
    return [Measurement("fit, 20 of 40 columns, 80,000 rows", many, "20,000 rows", few, "ms/pass", many / few, "<= 5")]


def synthetic(rows: int, columns: int = 15) -> tuple[Any, Any]:
    """Return standardised columns and two labels."""
    X, y = make_classification(rows, columns, n_informative=8, class_sep=0.5, flip_y=0.2, random_state=0)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def spambase() -> tuple[Any, Any]:
    """Return 1,840 standardised rows of Spambase."""
    columns = read_columns(SPAMBASE)
    chosen = np.random.default_rng(0).permutation(len(columns.label))[:1840]
    X = columns.matrix()[chosen]
    return (X - X.mean(axis=0)) / X.std(axis=0), columns.label[chosen]


def sklearn_seconds(X: Any, y: Any, sets: Any) -> float:  # noqa: N803
    """Return the seconds of a set with scikit-learn's default solver and tolerance, in one process."""

    def fit() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for columns in sets:
                LogisticRegression(max_iter=1000).fit(X[:, columns], y)

    return measure_fit(fit)[0] / len(sets)


def measure_fit(work: Any) -> tuple[float, LogisticBatch]:
    """Return the least seconds that some work takes in three rounds, and its result."""
    least = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        result = work()
        least = min(least, time.perf_counter() - start)
    return least, result


def line(what: str, seconds: float, base: float, target: str) -> Measurement:
    """Return a line of the table."""
    against = "LogisticRegression, default solver"
    return Measurement(what, seconds * 1e6, against, base * 1e6, "us/set", base / seconds, target)


if __name__ == "__main__":
    main()
