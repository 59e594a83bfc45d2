"""Wide tables, floors and hypervolume: the search as it is by default against the plain one that keeps all features.

``wide.py tables`` makes tables of which ten columns matter, with and without columns that are correlated with these, searches
them, and judges on 20,000 fresh rows the cheapest design that is as good as one stage of the ten. ``wide.py floors`` takes
Spambase and NSL-KDD with prices and groups, and compares the cost at three floors. ``wide.py volume`` compares hypervolumes,
paired by seed, on the paper's landscapes, Spambase and NSL-KDD. "Plain" is the genetic algorithm of before: all features kept,
no seeds, no recombination. Both have the same population and generations; how many sets each fitted is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from _shared_data import DATA, LANDSCAPES, NSL_KDD, NSL_KDD_TEXT, read_columns, read_nsl_kdd

from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.costs.cost_model import CostModel
from emsco_train.costs.costs_file import CostGroup
from emsco_train.data.features import FeatureOptions
from emsco_train.data.problem import Problem
from emsco_train.designs.design import Design
from emsco_train.errors import SelectionError
from emsco_train.models.fitted_set import SetFitter
from emsco_train.search.searches import Outcome, run_evolve
from emsco_train.search.settings import Settings
from emsco_train.search.workbench import Workbench

INFORMATIVE, FRESH_ROWS, THRESHOLD = 10, 20_000, 0.9
# A design counts as found if it costs at most this, covers this share of what the ten cover, and is no less accurate by more.
MAX_COST, COVERAGE_SHARE, ACCURACY_LOSS = 12.0, 0.95, 0.01
FLOORS = ((0.95, 0.80), (0.97, 0.60), (0.98, 0.40))


@dataclass(frozen=True, slots=True, eq=False)
class WideTable:
    """Rows to search on, fresh rows to judge on, and the columns that matter."""

    rows: Floats
    labels: Ints
    fresh_rows: Floats
    fresh_labels: Ints
    informative: Ints


def make_wide_table(columns: int, rows: int, seed: int, *, decoys: bool) -> WideTable:
    """Return a table in which ten columns decide the label; with decoys, four more of each are correlated with it by 0.8."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(rows + FRESH_ROWS, columns))
    order = rng.permutation(columns)
    ten = order[:INFORMATIVE]
    weights = np.sqrt(2.0) * rng.choice([-1, 1], INFORMATIVE)
    labels = (rng.random(len(table)) < 1 / (1 + np.exp(-table[:, ten] @ weights))).astype(np.int64)
    if decoys:
        copies = order[INFORMATIVE : 5 * INFORMATIVE]
        table[:, copies] = 0.8 * np.tile(table[:, ten], 4) + 0.6 * table[:, copies]
    return WideTable(table[:rows], labels[:rows], table[rows:], labels[rows:], ten)


@dataclass(frozen=True, slots=True)
class WideResult:
    """What was found in one table: the design that comes nearest to the ten columns, and what these do, on fresh rows."""

    columns: int
    rows: int
    decoys: bool
    seed: int
    found: bool
    cost: float
    coverage: float
    accuracy: float
    ten_coverage: float
    ten_accuracy: float
    informative: int
    front: int
    fits: int
    seconds: float


