"""Long tables: what the commands take as the rows grow, and what a search on a sample of the rows costs in quality.

    python benchmarks/long.py growth 100000 1000000     # seconds, processor seconds and memory of each command
    python benchmarks/long.py sample 1000000            # the front of the default sample against that of all rows, on test rows

Tables of ten columns from Parquet, at a price of 1 each; the label is that of a linear score with noise.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import moocore
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FEATURES = 10
# The label is linear in the features: curves would find nothing.
STAGES = ("--stages", "straight")
FLOORS = ((0.94, 0.6), (0.95, 0.4), (0.95, 0.6), (0.96, 0.6), (0.97, 0.5), (0.97, 0.6))


def write_table(path: Path, rows: int) -> None:
    """Write a table of `rows` rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, FEATURES))
    y = X @ np.linspace(2, 0.2, FEATURES) + rng.normal(size=rows) * 1.5 > 0
    columns = {f"f{place}": X[:, place].round(4) for place in range(FEATURES)}
    pq.write_table(pa.table({**columns, "label": np.where(y, "yes", "no")}), path)


def run_command(name: str, *arguments: object) -> str:
    """Run a command of this Python's environment; return what it took."""
    command = [str(Path(sys.executable).parent / name), *map(str, arguments)]
    started = time.monotonic()
    with Path(os.devnull).open("w", encoding="utf-8") as nothing:
        actions = [(os.POSIX_SPAWN_DUP2, nothing.fileno(), 1), (os.POSIX_SPAWN_DUP2, nothing.fileno(), 2)]
        _, status, usage = os.wait4(os.posix_spawn(command[0], command, os.environ, file_actions=actions), 0)
    if status:
        raise SystemExit(f"{name} failed: {' '.join(command)}")
    processor = usage.ru_utime + usage.ru_stime
    return f"{time.monotonic() - started:7.1f} s  {processor:7.1f} s  {usage.ru_maxrss / 2**20:5.2f} GB"


def measure_growth(folder: Path, sizes: Sequence[int]) -> None:
    """Print what each command takes on tables of these sizes."""
    print("     rows  command          time  processor   memory")
    for rows in sizes:
        table, run, bundle = folder / f"{rows}.parquet", folder / f"run-{rows}", folder / f"bundle-{rows}"
        write_table(table, rows)
        asked = ("--min-accuracy", 0.95, "--min-coverage", 0.7)
        for name, arguments in (
            ("emsco-train", ("--data", table, "--label", "label", "--threshold", 0.9, *STAGES, "--out", run)),
            ("emsco-export", (run, "--out", bundle, *asked)),
            ("emsco-run", (bundle, table, "--out", folder / "decisions.csv")),
        ):
            print(f"{rows:9,}  {name:13}{run_command(name, *arguments)}", flush=True)
        table.unlink()


def compare_sample(folder: Path, sizes: Sequence[int]) -> None:
    """Print the fronts of a search on a sample and of one on all rows: their volume, and the cheapest designs at floors."""
    for rows in sizes:
        write_table(folder / "table.parquet", rows)
        for sample in ("auto", "all"):
            run = folder / f"{rows}-{sample}"
            options = ("--data", folder / "table.parquet", "--label", "label", "--threshold", 0.9, *STAGES, "--out", run)
            spent = run_command("emsco-train", *options, "--max-search-rows", sample)
            with (run / "front.csv").open(encoding="utf-8") as file:
                designs = [{name: _number(text) for name, text in line.items()} for line in csv.DictReader(file)]
            points = [[-one["test_coverage"], -one["test_accuracy"], one["test_cost"] / FEATURES] for one in designs]
            volume = moocore.hypervolume(np.array(points), ref=[0.0, 0.0, 1.0])
            print(f"{rows:,} rows, searched on {sample}: {len(designs)} designs, volume on test rows {volume:.5f}  {spent}")
            for accuracy, coverage in FLOORS:
                meeting = [one for one in designs if one["accuracy_bound"] >= accuracy and one["coverage_bound"] >= coverage]
                best = min(meeting, key=lambda one: one["validation_cost"])
                figures = (
                    f"cost {best['test_cost']:.3f}, accuracy {best['test_accuracy']:.4f}, coverage {best['test_coverage']:.4f}"
                )
                print(f"   accuracy >= {accuracy}, coverage >= {coverage}: {figures}", flush=True)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("growth", "sample"))
    parser.add_argument("rows", nargs="+", type=int)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (measure_growth if options.what == "growth" else compare_sample)(Path(folder), options.rows)


if __name__ == "__main__":
    main()
