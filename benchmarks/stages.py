"""What stage models see of the features: their values (straight), a curve of each (curved), or boosted trees.

Upgraded: designs that are found with curved stages are fitted again with boosted trees, too.

``stages.py models`` fits one model of all features and prints its errors at three coverages, on rows that took no part in
anything, over many divisions of six tables. ``stages.py cascades`` searches, chooses a design for several pairs of floors as
`emsco-export` does, and prints its accuracy, coverage and cost on test rows, and the time of the search. Figures of a kind are
divided by those of straight stages on the same divisions; the spread is the standard error of the mean over divisions.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Literal

import numpy as np
from _shared_data import DATA, NSL_KDD_TEXT, read_nsl_kdd

from emsco_runtime.support.arrays import Array, Floats, Ints
from emsco_train import FeatureOptions, Problem, Settings
from emsco_train.data.splits import Splits
from emsco_train.data.stage_settings import Upgrade
from emsco_train.designs.selection import Requirements
from emsco_train.errors import DataError, SelectionError
from emsco_train.export.searched_design import fit_design
from emsco_train.models.evaluation import evaluate_split
from emsco_train.models.fitted_set import ProblemFitters, SetFitter
from emsco_train.search.ladder import ladder_front
from emsco_train.search.sweep import search_thresholds

Kind = Literal["straight", "curved", "boosted", "upgraded"]
KINDS: tuple[Kind, ...] = ("straight", "curved", "boosted", "upgraded")
COVERAGES = (1.0, 0.94, 0.85)
# Rows of a table that may fit models, and that judge them, at most.
MAX_ROWS, MAX_TEST_ROWS = 10_000, 20_000
NONE = np.array([], dtype=np.intp)
RESULTS = Path(__file__).resolve().parent.parent / "build"


@dataclass(frozen=True, slots=True)
class Case:
    """A table, the share of its rows that may fit models, the search of it, and pairs of floors (accuracy, coverage).

    Without folds, a third of the rows that may fit models judges designs instead.
    """

    table: str
    share: float
    threshold: float
    floors: tuple[tuple[float, float], ...]
    folds: int = 5


SETTINGS = Settings(population=100, generations=40)
# Written down before anything was measured.
CASES = {
    "spambase": Case(
        "spambase",
        0.6,
        0.9,
        ((0.90, 0.95), (0.92, 0.92), (0.93, 0.90), (0.94, 0.85), (0.95, 0.80), (0.96, 0.70), (0.97, 0.60), (0.91, 0.85)),
    ),
    "nsl_kdd": Case("nsl_kdd", 1.0, 0.9, ((0.98, 0.95), (0.985, 0.90), (0.99, 0.85))),
    # One model per set, not one per fold: with five labels, each takes twenty times as long.
    "nsl_kdd-5": Case("nsl_kdd-5", 1.0, 0.9, ((0.98, 0.95), (0.985, 0.90), (0.99, 0.85)), folds=0),
    "pima": Case("pima", 0.75, 0.75, ((0.78, 0.85), (0.80, 0.70), (0.85, 0.50))),
    "australian_credit": Case("australian_credit", 0.75, 0.85, ((0.86, 0.95), (0.88, 0.85), (0.92, 0.65))),
    "heart_failure": Case("heart_failure", 0.75, 0.8, ((0.82, 0.90), (0.85, 0.80), (0.88, 0.65))),
    "heart_disease_cleveland": Case("heart_disease_cleveland", 0.75, 0.8, ((0.82, 0.90), (0.85, 0.80), (0.90, 0.60))),
}


@cache
def read_table(name: str) -> tuple[dict[str, Array], Ints]:
    """Return the columns of a data set and its labels by position."""
    if not name.startswith("nsl_kdd"):
        with (DATA / f"{name}.csv").open(newline="") as file:
            header, *rows = csv.reader(file)
        # An empty field is a gap.
        table = np.array([[float(text or "nan") for text in row] for row in rows])
        return dict(zip(header[:-1], table[:, :-1].T, strict=True)), (table[:, -1] > 0).astype(np.intp)
    connections = read_nsl_kdd()
    label = np.unique(connections.label, return_inverse=True)[1] if name.endswith("5") else connections.is_attack
    return dict(connections.features), label


def draw_problem(case: Case, division: int, kind: Kind) -> Problem:
    """Return the problem of one division: rows to search on, and test rows."""
    columns, label = read_table(case.table)
    order = np.random.default_rng((division, 17)).permutation(len(label))
    pool = min(MAX_ROWS, int(case.share * len(label)))
    kept = order[: pool + MAX_TEST_ROWS]
    splits = Splits(np.arange(0, pool - pool // 3), np.arange(pool - pool // 3, pool), np.arange(pool, len(kept)), NONE)
    return Problem.of(
        {name: column[kept] for name, column in columns.items()},
        label[kept],
        threshold=case.threshold,
        splits=splits,
        folds=case.folds,
        features={name: FeatureOptions(unknown="ignore") for name in columns if name in NSL_KDD_TEXT},
        stages="curved" if kind == "upgraded" else kind,
        seed=division,
    )


@dataclass(frozen=True, slots=True)
class Record:
    """One figure of one division."""

    table: str
    kind: str
    division: int
    what: str
    value: float


def measure_models(name: str, division: int, kind: Kind) -> Iterator[Record]:
    """Yield the errors of the model of all features on the test rows, at each coverage, and how curves were chosen."""
    if kind == "upgraded":
        return
    # With folds, all rows that may fit models do.
    problem = draw_problem(replace(CASES[name], folds=5), division, kind)
    assert problem.test is not None
    fitted = SetFitter.of(problem).fit(problem.names)
    scores = fitted.probabilities(problem.test.codes[:, fitted.positions])
    for coverage in COVERAGES:
        yield Record(name, kind, division, f"error at {coverage:g}", error_at(scores, problem.test.target, coverage))
    if kind == "curved":
        yield Record(name, kind, division, "is curved", float(np.isfinite(problem.curve_strength)))


def error_at(scores: Floats, target: Ints, coverage: float) -> float:
    """Return the error among the most sure rows, this share of all."""
    most_sure = np.argsort(-scores.max(axis=1), kind="stable")[: round(coverage * len(target))]
    return float((scores[most_sure].argmax(axis=1) != target[most_sure]).mean())


def measure_cascades(time_limit: float | None, name: str, division: int, kind: Kind) -> Iterator[Record]:
    """Yield the test figures of the designs chosen for each pair of floors, and the processor time of the search."""
    case, start = CASES[name], time.process_time()
    problem = draw_problem(case, division, kind)
    upgrade: Upgrade | None = "boosted" if kind == "upgraded" else None
    options = {"method": "auto", "seed": division, "jobs": 1, "upgrade": upgrade, "time_limit": time_limit}
    front = next(search_thresholds(problem, None, SETTINGS, **options)).front
    yield Record(name, kind, division, "search time", time.process_time() - start)
    assert problem.test is not None
    fitters = ProblemFitters(problem)
    ladder = ladder_front(problem, front, fitters=fitters)
    for accuracy, coverage in case.floors:
        asked = Requirements(min_accuracy=accuracy, min_coverage=coverage, sure=None)
        try:
            design = asked.choose(tuple(ladder), ladder.full_cost)
        except SelectionError:
            continue
        found = evaluate_split(problem, fit_design(problem, design, fitters), problem.test).expected(problem.test.target, "test")
        figures = {
            "accuracy": found.right / max(1, found.accepted),
            "coverage": found.accepted / found.rows,
            "cost": found.cost.mean,
        }
        for what, value in figures.items():
            yield Record(name, kind, division, f"{what} at {accuracy:g} / {coverage:g}", value)


def show(records: Sequence[Record]) -> None:
    """Print the mean of every figure, and its ratio to that of straight stages on the same divisions."""
    kinds = [kind for kind in KINDS if any(record.kind == kind for record in records)]
    print(f"{'table':<25}{'figure':<26}{'divisions':>9}" + "".join(f"{kind:>11}" for kind in kinds) + "   ratio, difference")
    values = {(one.table, one.what, one.kind, one.division): one.value for one in records}
    for table, what in dict.fromkeys((one.table, one.what) for one in records):
        shared = [
            division
            for division in sorted({one.division for one in records if one.table == table})
            if all((table, what, kind, division) in values for kind in kinds)
        ]
        if not shared:
            continue
        columns = {kind: np.array([values[table, what, kind, division] for division in shared]) for kind in kinds}
        means = "".join(f"{columns[kind].mean():>11.4f}" for kind in kinds)
        print(f"{table:<25}{what:<26}{len(shared):>9}{means}   {_compare(columns)}")


def _compare(columns: dict[Kind, Floats]) -> str:
    base = columns.get("straight")
    if base is None or base.mean() == 0.0:
        return ""
    texts = []
    for kind, values in columns.items():
        if kind != "straight":
            spread = (values - base).std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
            texts.append(f"{values.mean() / base.mean():.3f}, {(values - base).mean():+.4f} +- {spread:.4f}")
    return "; ".join(texts)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=("models", "cascades"))
    parser.add_argument("--tables", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["straight", "curved"])
    parser.add_argument("--divisions", type=int, default=5)
    parser.add_argument("--time-limit", type=float, help="seconds of each search of cascades, at most")
    options = parser.parse_args(argv)
    if not (DATA / "spambase.csv").exists():
        print("the data sets are not there: nothing is measured", file=sys.stderr)
        return
    warnings.simplefilter("ignore")
    path = RESULTS / f"stages-{options.part}.jsonl"
    path.parent.mkdir(exist_ok=True)
    records = [Record(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(one.table, one.kind, one.division) for one in records}
    measure = measure_models if options.part == "models" else partial(measure_cascades, options.time_limit)
    for division in range(options.divisions):
        for table in options.tables:
            for kind in options.kinds:
                if (table, kind, division) in done:
                    continue
                print(f"\r{table}, {kind}, division {division}    ", end="", file=sys.stderr, flush=True)
                try:
                    found = list(measure(table, division, kind))
                except DataError as error:
                    # A rare label may have no train row; such a division is passed over.
                    print(f"\r{table}, division {division}: {error}", file=sys.stderr)
                    continue
                records += found
                with path.open("a") as file:
                    file.writelines(json.dumps(asdict(one)) + "\n" for one in found)
    print(file=sys.stderr)
    show([one for one in records if one.table in options.tables and one.kind in options.kinds])


if __name__ == "__main__":
    main()