def search_wide_table(columns: int, rows: int, seed: int, settings: Settings, *, decoys: bool) -> WideResult:
    """Search one table, and judge the best design that costs no more than allowed."""
    table = make_wide_table(columns, rows, seed, decoys=decoys)
    started = time.perf_counter()
    problem = Problem.of(table.rows, table.labels, threshold=THRESHOLD, seed=seed, folds=None)
    outcome = run_evolve(problem, settings, seed=seed, jobs=os.cpu_count())
    seconds = time.perf_counter() - started
    genes = np.full(columns, -1, dtype=np.int8)
    genes[table.informative] = 0
    ten = Design.of(genes.tolist(), problem.names, problem.thresholds, coverage=0.5, accuracy=0.5, cost=1.0)
    fitter, costs = SetFitter.of(problem), np.ones(columns)
    ten_coverage, ten_accuracy, _ = measure_fresh(fitter, ten, costs, table)
    best: tuple[tuple[bool, float], tuple[float, float, float], Design] | None = None
    for design in outcome.front:
        # Those that are far from it on the rows of the search are not worth the measuring.
        if design.cost <= 1.05 * MAX_COST and design.coverage >= 0.9 * ten_coverage and design.accuracy >= ten_accuracy - 0.03:
            figures = coverage, accuracy, cost = measure_fresh(fitter, design, costs, table)
            good = cost <= MAX_COST and coverage >= COVERAGE_SHARE * ten_coverage and accuracy >= ten_accuracy - ACCURACY_LOSS
            score = (good, min(coverage - ten_coverage, 0.0) + min(accuracy - ten_accuracy, 0.0))
            best = max(best or (score, figures, design), (score, figures, design), key=lambda each: each[0])
    (found, _), (coverage, accuracy, cost), design = best or ((False, 0.0), (0.0, 0.0, 0.0), ten)
    named = {problem.names[column] for column in table.informative.tolist()}
    acquired = {name for stage in design.stages for name in stage}
    return WideResult(
        columns=columns,
        rows=rows,
        decoys=decoys,
        seed=seed,
        found=found,
        cost=cost,
        coverage=coverage,
        accuracy=accuracy,
        ten_coverage=ten_coverage,
        ten_accuracy=ten_accuracy,
        informative=len(named & acquired),
        front=len(outcome.front),
        fits=outcome.fits,
        seconds=seconds,
    )


def measure_fresh(fitter: SetFitter, design: Design, costs: Floats, table: WideTable) -> tuple[float, float, float]:
    """Return coverage, accuracy and cost of a design on the fresh rows, fitted on all rows that fit an export."""
    rows = len(table.fresh_labels)
    waiting, right, paid = np.ones(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_), np.zeros(rows)
    acquired: list[str] = []
    for stage in design.stages:
        acquired += stage
        fitted = fitter.fit(acquired)
        decided = fitted.decide_rows(table.fresh_rows[:, fitted.positions], design.thresholds)
        paid[waiting] = costs[list(fitted.positions)].sum()
        right |= waiting & decided.confident & (decided.label == table.fresh_labels)
        waiting &= ~decided.confident
    accepted = ~waiting
    return float(accepted.mean()), float(right.sum() / max(1, accepted.sum())), float(paid.mean())


