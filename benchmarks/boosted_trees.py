"""How the trees of a boosted stage should be grown: how many, from how many columns each split draws, and LightGBM as it comes.

Fitted on the train rows of some divisions, other ones than those of docs/results.md, with all features and with a few that are
drawn; prints the log loss and the accuracy on the test rows, and the numbers of trees that boosted stages choose. Needs the
extra `boosted`.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from _shared_data import DATA
from paper.datasets import ALL_DATA, load
from sklearn.base import clone
from sklearn.metrics import accuracy_score, log_loss

from emsco_runtime.support.arrays import Floats, Ints
from emsco_train import Problem
from emsco_train.data.stage_settings import StageSettings
from emsco_train.models.trees.tree_count import choose_tree_count
from emsco_train.support.stop_flag import StopFlag

FEW = 3
# All columns and 100 trees; all columns and a chosen number; half of the columns for each split, as boosted stages have it.
WAYS = ("100 trees", "chosen", "half", "LightGBM")
FIRST_DIVISION = 100


def fit_each(problem: Problem, columns: Ints) -> Iterator[tuple[Any, int]]:
    """Yield the fitted model of each way, and its number of trees."""
    from lightgbm import LGBMClassifier  # noqa: PLC0415 - an extra

    encoded, target = problem.train.encoded[:, columns], problem.train.target
    as_stages = StageSettings(kind="boosted", seed=problem.settings.seed).make_classifier()
    any_column = clone(as_stages).set_params(max_features=1.0)
    chosen, chosen_of_half = (choose_tree_count(each, encoded, target, None, StopFlag()) for each in (any_column, as_stages))
    for trees, count in ((any_column, 100), (any_column, chosen), (as_stages, chosen_of_half)):
        yield clone(trees).set_params(max_iter=count).fit(encoded, target), count
    yield LGBMClassifier(n_jobs=1, verbose=-1).fit(encoded, target), 100


def measure(problem: Problem, columns: Ints) -> list[tuple[float, float, int]]:
    """Return log loss, accuracy and number of trees of each way, on the test rows."""
    assert problem.test is not None
    encoded: Floats = problem.test.encoded[:, columns]
    found = []
    for model, count in fit_each(problem, columns):
        scores = model.predict_proba(encoded)
        right = accuracy_score(problem.test.target, scores.argmax(axis=1))
        found.append((log_loss(problem.test.target, scores, labels=range(scores.shape[1])), right, count))
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Print a line for each data set and number of features."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=ALL_DATA, default=list(ALL_DATA))
    parser.add_argument("--divisions", type=int, default=10)
    options = parser.parse_args(argv)
    if not (DATA / "pima.csv").exists():
        print("the data sets are not there: nothing is measured", file=sys.stderr)
        return
    warnings.simplefilter("ignore")
    print(f"{'':<14}{'features':>9}" + "".join(f"{way + ': loss, accuracy':>30}" for way in WAYS) + "   numbers chosen, half")
    for name in options.data:
        problems = [load(name).problem(FIRST_DIVISION + number) for number in range(options.divisions)]
        for few in (True, False):
            found = []
            for problem in problems:
                owners, features = problem.encoder.column_owners, len(problem.names)
                drawn = np.random.default_rng(problem.settings.seed).permutation(features)[: FEW if few else features]
                found.append(measure(problem, np.flatnonzero(np.isin(owners, drawn))))
            figures = np.array(found).mean(axis=0)
            means = "".join(f"{loss:>20.4f}, {right:.4f}  " for loss, right, _ in figures)
            counts = " ".join(str(count) for count in sorted(each[2][2] for each in found))
            print(f"{name:<14}{FEW if few else len(problems[0].names):>9}{means}   {counts}", flush=True)


if __name__ == "__main__":
    main()
