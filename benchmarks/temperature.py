"""Calibration of stages by temperature: log loss on rows that nothing has seen, before and after, over random divisions.

Pools of Pima and Spambase are cross-fitted in five folds; the model of all features is fitted on the pool and scores all other
rows. docs/guarantee.md has the results.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import warnings

import numpy as np
from _shared_data import DATA, Columns, read_columns

from emsco_runtime.cli.console import format_table
from emsco_train.data.problem import Problem
from emsco_train.data.splits import Splits
from emsco_train.data.stage_settings import ClassWeight
from emsco_train.models.fitted_set import SetFitter

POOLS = (("pima", 200), ("pima", 500), ("spambase", 300), ("spambase", 1000), ("spambase", 2000))
# What is fitted: the penalty 1 / C, and the weights of classes.
FITS: tuple[tuple[float, ClassWeight], ...] = ((1.0, None), (100.0, None), (1.0, "balanced"))


def main() -> None:
    """Print one line for each pool and each way to fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20, help="random divisions (20)")
    repeats = parser.parse_args().repeats
    if not DATA.exists():
        sys.exit(f"{DATA} does not exist: the shared data are not here")
    warnings.simplefilter("ignore")
    lines = []
    for name, rows in POOLS:
        table = read_columns(DATA / f"{name}.csv")
        for c, class_weight in FITS:
            measured = [measure(table, rows, seed, c, class_weight) for seed in range(repeats)]
            before, after = ([one[index] for one in measured] for index in (0, 1))
            gains = [one - other for one, other in zip(before, after, strict=True)]
            used = [one[2] for one in measured]
            lines.append(
                [
                    name,
                    str(rows),
                    f"{c:g}",
                    class_weight or "-",
                    f"{statistics.mean(before):.4f}",
                    f"{statistics.mean(after):.4f}",
                    f"{sum(gain > 0 for gain in gains)} / {sum(gain < 0 for gain in gains)}",
                    f"{sum(temperature != 1 for temperature in used)}",
                    f"{statistics.median(used):.3g}",
                ]
            )
    header = ["data", "pool", "C", "class weight", "log loss before", "after", "lower / higher", "used", "median temperature"]
    print(format_table(header, lines))


def measure(table: Columns, rows: int, seed: int, c: float, class_weight: ClassWeight) -> tuple[float, float, float]:
    """Return the log loss of the other rows without and with the temperature, and the temperature that is used."""
    order = np.random.default_rng(seed).permutation(len(table.label))
    nothing = np.empty(0, dtype=np.intp)
    splits = Splits(train=np.sort(order[:rows]), validation=nothing, test=np.sort(order[rows:]), certify=nothing)
    losses, temperature = [], 1.0
    for calibrate in (None, "temperature"):
        problem = Problem.of(
            table.features, table.label, splits=splits, folds=5, C=c, class_weight=class_weight, calibrate=calibrate, seed=seed
        )
        fitted = SetFitter.of(problem).fit(problem.names)
        if fitted.scaling is not None:
            temperature = fitted.scaling.applied(None)
        scores = fitted.probabilities(problem.held_out.codes)
        true = scores[np.arange(len(scores)), problem.held_out.target]
        # As scikit-learn does: a probability that is rounded to 0 would count as infinite.
        losses.append(float(-np.log(np.maximum(true, np.finfo(float).eps)).mean()))
    return losses[0], losses[1], temperature


if __name__ == "__main__":
    main()
