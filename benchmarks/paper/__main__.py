"""``python -m paper EXPERIMENTS``: measure what is missing, or make the page."""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from _shared_data import DATA
from threadpoolctl import threadpool_limits

from paper import alternatives, budgets, comparison, fronts, hypervolume, page, sweeps, wishes
from paper.tasks import CommandRow, Plan, append_records

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = {
    "fronts": fronts.measure,
    "comparison": comparison.measure,
    "sweeps": sweeps.measure,
    "alternatives": alternatives.measure,
    "wishes": wishes.measure,
    "hypervolume": hypervolume.measure,
    "budgets": budgets.measure,
}
# Of the full form: as many as the paper has, where it has any; of the others, enough for margins, within a night.
FULL_RUNS = {"fronts": 50, "comparison": 50, "sweeps": 1, "alternatives": 6, "wishes": 6, "hypervolume": 3, "budgets": 5}
QUICK_RUNS = 2


def main(argv: Sequence[str] | None = None) -> None:
    """Measure some experiments, or all, or make the page."""
    parser = argparse.ArgumentParser(prog="python -m paper", description=(__doc__ or "").strip())
    parser.add_argument("experiments", nargs="+", choices=[*EXPERIMENTS, "all", "page"])
    parser.add_argument(
        "--runs", type=int, help="runs of each measurement (50 of fronts and comparison, 1 to 6 of the others; with --quick 2)"
    )
    parser.add_argument("--quick", action="store_true", help="few runs, short searches and parts of the large tables")
    parser.add_argument("--data", nargs="+", help="some of the data sets")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "results", help="of the CSV files (docs/results)")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "results.md", help="the page to write (docs/results.md)")
    options = parser.parse_args(argv)
    if "page" in options.experiments:
        page.write_page(options.folder, options.page)
        return
    if not (DATA / "pima.csv").exists():
        sys.exit("the data sets are not beside the project: nothing is measured")
    options.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    chosen = list(EXPERIMENTS) if "all" in options.experiments else options.experiments
    # Small matrices are slower with several threads, much slower on a busy machine.
    with threadpool_limits(1):
        for name in chosen:
            runs = options.runs or (QUICK_RUNS if options.quick else FULL_RUNS[name])
            plan = Plan(options.folder, runs, is_quick=options.quick, data=tuple(options.data or ()))
            started = time.process_time()
            EXPERIMENTS[name](plan)
            form, seconds = "quick" if plan.is_quick else "full", time.process_time() - started
            done = CommandRow(name, form, " ".join(plan.data) or "all", 1 if name == "sweeps" else runs, seconds)
            append_records(options.folder / "commands.csv", [done])


if __name__ == "__main__":
    main()
