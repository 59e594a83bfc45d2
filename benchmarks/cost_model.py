"""What training and scoring cost per row: a model fitted to measurements, and checked by a run that was not used for the fit.

Each point is measured in a process of its own, on one core: CPU seconds, so that a busy machine matters little, and the most
memory that the process ever had. Preparation is the work up to the first fit; a set is the fit of one feature set on the train
rows, with the scores of the validation rows. Without an argument: fits, checks, and prints the plan for 10^9 rows x 60 features.
docs/scale.md explains the figures.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from emsco_runtime import Cascade
from emsco_runtime.cli.console import format_table
from emsco_runtime.support.arrays import Floats
from emsco_runtime.testing import make_bundle
from emsco_train import Problem, run_search
from emsco_train.search.compilation import load_search
from emsco_train.search.workbench import Workbench

ROWS = (50_000, 150_000, 400_000)
FEATURES = (8, 20)
SET_SIZES = (2, 4, 7)
SETS = 20
# Not among those above.
CHECK_ROWS, CHECK_FEATURES = 250_000, 7
SCORED_ROWS = 100_000
SCORED_FEATURES = (5, 20, 60)


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement of training: preparation and sets of each size in CPU seconds, memory in bytes."""

    rows: int
    features: int
    prepare: float
    sets: dict[int, float]
    memory: int
    base_memory: int


def make_table(rows: int, features: int) -> tuple[Floats, Floats]:
    """Make up a table: every second feature says something."""
    rng = np.random.default_rng(rows + features)
    X = rng.normal(size=(rows, features))
    weights = np.where(np.arange(features) % 2, 0.1, 1.0) / math.sqrt(features)
    return X, (X @ weights + rng.normal(size=rows) * 0.5 > 0).astype(np.float64)


def measure_training(rows: int, features: int, sizes: Sequence[int]) -> Point:
    """Prepare a table and fit sets of some sizes."""
    load_search()
    base, (X, y) = peak_memory(), make_table(rows, features)
    started = time.process_time()
    problem = Problem.of(X, y, threshold=0.8)
    bench = Workbench(problem, jobs=1)
    # The first fit prepares the rows for all.
    bench.bits.locate(np.eye(1, features, dtype=np.bool_))
    prepared = time.process_time() - started
    rng, seconds = np.random.default_rng(0), {}
    for size in sizes:
        sets = np.zeros((SETS, features), dtype=np.bool_)
        for row in sets:
            row[rng.choice(features, size, replace=False)] = True
        sets = np.unique(sets, axis=0)
        started = time.process_time()
        bench.bits.locate(sets)
        seconds[size] = (time.process_time() - started) / len(sets)
    return Point(rows, features, prepared, seconds, peak_memory(), base)


def measure_search(rows: int, features: int) -> float:
    """Return the CPU seconds of an exact search over all feature sets."""
    load_search()
    X, y = make_table(rows, features)
    started = time.process_time()
    outcome = run_search(Problem.of(X, y, threshold=0.8), method="exhaustive", jobs=1)
    assert outcome.fits == 2**features - 1
    return time.process_time() - started


