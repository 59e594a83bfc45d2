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
from emsco_train import Problem, Settings, run_search
from emsco_train.search.compilation import load_search
from emsco_train.search.workbench import Workbench

ROWS = (10_000, 30_000, 90_000)
FEATURES = (8, 16)
SET_SIZES = (2, 4, 7)
SETS = 20
SEARCH = Settings(population=30, generations=10)
# Not among those above.
CHECK_ROWS, CHECK_FEATURES = 60_000, 12
SCORED_ROWS = 100_000
SCORED_FEATURES = (5, 20, 60)


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement of training: preparation, sets of each size and a genetic search in CPU seconds, memory in bytes.

    The search fitted `fits` sets.
    """

    rows: int
    features: int
    prepare: float
    sets: dict[int, float]
    search: float
    fits: int
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
    started = time.process_time()
    outcome = run_search(problem, SEARCH, method="evolve", jobs=1)
    searched = time.process_time() - started
    return Point(rows, features, prepared, seconds, searched, outcome.fits, peak_memory(), base)


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


def search_terms(rows: int, features: int, fits: int) -> list[float]:
    """Return the terms of a search: its fits, and the greedy paths that it begins with."""
    return [1.0, rows * fits, rows * features**2]


def read_point(text: str) -> Point:
    """Read what a child printed."""
    found = json.loads(text)
    return Point(**{**found, "sets": {int(size): value for size, value in found["sets"].items()}})


def format_points(points: Sequence[Point]) -> str:
    """Lay out the measurements."""
    header = [
        "rows",
        "features",
        "preparation s",
        *(f"set of {size}, ms" for size in SET_SIZES),
        "search s",
        "sets",
        "memory MiB",
    ]
    lines = []
    for one in points:
        of_size = [f"{1e3 * one.sets[size]:.1f}" for size in SET_SIZES]
        memory = f"{(one.memory - one.base_memory) / 2**20:.0f}"
        lines.append(
            [f"{one.rows:,}", str(one.features), f"{one.prepare:.2f}", *of_size, f"{one.search:.2f}", str(one.fits), memory]
        )
    return format_table(header, lines)


def main() -> None:
    """Measure, fit, check, plan."""
    points = [read_point(in_child("training", rows, features)) for rows in ROWS for features in FEATURES]
    prepare = fit([[1.0, point.rows * point.features] for point in points], [point.prepare for point in points])
    measured = [(point.rows, size, seconds) for point in points for size, seconds in point.sets.items()]
    one_set = fit([set_terms(rows, size) for rows, size, _ in measured], [seconds for *_, seconds in measured])
    memory = fit([[1.0, one.rows * one.features] for one in points], [float(one.memory - one.base_memory) for one in points])
    print(format_points(points))
    print(f"\npreparation: {prepare[0]:.2f} s + {1e6 * prepare[1]:.2f} us per row and feature")
    parts = ", ".join(f"{1e9 * part:.1f}" for part in one_set[1:])
    print(f"a set of k features: {1e3 * one_set[0]:.2f} ms + rows x ({parts}) . (1, k, k^2) ns")
    print(f"memory: {memory[0] / 2**20:.0f} MiB + {memory[1]:.0f} bytes per row and feature")
    search = fit([search_terms(one.rows, one.features, one.fits) for one in points], [one.search for one in points])
    print(
        f"a genetic search: {search[0]:.2f} s + rows x ({1e9 * search[1]:.0f} ns per set fitted"
        f" + {1e9 * search[2]:.0f} ns per feature squared)"
    )
    check = read_point(in_child("training", CHECK_ROWS, CHECK_FEATURES))
    for what, predicted, found in (
        ("preparation", float(np.dot(prepare, [1.0, check.rows * check.features])), check.prepare),
        ("search", float(np.dot(search, search_terms(check.rows, check.features, check.fits))), check.search),
        ("memory", float(np.dot(memory, [1.0, check.rows * check.features])) / 2**20, (check.memory - check.base_memory) / 2**20),
    ):
        shape = f"{check.rows:,} rows x {check.features}, {check.fits} sets"
        print(f"check, {shape}: {what}: predicted {predicted:.2f}, measured {found:.2f}")
    per_row = [float(in_child("scoring", 0, features)) for features in SCORED_FEATURES]
    scoring = fit([[1.0, features] for features in SCORED_FEATURES[::2]], per_row[::2])
    between = float(np.dot(scoring, [1.0, SCORED_FEATURES[1]]))
    print(f"scoring: {1e6 * scoring[0]:.2f} us + {1e6 * scoring[1]:.3f} us per feature and row;", end=" ")
    print(
        f"check at {SCORED_FEATURES[1]} features: predicted {1e6 * between:.2f} us, measured {1e6 * per_row[1]:.2f} us"
        f" ({between / per_row[1]:.2f} of it)"
    )
    plan(float(prepare[1]), search, float(memory[1]), float(np.dot(scoring, [1.0, 60])))


def plan(prepare: float, search: Floats, memory: float, scoring: float) -> None:
    """Print what 10^9 rows x 60 features would take."""
    rows, features, sets, cores = 1e9, 60, 5_000, 256
    searching = float(np.dot(search[1:], search_terms(1, features, sets)[1:])) * rows
    print(
        f"\n10^9 rows x {features}, {sets:,} sets, {cores} cores that share perfectly:"
        f" table {rows * features * 8 / 1e9:.0f} GB as float64;"
        f" memory as one process takes it {memory * rows * features / 1e12:.1f} TB;"
        f" preparation {prepare * rows * features / cores / 60:.1f} min;"
        f" search {searching / cores / 3600:.1f} h; scoring {scoring * rows / cores / 60:.1f} min"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("training", "scoring"), help="one measurement, for the script itself")
    parser.add_argument("rows", nargs="?", type=int)
    parser.add_argument("features", nargs="?", type=int)
    options = parser.parse_args()
    if options.what is None:
        main()
    elif options.what == "training":
        point = measure_training(options.rows, options.features, SET_SIZES)
        print(json.dumps({name: getattr(point, name) for name in Point.__slots__}))
    else:
        print(measure_scoring(options.features))
