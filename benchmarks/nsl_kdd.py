"""NSL-KDD, 126,000 rows with text columns: how long a search takes, how much memory, and how both grow with the rows.

``python benchmarks/nsl_kdd.py`` measures four sizes with a few generations, normal against attack; ``--full`` a whole default run
on all rows; ``--full --classes 5`` one with the five classes, searched on a sample of the rows and measured on all of them. Each
measurement has a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from _shared_data import NSL_KDD, NSL_KDD_TEXT, read_nsl_kdd

from emsco_train import FeatureOptions, Problem, Progress, Settings, Workbench, run_evolve
from emsco_train.search.sweep import remeasure_front

ROWS = 125_973
FEW_GENERATIONS, ALL_GENERATIONS = 4, 150
SEARCH_ROWS = 1_000
WARM_UP_ROWS = 2_000
THRESHOLD = 0.95
JOBS = 2

Figures = dict[str, float]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what the options say and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="a whole default run on all rows: takes the better part of an hour")
    parser.add_argument("--classes", type=int, choices=(2, 5), default=2)
    parser.add_argument("--child", type=int, metavar="ROWS", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    generations = ALL_GENERATIONS if options.full else FEW_GENERATIONS
    if not NSL_KDD.exists():
        print("NSL-KDD is not there: nothing is measured", file=sys.stderr)
        return
    if options.child is not None:
        print(json.dumps(measure(options.child, options.classes, generations)))
        return
    sizes = [ROWS] if options.full else [ROWS // 8, ROWS // 4, ROWS // 2, ROWS]
    # Compiles, where nothing compiled is on disk yet.
    in_child(WARM_UP_ROWS, argparse.Namespace(classes=options.classes, full=False))
    print(f"{options.classes} classes, {generations} generations, {JOBS} jobs")
    print(f"{'rows':>8} {'seconds':>8} {'sets':>7} {'us/set/row':>11} {'designs':>8} {'front':>6} {'peak MiB':>9}")
    for rows in sizes:
        show(rows, in_child(rows, options))


def show(rows: int, found: Figures) -> None:
    """Print one line."""
    each = found["seconds"] / found["fits"] / rows * 1e6
    print(
        f"{rows:>8} {found['seconds']:>8.1f} {found['fits']:>7.0f} {each:>11.4f} {found['designs']:>8.0f} "
        f"{found['front']:>6.0f} {found['peak_mib']:>9.0f}",
        flush=True,
    )


def in_child(rows: int, options: argparse.Namespace) -> Figures:
    """Measure one size in a fresh process."""
    arguments = ["--child", str(rows), "--classes", str(options.classes), *(["--full"] if options.full else [])]
    done = subprocess.run([sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure(rows: int, classes: int, generations: int) -> Figures:
    """Search on `rows` rows; the time is that of dividing, searching and fitting, without reading the file."""
    columns, label = read(rows)
    truth = np.where(label == "normal", "normal", "attack") if classes == 2 else label
    options = {name: FeatureOptions(unknown="ignore") for name in NSL_KDD_TEXT}
    settings = Settings(generations=generations)
    started = time.perf_counter()
    problem = Problem.of(columns, truth, threshold=THRESHOLD, features=options)
    part = problem if classes == 2 else problem.sampled(SEARCH_ROWS)
    with Progress(every_s=60.0) as progress:
        outcome = run_evolve(part, settings, jobs=JOBS, on_generation=progress.on_generation, on_progress=progress.on_progress)
    if part is not problem:
        outcome = remeasure_front(outcome, Workbench(problem, jobs=JOBS), settings)
    return {
        "seconds": time.perf_counter() - started,
        "fits": outcome.fits,
        "designs": outcome.designs,
        "front": len(outcome.front),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def read(rows: int) -> tuple[dict[str, Any], Any]:
    """Return a random part of the table: numbers where they are numbers, text elsewhere."""
    table = read_nsl_kdd()
    chosen = np.sort(np.random.default_rng(0).permutation(len(table.label))[:rows])
    return {name: column[chosen] for name, column in table.features.items()}, table.label[chosen]


if __name__ == "__main__":
    main()