def phishing_like(name: str, rows: int, seed: int) -> Problem:
    """Return rows of a data set; features come one by one or from lookups that give several, each of which is paid once."""
    rng = np.random.default_rng(seed)
    if name == "spambase":
        columns = read_columns(DATA / "spambase.csv")
        table, labels = dict(columns.features), [str(label) for label in columns.label.tolist()]
    else:
        connections = read_nsl_kdd()
        labels = ["attack" if each else "normal" for each in connections.is_attack.tolist()]
        table = dict(connections.features)
    chosen = np.sort(rng.permutation(len(labels))[:rows])
    names = list(table)
    # Every fourth feature costs little by itself; the others come by six from lookups of rising price.
    own = {key: 1.0 if place % 4 == 0 else 0.2 for place, key in enumerate(names)}
    grouped = [key for place, key in enumerate(names) if place % 4]
    groups = [
        CostGroup(f"look-up {place}", 4.0 + 2.0 * place, tuple(grouped[6 * place : 6 * place + 6]))
        for place in range(-(-len(grouped) // 6))
    ]
    return Problem.of(
        {key: values[chosen] for key, values in table.items()},
        [labels[row] for row in chosen],
        costs=CostModel.from_mapping(own, groups=groups),
        threshold=0.9,
        features={key: FeatureOptions(unknown="ignore") for key in NSL_KDD_TEXT if key in table},
        seed=seed,
        folds=None,
    )


def plain(settings: Settings) -> Settings:
    """Return the settings of the search before: all features kept, random designs first, the last generation as it is."""
    return replace(settings, keep_all=True, seeded=False, recombine=False, growth=0)


def cost_at(outcome: Outcome, accuracy: float, coverage: float) -> float:
    """Return the cost of the cheapest design that satisfies two floors, or infinity."""
    try:
        return outcome.front.select(min_accuracy=accuracy, min_coverage=coverage, sure=None).cost
    except SelectionError:
        return float("inf")


def compare_floors(name: str, rows: int, seed: int, settings: Settings) -> list[dict[str, object]]:
    """Return the cost at each floor, plain and by default."""
    problem = phishing_like(name, rows, seed)
    before = run_evolve(problem, plain(settings), seed=seed, workbench=Workbench(problem, jobs=os.cpu_count() or 1))
    now = run_evolve(problem, settings, seed=seed, workbench=Workbench(problem, jobs=os.cpu_count() or 1))
    return [
        {
            "data": name,
            "seed": seed,
            "accuracy": accuracy,
            "coverage": coverage,
            "plain": cost_at(before, accuracy, coverage),
            "default": cost_at(now, accuracy, coverage),
            "plain_fits": before.fits,
            "default_fits": now.fits,
        }
        for accuracy, coverage in FLOORS
    ]


def volume_problems(rows: int) -> Iterator[tuple[str, Problem, int | None]]:
    """Yield the problems to compare hypervolumes on, with the most stages of each."""
    for data, landscape in LANDSCAPES.items():
        problem = landscape.problem(0)
        for stages in (2, 3, 4):
            yield f"{data}, k = {stages}", problem, stages
    for data in ("spambase", "nsl_kdd"):
        yield data, phishing_like(data, rows, 0), None


def compare_volumes(problem: Problem, settings: Settings, seeds: int) -> list[dict[str, float]]:
    """Return hypervolume and fits of each seed, plain and by default, each with fits of its own."""
    results = []
    for seed in range(seeds):
        before = run_evolve(problem, plain(settings), seed=seed, workbench=Workbench(problem))
        now = run_evolve(problem, settings, seed=seed, workbench=Workbench(problem))
        results.append(
            {
                "plain": before.front.hypervolume(),
                "default": now.front.hypervolume(),
                "plain_fits": before.fits,
                "default_fits": now.fits,
            }
        )
    return results


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write build/bench-wide-*.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tables", "floors", "volume"))
    parser.add_argument("--columns", type=int, default=200, help="columns of a table (200)")
    parser.add_argument("--rows", type=int, default=2_000, help="rows of a table, or of Spambase and NSL-KDD (2000)")
    parser.add_argument("--seeds", type=int, default=5, help="tables, divisions or runs (5)")
    parser.add_argument("--population", type=int, default=300)
    parser.add_argument("--generations", type=int, default=150)
    options = parser.parse_args(arguments)
    if options.what != "tables" and not NSL_KDD.exists():
        sys.exit("the data are not beside the project: nothing is measured")
    # Rows of Spambase and NSL-KDD repeat; both searches see the same.
    warnings.simplefilter("ignore")
    settings = Settings(population=options.population, generations=options.generations)
    results: list[object] = []
    if options.what == "tables":
        for decoys in (False, True):
            for seed in range(options.seeds):
                wide = search_wide_table(options.columns, options.rows, seed, settings, decoys=decoys)
                results.append(asdict(wide))
                print(wide, flush=True)
    elif options.what == "floors":
        for name in ("spambase", "nsl_kdd"):
            lines = [line for seed in range(options.seeds) for line in compare_floors(name, options.rows, seed, settings)]
            results += lines
            for line in lines:
                print(line, flush=True)
    else:
        for name, problem, stages in volume_problems(options.rows):
            runs = compare_volumes(problem, replace(settings, max_stages=stages), options.seeds)
            results.append({"problem": name, "runs": runs})
            print(format_volumes(name, runs), flush=True)
    target = Path(f"build/bench-wide-{options.what}.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwritten to {target}")


def format_volumes(name: str, runs: Sequence[dict[str, float]]) -> str:
    """Return one line: both means, the mean difference with its standard error, and the fits."""
    differences = [run["default"] - run["plain"] for run in runs]
    error = statistics.stdev(differences) / len(runs) ** 0.5 if len(runs) > 1 else 0.0
    means = {key: statistics.fmean(run[key] for run in runs) for key in runs[0]}
    return (
        f"{name:14} plain {means['plain']:.5f}  default {means['default']:.5f}  difference {statistics.fmean(differences):+.5f} "
        f"+- {error:.5f}  lowest {min(differences):+.5f}  fits {means['plain_fits']:,.0f} and {means['default_fits']:,.0f}"
    )


if __name__ == "__main__":
    main()
