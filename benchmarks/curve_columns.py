"""How many columns of stage models the curves of a feature need, where there are several labels.

Each label has a curve of a feature, and stage models see a few combinations of them. This fits the model of all features with
each number of combinations, and prints its error on other rows, at coverage 1 and 0.94, and how long fitting took.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from unittest import mock

import numpy as np
from _shared_data import DATA, NSL_KDD_TEXT
from sklearn.datasets import load_digits, make_classification
from stages import error_at, read_table

from emsco_runtime.support.arrays import Array, Ints
from emsco_train import FeatureOptions, Problem
from emsco_train.data.curves import learning
from emsco_train.models.fitted_set import SetFitter

TABLES = ("nsl_kdd-5", "digits", "made-up")
STRAIGHT = 0
COVERAGES = (1.0, 0.94)
MAX_ROWS = 20_000
MAX_TEST_ROWS = 5_000


def read(name: str) -> tuple[Mapping[str, Array], Ints]:
    """Return the columns and the labels of a table."""
    if name == "nsl_kdd-5":
        return read_table(name)
    if name == "digits":
        matrix, label = load_digits(return_X_y=True)
    else:
        matrix, label = make_classification(3_000, 20, n_informative=12, n_classes=5, random_state=5)
    return {f"x{place}": column for place, column in enumerate(matrix.T)}, label


@contextmanager
def use_columns(count: int) -> Iterator[None]:
    """Let each feature have `count` columns, however many parameters that makes."""
    with mock.patch.object(learning, "_MAX_COLUMNS", count), mock.patch.object(learning, "_MAX_PARAMETERS", sys.maxsize):
        yield


def measure(columns: Mapping[str, Array], label: Ints, count: int, division: int) -> tuple[list[float], float]:
    """Return the errors of the model of all features at each coverage, in percent, and the seconds that it took to fit."""
    order = np.random.default_rng(division).permutation(len(label))
    size = min(len(label) // 2, MAX_ROWS)
    parts = [
        ({name: column[rows] for name, column in columns.items()}, label[rows])
        for rows in (order[:size], order[size : size + MAX_TEST_ROWS])
    ]
    with use_columns(max(1, count)):
        problem = Problem.from_splits(
            train=parts[0],
            validation=parts[1],
            threshold=0.9,
            stages="curved" if count else "straight",
            features={name: FeatureOptions(unknown="ignore") for name in columns if name in NSL_KDD_TEXT},
        )
    started = time.perf_counter()
    fitted = SetFitter.of(problem).fit(problem.names)
    seconds = time.perf_counter() - started
    probabilities = fitted.probabilities(problem.validation.codes[:, fitted.positions])
    return [100.0 * error_at(probabilities, problem.validation.target, coverage) for coverage in COVERAGES], seconds


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--columns", nargs="+", type=int, default=[STRAIGHT, 1, 2, 3, 5])
    parser.add_argument("--divisions", type=int, default=2)
    options = parser.parse_args(argv)
    # Rare labels of NSL-KDD are what is measured.
    warnings.simplefilter("ignore")
    print(f"{'table':<12}{'columns':>9}{'error at 1':>12}{'at 0.94':>9}{'fit':>8}")
    for name in options.tables:
        if name == "nsl_kdd-5" and not DATA.exists():
            print(f"{name}: the shared data are not here", file=sys.stderr)
            continue
        columns, label = read(name)
        for count in options.columns:
            found = [measure(columns, label, count, division) for division in range(options.divisions)]
            errors, seconds = np.mean([one for one, _ in found], axis=0), np.mean([one for _, one in found])
            print(f"{name:<12}{count or 'straight':>9}{errors[0]:>11.2f}%{errors[1]:>8.2f}%{seconds:>7.1f}s", flush=True)


if __name__ == "__main__":
    main()
