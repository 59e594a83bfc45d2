"""Do users get what they ask for? Floors on accuracy and coverage, the design that is chosen for them, and the truth.

Each repeat draws a pool of rows that may fit and measure designs. It is searched in three ways: the paper's, with a third of the
rows for validation and the threshold as named; the same with thresholds tuned along the ladder (the old split, the new choice of
thresholds), both with straight stages; and today's default: curved stages, cross-fitted and tuned, with sure floors at several
levels. From the last, designs are chosen by the folds of the search alone ("one division"), and so that other folds must show the
same ("cross-fitted"), as users get them. The truth is counted on the other rows of the data set, at most 40,000 of them, by the
models that would be exported. The floors below were written down before anything was measured.

Columns: `given`, the share of wishes for which a design was given, of those that some design of the same front truly keeps (the
oracle is the cheapest of them); `kept`, of the designs given, those that truly have both floors; `flattery`, by how much the
accuracy by which a design was chosen exceeds the true one, `coverage` likewise, and `likely` by the likely figures: what a bundle
without test rows states; `cost`, of the designs given, against the oracle's.

A level with + is chosen as `emsco-export` does, where a design may cost more if it is so much surer; without, it is the cheapest.

``python benchmarks/choices.py --repeats 100`` takes hours; results are appended to a file as they come, and those that are there
already are not computed again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from _shared_data import DATA, NSL_KDD_TEXT, read_columns, read_nsl_kdd

from emsco_runtime.support.arrays import Array, Ints
from emsco_train import FeatureOptions, Problem, Settings, Shares, Workbench, run_search
from emsco_train.data.problem import ScoredPart
from emsco_train.data.splits import Splits, make_splits
from emsco_train.designs.front import Front
from emsco_train.designs.selection import Requirements
from emsco_train.designs.sure_level import DEFAULT_SURE
from emsco_train.errors import SelectionError
from emsco_train.export.likely_figures import estimate_likely_figures
from emsco_train.export.tuned_choice import COST_WEIGHT
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.ladder import ladder_front
from emsco_train.search.other_folds import make_divisions, measure_on_other_folds

Way = Literal["paper", "tuned", "one division", "cross-fitted"]
WAYS: tuple[Way, ...] = ("paper", "tuned", "one division", "cross-fitted")
# Each search, and the ways of choosing from its front.
SEARCHES: dict[Way, tuple[Way, ...]] = {
    "paper": ("paper",),
    "tuned": ("tuned",),
    "cross-fitted": ("one division", "cross-fitted"),
}
# Today's default.
DEFAULT = (DEFAULT_SURE, COST_WEIGHT)
# How the floors must hold, by way, and what confidence may cost. None: by the figures as they are, and the cheapest.
LEVELS: dict[Way, tuple[tuple[float | None, float | None], ...]] = {
    "paper": ((None, None),),
    "tuned": ((None, None),),
    "one division": (DEFAULT,),
    "cross-fitted": ((None, None), (DEFAULT_SURE, None), (0.75, COST_WEIGHT), DEFAULT, (0.95, COST_WEIGHT)),
}
MAX_TRUTH_ROWS = 40_000
RESULTS = Path(__file__).resolve().parent.parent / "build" / "choices-by-confidence.jsonl"


@dataclass(frozen=True, slots=True)
class Case:
    """A data set, which of its columns, the search, the threshold that is named, and the wishes (accuracy, coverage)."""

    table: Literal["spambase", "nsl_kdd"]
    features: tuple[str, ...]  # empty: all
    settings: Settings
    threshold: float
    floors: tuple[tuple[float, float], ...]


_SPAMBASE_FLOORS = ((0.90, 0.80), (0.93, 0.65), (0.88, 0.88))
_NSL_KDD_FLOORS = ((0.95, 0.90), (0.97, 0.80), (0.98, 0.70))
CASES = {
    "spambase-9": Case(
        "spambase",
        (
            "word_freq_remove",
            "word_freq_free",
            "word_freq_your",
            "word_freq_money",
            "char_freq_!",
            "char_freq_$",
            "capital_run_length_average",
            "capital_run_length_longest",
            "capital_run_length_total",
        ),
        Settings(max_stages=4),
        0.8,
        _SPAMBASE_FLOORS,
    ),
    "nsl_kdd-10": Case(
        "nsl_kdd",
        (
            "protocol_type",
            "flag",
            "src_bytes",
            "dst_bytes",
            "logged_in",
            "count",
            "same_srv_rate",
            "dst_host_count",
            "dst_host_same_srv_rate",
            "dst_host_same_src_port_rate",
        ),
        Settings(max_stages=4),
        0.9,
        _NSL_KDD_FLOORS,
    ),
    "spambase-57": Case("spambase", (), Settings(population=60, generations=40), 0.8, ((0.93, 0.92), (0.95, 0.85), (0.90, 0.95))),
    "nsl_kdd-41": Case("nsl_kdd", (), Settings(population=60, generations=40), 0.9, ((0.97, 0.92), (0.98, 0.85), (0.96, 0.95))),
}


@dataclass(frozen=True, slots=True)
class Record:
    """One wish of one repeat: what was given, if anything, and what is true of it."""

    case: str
    rows: int
    repeat: int
    way: Way
    sure: float | None
    cost_weight: float | None
    min_accuracy: float
    min_coverage: float
    accuracy: float | None = None  # as it was chosen by; None: no design was given
    coverage: float | None = None
    true_accuracy: float | None = None
    true_coverage: float | None = None
    true_cost: float | None = None
    oracle: float | None = None  # cost; None: no design of the front truly keeps the wish
    likely: float | None = None  # accuracy of the likely figures; with the default level alone


@cache
def read_table(name: str) -> tuple[dict[str, Array], Ints]:
    """Return the columns of a data set and its labels; NSL-KDD as normal against attack."""
    if name == "spambase":
        columns = read_columns(DATA / "spambase.csv")
        return dict(columns.features), columns.label
    connections = read_nsl_kdd()
    return dict(connections.features), connections.is_attack


def draw_problem(case: Case, rows: int, repeat: int, way: Way) -> Problem:
    """Return the problem of a user whose pool has `rows` rows; its test rows are others of the data set."""
    columns, label = read_table(case.table)
    features = {name: columns[name] for name in case.features or columns}
    order = np.random.default_rng(repeat).permutation(len(label))
    own, target = order[:rows], label[order[:rows]]
    parts = make_splits(target, Shares(2 / 3, 1 / 3, 0.0, 0.0), rng=np.random.default_rng(repeat))
    kept = np.concatenate([own[parts.train], own[parts.validation], order[rows : rows + MAX_TRUTH_ROWS]])
    ends = np.cumsum([len(parts.train), len(parts.validation)])
    train, validation, test = np.split(np.arange(len(kept)), ends)
    splits = Splits(train, validation, test, np.array([], dtype=np.intp))
    return Problem.of(
        {name: column[kept] for name, column in features.items()},
        label[kept],
        threshold=case.threshold,
        splits=splits,
        folds=None if way == "cross-fitted" else 0,
        stages="curved" if way == "cross-fitted" else "straight",
        features={name: FeatureOptions(unknown="ignore") for name in features if name in NSL_KDD_TEXT},
        seed=repeat,
    )


def true_figures(problem: Problem, front: Front) -> dict[str, tuple[float, float, float]]:
    """Return accuracy, coverage and cost on the test rows, by design, of the models that would be exported."""
    assert problem.test is not None
    truth = replace(problem, validation=problem.test, parts=(ScoredPart(problem.train, problem.weights, problem.test),))
    levels = sorted({design.stage_thresholds for design in front})
    bench = Workbench(truth, levels, jobs=1)
    figures = {}
    for place, level in enumerate(levels):
        designs = [design for design in front if design.stage_thresholds == level]
        found = bench.evaluator(place)(np.array([design.chromosome for design in designs], dtype=np.int8))
        for design, *numbers in zip(designs, found.accuracy, found.coverage, found.mean_cost, strict=True):
            figures[design.id] = (float(numbers[0]), float(numbers[1]), float(numbers[2]))
    return figures


def measure(name: str, rows: int, repeat: int, search: Way) -> list[Record]:
    """Search one table in one way, choose for every wish, and compare with the truth."""
    warnings.simplefilter("ignore")
    case = CASES[name]
    problem = draw_problem(case, rows, repeat, search)
    front = run_search(problem, case.settings, seed=repeat, jobs=1).front
    if search != "paper":
        front = ladder_front(problem, front)
    truth = true_figures(problem, front)
    divisions = make_divisions(problem) if search == "cross-fitted" else ()
    records = []
    for floors, way in itertools.product(case.floors, SEARCHES[search]):
        loosest = Requirements(min_accuracy=floors[0], min_coverage=floors[1], sure=None)
        own = divisions if way == "cross-fitted" else ()
        measured = measure_on_other_folds(problem, front, loosest, divisions=own).front
        for sure, cost_weight in LEVELS[way]:
            wish = replace(loosest, sure=sure, cost_weight=cost_weight)
            asked = Record(name, rows, repeat, way, sure, cost_weight, *floors)
            records.append(_choose(problem, front, measured, wish, own, truth, asked))
    return records


def _choose(
    problem: Problem,
    front: Front,
    measured: Front,
    wish: Requirements,
    divisions: Sequence[ProblemFitters],
    truth: Mapping[str, tuple[float, float, float]],
    asked: Record,
) -> Record:
    """Return the record of a wish with what is chosen for it, and what is true of that."""
    floors = asked.min_accuracy, asked.min_coverage
    keeping = [cost for accuracy, coverage, cost in truth.values() if accuracy >= floors[0] and coverage >= floors[1]]
    record = replace(asked, oracle=min(keeping, default=None))
    # What is chosen meets the wish by the figures of its search, too, as `measure_on_other_folds` has it for a level.
    searched = {design.id: design for design in front}
    meeting = [design for design in measured if wish.meets(searched[design.id])]
    try:
        design = wish.choose(meeting, front.full_cost)
    except SelectionError:
        return record
    likely = None
    if asked.way == "cross-fitted" and (asked.sure, asked.cost_weight) == DEFAULT:
        found = estimate_likely_figures(problem, front, wish, divisions=divisions)
        likely = None if found is None else found.accuracy
    accuracy, coverage, cost = truth[design.id]
    return replace(
        record,
        accuracy=design.accuracy,
        coverage=design.coverage,
        likely=likely,
        true_accuracy=accuracy,
        true_coverage=coverage,
        true_cost=cost,
    )


def read_results(path: Path) -> list[Record]:
    """Return what was measured before."""
    return [Record(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def show(records: Sequence[Record]) -> None:
    """Print one line for each case, number of rows, way and level."""
    head = f"{'case':<12}{'rows':>6} {'way':<24}{'repeats':>8}{'given':>7}{'kept':>6}"
    print(f"{head}{'flattery':>10}{'likely':>10}{'coverage':>10}{'cost':>7}")
    keys = sorted({(one.case, one.rows, WAYS.index(one.way), one.sure or 0.0, one.cost_weight or 0.0) for one in records})
    for case, rows, way, sure, weight in keys:
        key = (case, rows, WAYS[way], sure, weight)
        chosen = [one for one in records if (one.case, one.rows, one.way, one.sure or 0.0, one.cost_weight or 0.0) == key]
        is_default = WAYS[way] == "cross-fitted" and (sure, weight) == DEFAULT
        level = f" {sure:g}" + ("+" if weight else "") + ("*" if is_default else "") if sure else ""
        print(f"{case:<12}{rows:>6} {WAYS[way] + level:<24}{len({one.repeat for one in chosen}):>8}{_summary(chosen)}")


def _summary(records: Iterable[Record]) -> str:
    wishes = list(records)
    possible = [one for one in wishes if one.oracle is not None]
    given = [one for one in wishes if one.true_cost is not None]
    answered = [one for one in possible if one.true_cost is not None]
    if not given:
        return f"{0:>6.0f}%" if possible else "      -"
    kept = [
        one for one in given if _value(one.true_accuracy) >= one.min_accuracy and _value(one.true_coverage) >= one.min_coverage
    ]
    flattery = statistics.fmean(_value(one.accuracy) - _value(one.true_accuracy) for one in given)
    likely = _mean([one.likely - _value(one.true_accuracy) for one in given if one.likely is not None])
    coverage = statistics.fmean(_value(one.coverage) - _value(one.true_coverage) for one in given)
    ratio = statistics.fmean(_value(one.true_cost) / _value(one.oracle) for one in answered) if answered else float("nan")
    shares = f"{100 * len(answered) / max(1, len(possible)):>6.0f}%{100 * len(kept) / len(given):>5.0f}%"
    return f"{shares}{flattery:>+10.4f}{likely}{coverage:>+10.4f}{ratio:>7.2f}"


def _mean(numbers: Sequence[float]) -> str:
    return f"{statistics.fmean(numbers):>+10.4f}" if numbers else f"{'':>10}"


def _value(number: float | None) -> float:
    assert number is not None
    return number


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=["spambase-9"])
    parser.add_argument("--rows", nargs="+", type=int, default=[1000, 2000])
    parser.add_argument("--ways", nargs="+", choices=SEARCHES, default=list(SEARCHES))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    if not (DATA / "spambase.csv").exists():
        print("the data sets are not there: nothing is measured", file=sys.stderr)
        return
    options.results.parent.mkdir(parents=True, exist_ok=True)
    records = read_results(options.results)
    done = {(one.case, one.rows, one.repeat, one.way) for one in records}
    todo = [
        (case, rows, repeat, way)
        for repeat in range(options.repeats)
        for case in options.cases
        for rows in options.rows
        for way in options.ways
        if (case, rows, repeat, way) not in done
    ]
    with ProcessPoolExecutor(options.jobs) as pool, options.results.open("a") as file:
        for number, found in enumerate(pool.map(_measure_one, todo), start=1):
            records += found
            file.writelines(json.dumps(asdict(one)) + "\n" for one in found)
            file.flush()
            print(f"\r{number} of {len(todo)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    show([one for one in records if one.case in options.cases and one.rows in options.rows])


def _measure_one(task: tuple[str, int, int, Way]) -> list[Record]:
    return measure(*task)


if __name__ == "__main__":
    main()