def measure_scoring(features: int) -> float:
    """Return the CPU seconds per row of a cascade of two stages that share the features."""
    names = [f"f{number}" for number in range(features)]
    cascade = Cascade(make_bundle([names[: features // 2], names[features // 2 :]], threshold=0.9, seed=1))
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=SCORED_ROWS) * 0.2 for name in names}
    started = time.process_time()
    cascade.decide_columns(columns)
    return (time.process_time() - started) / SCORED_ROWS


def peak_memory() -> int:
    """Return the most memory that this process has had, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def in_child(*arguments: object) -> str:
    """Run this script for one measurement."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def fit(terms: Sequence[Sequence[float]], values: Sequence[float]) -> Floats:
    """Return coefficients of at least 0 with the least relative error."""
    weights = 1 / np.asarray(values)
    return nnls(np.asarray(terms) * weights[:, None], np.asarray(values) * weights)[0]


def set_terms(rows: int, size: int) -> list[float]:
    """Return the terms of a set: passes over its rows, their products with a column, and with each pair of columns."""
    return [1.0, rows, rows * size, rows * size**2]


def main() -> None:
    """Measure, fit, check, plan."""
    points = [
        Point(**{**found, "sets": {int(size): value for size, value in found["sets"].items()}})
        for rows in ROWS
        for features in FEATURES
        for found in [json.loads(in_child("training", rows, features))]
    ]
    prepare = fit([[1.0, point.rows * point.features] for point in points], [point.prepare for point in points])
    measured = [(point.rows, size, seconds) for point in points for size, seconds in point.sets.items()]
    one_set = fit([set_terms(rows, size) for rows, size, _ in measured], [seconds for *_, seconds in measured])
    memory = fit([[1.0, one.rows * one.features] for one in points], [float(one.memory - one.base_memory) for one in points])
    print(format_table(["rows", "features", "preparation s", *(f"set of {size}, ms" for size in SET_SIZES), "memory MiB"],
        [[f"{one.rows:,}", str(one.features), f"{one.prepare:.2f}", *(f"{1e3 * one.sets[size]:.1f}" for size in SET_SIZES),
          f"{(one.memory - one.base_memory) / 2**20:.0f}"] for one in points]))  # fmt: skip
    print(f"\npreparation: {prepare[0]:.2f} s + {1e6 * prepare[1]:.2f} us per row and feature")
    parts = ", ".join(f"{1e9 * part:.1f}" for part in one_set[1:])
    print(f"a set of k features: {1e3 * one_set[0]:.2f} ms + rows x ({parts}) . (1, k, k^2) ns")
    print(f"memory: {memory[0] / 2**20:.0f} MiB + {memory[1]:.0f} bytes per row and feature")
    sets = sum(
        math.comb(CHECK_FEATURES, size) * float(np.dot(one_set, set_terms(CHECK_ROWS, size)))
        for size in range(1, CHECK_FEATURES + 1)
    )
    predicted = sets + float(np.dot(prepare, [1.0, CHECK_ROWS * CHECK_FEATURES]))
    found = float(in_child("search", CHECK_ROWS, CHECK_FEATURES))
    print(
        f"\ncheck: exact search, {CHECK_ROWS:,} rows x {CHECK_FEATURES}, {2**CHECK_FEATURES - 1} sets:"
        f" predicted {predicted:.1f} s, measured {found:.1f} s ({predicted / found:.2f} of it)"
    )
    per_row = [float(in_child("scoring", 0, features)) for features in SCORED_FEATURES]
    scoring = fit([[1.0, features] for features in SCORED_FEATURES[::2]], per_row[::2])
    between = float(np.dot(scoring, [1.0, SCORED_FEATURES[1]]))
    print(f"scoring: {1e6 * scoring[0]:.2f} us + {1e6 * scoring[1]:.3f} us per feature and row;", end=" ")
    print(
        f"check at {SCORED_FEATURES[1]} features: predicted {1e6 * between:.2f} us, measured {1e6 * per_row[1]:.2f} us"
        f" ({between / per_row[1]:.2f} of it)"
    )
    plan(float(prepare[1]), one_set, float(memory[1]), float(np.dot(scoring, [1.0, 60])))


def plan(prepare: float, one_set: Floats, memory: float, scoring: float) -> None:
    """Print what 10^9 rows x 60 features would take."""
    rows, features, cores = 1e9, 60, 256
    of_ten = float(np.dot(one_set[1:], [1, 10, 100]))
    print(
        f"\n10^9 rows x {features} on {cores} cores, perfect sharing: table {rows * features * 8 / 1e9:.0f} GB as float64;"
        f" memory as one process keeps it {memory * rows * features / 1e12:.1f} TB;"
        f" preparation {prepare * rows * features / cores / 3600:.1f} h;"
        f" a set of 10 features {of_ten * rows / cores:.0f} s, 2,000 sets {2000 * of_ten * rows / cores / 3600:.1f} h;"
        f" scoring {scoring * rows / cores / 60:.1f} min"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what", nargs="?", choices=("training", "search", "scoring"), help="one measurement, for the script itself"
    )
    parser.add_argument("rows", nargs="?", type=int)
    parser.add_argument("features", nargs="?", type=int)
    options = parser.parse_args()
    if options.what is None:
        main()
    elif options.what == "training":
        point = measure_training(options.rows, options.features, SET_SIZES)
        print(json.dumps({name: getattr(point, name) for name in Point.__slots__}))
    elif options.what == "search":
        print(measure_search(options.rows, options.features))
    else:
        print(measure_scoring(options.features))
