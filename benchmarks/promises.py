"""What was shown when a design was chosen, against the test rows; and how often an error can be certified.

``python benchmarks/promises.py small`` divides Pima, heart failure and credit at random, chooses by floors as before (one
validation split, straight stages, raw figures) and as now (folds, curved stages, tuned thresholds, sure floors), and compares
what was shown with the test rows.

``python benchmarks/promises.py wide`` does the second on Spambase with all features, and prints by how much accuracy and coverage
on the test rows fall short of their floors.

``python benchmarks/promises.py certified`` asks for an error of at most 6 % on Spambase rows, with and without the ladder.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from _shared_data import DATA, LANDSCAPES, read_columns

from emsco_train import Design, Problem, Settings, Shares, run_search
from emsco_train.designs.selection import Requirements
from emsco_train.errors import CertificationError, SelectionError
from emsco_train.export.searched_design import fit_design
from emsco_train.export.tuned_choice import choose_tuned_design, select_tuned_design
from emsco_train.guarantee.choice import SelectionCriteria, choose_design
from emsco_train.guarantee.ledger import MemoryLedger
from emsco_train.models.evaluation import evaluate_split

# Written down before anything was measured.
SMALL_FLOORS = {"pima": (0.78, 0.75), "heart": (0.82, 0.70), "credit": (0.87, 0.85)}
WIDE_FLOORS = (0.93, 0.92)
MAX_ERROR = 0.06


@dataclass(frozen=True, slots=True)
class Figures:
    """Accuracy, coverage and mean cost."""

    accuracy: float
    coverage: float
    cost: float


def on_test_rows(problem: Problem, design: Design) -> Figures:
    """Return what the exported models of a design do on the test rows."""
    assert problem.test is not None
    found = evaluate_split(problem, fit_design(problem, design), problem.test).expected(problem.test.target, "test")
    return Figures(found.right / max(1, found.accepted), found.accepted / found.rows, found.cost.mean)


def choose(problem: Problem, settings: Settings, floors: tuple[float, float], *, seed: int, tuned: bool) -> Design | None:
    """Search, and choose by floors: tuned and sure, or the cheapest by the raw figures; None where nothing satisfies."""
    front = run_search(problem, settings, seed=seed).front
    wanted = Requirements(min_accuracy=floors[0], min_coverage=floors[1])
    try:
        if tuned:
            return select_tuned_design(problem, front, wanted)
        return front.select(min_accuracy=floors[0], min_coverage=floors[1], sure=None)
    except SelectionError:
        return None


def small(divisions: int) -> None:
    """Print, for each table and way, the mean figures shown and on the test rows, over the divisions with a design."""
    pairs = "".join(f"{name + ' shown':>16}{'test':>8}" for name in ("accuracy", "coverage", "cost"))
    print(f"{'table':<8}{'way':<8}{'given':>6}{pairs}")
    for name, floors in SMALL_FLOORS.items():
        data = LANDSCAPES[name]
        columns = read_columns(data.path)
        for way in ("before", "now"):
            shown, true = [], []
            for seed in range(divisions):
                problem = Problem.of(
                    columns.features,
                    columns.label,
                    costs=data.costs(),
                    threshold=data.threshold,
                    folds=None if way == "now" else 0,
                    stages="curved" if way == "now" else "straight",
                    seed=seed,
                )
                design = choose(problem, Settings(max_stages=3), floors, seed=seed, tuned=way == "now")
                if design is not None:
                    shown.append(Figures(design.accuracy, design.coverage, design.cost))
                    true.append(on_test_rows(problem, design))
            cells = f"{name:<8}{way:<8}{len(shown):>6}"
            for figure, widths in (("accuracy", (16, 8)), ("coverage", (16, 8)), ("cost", (16, 8))):
                means = [
                    statistics.fmean(getattr(one, figure) for one in part) if part else float("nan") for part in (shown, true)
                ]
                digits = 1 if figure == "cost" else 3
                cells += "".join(f"{mean:>{width}.{digits}f}" for mean, width in zip(means, widths, strict=True))
            print(cells, flush=True)


def wide(splits: int, settings: Settings) -> None:
    """Print the shortfalls on the test rows of Spambase, split by split, and their means."""
    columns = read_columns(DATA / "spambase.csv")
    shortfalls = []
    for seed in range(splits):
        problem = Problem.of(columns.features, columns.label, threshold=0.8, folds=None, stages="curved", seed=seed)
        started = time.monotonic()
        design = choose(problem, settings, WIDE_FLOORS, seed=seed, tuned=True)
        if design is None:
            print(f"{seed:>3}  no design", flush=True)
            continue
        true = on_test_rows(problem, design)
        shortfalls.append((max(0.0, WIDE_FLOORS[0] - true.accuracy), max(0.0, WIDE_FLOORS[1] - true.coverage)))
        took = time.monotonic() - started
        print(
            f"{seed:>3}  accuracy {true.accuracy:.4f}  coverage {true.coverage:.4f}  cost {true.cost:.1f}  {took:.0f} s",
            flush=True,
        )
    means = [statistics.fmean(part) for part in zip(*shortfalls, strict=True)]
    print(f"mean shortfall: accuracy {means[0]:.4f}, coverage {means[1]:.4f}, over {len(shortfalls)} of {splits} splits")


def certified(repeats: int, rows: Sequence[int], shares: Sequence[float], settings: Settings) -> None:
    """Print in how many of the runs an error of at most 6 % was certified, with the ladder and without."""
    columns = read_columns(DATA / "spambase.csv")
    criteria = SelectionCriteria.of(Requirements(), max_error=MAX_ERROR)
    for count in rows:
        for share in shares:
            issued = {"ladder": 0, "front alone": 0}
            coverage = []
            for repeat in range(repeats):
                chosen = np.random.default_rng(repeat).permutation(len(columns.label))[:count]
                problem = Problem.of(
                    {name: column[chosen] for name, column in columns.features.items()},
                    columns.label[chosen],
                    threshold=0.8,
                    shares=Shares(1.0 - share, 0.0, 0.0, share),
                    folds=None,
                    stages="curved",
                    seed=repeat,
                )
                front = run_search(problem, settings, seed=repeat).front
                for name, select in (("ladder", choose_tuned_design), ("front alone", choose_design)):
                    try:
                        certificate = select(problem, front, criteria, MemoryLedger()).certificate
                    except (CertificationError, SelectionError):
                        continue
                    assert certificate is not None
                    issued[name] += 1
                    if name == "ladder":
                        coverage.append(certificate.accepted / certificate.rows)
            mean = statistics.fmean(coverage) if coverage else float("nan")
            with_ladder = f"{issued['ladder']} of {repeats} with the ladder (mean coverage {mean:.2f})"
            print(f"{count} rows, {100 * share:.0f} % certify: {with_ladder}, {issued['front alone']} without", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Run one of the three."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["small", "wide", "certified"], default="small")
    parser.add_argument("--repeats", type=int, default=None, help="divisions (20), splits (10) or runs (20)")
    parser.add_argument("--rows", nargs="+", type=int, default=[2000, 4000])
    parser.add_argument("--shares", nargs="+", type=float, default=[0.2, 0.3])
    parser.add_argument("--population", type=int, default=60)
    parser.add_argument("--generations", type=int, default=40)
    options = parser.parse_args(argv)
    if not (DATA / "spambase.csv").exists():
        print("the data sets are not there: nothing is measured", file=sys.stderr)
        return
    settings = Settings(population=options.population, generations=options.generations)
    if options.what == "small":
        small(options.repeats or 20)
    elif options.what == "wide":
        wide(options.repeats or 10, settings)
    else:
        certified(options.repeats or 20, options.rows, options.shares, settings)


if __name__ == "__main__":
    main()
