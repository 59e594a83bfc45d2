"""Tables and costs files for the tests of the commands, small enough to be searched in a moment."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

COSTS = """unit = "EUR"

[features]
size = 1
rate = 2.5
flag = 0.3
colour = 4
count = 0.5

[groups.lab]
cost = 3
features = ["rate", "colour"]
"""
HEADER = ("size", "rate", "flag", "colour", "count", "verdict")


@dataclass(frozen=True, slots=True)
class MixedTable:
    """Files of a table with numbers and missing values, a yes/no column, text, a label of words, and costs with a group."""

    data: Path
    costs: Path

    def options(self) -> list[object]:
        """Return the options that name them, a threshold, and stages that are quick to fit; a later option takes precedence."""
        return ["--data", self.data, "--label", "verdict", "--costs", self.costs, "--threshold", "0.8", "--stages", "straight"]


def mixed_rows(rows: int = 300, seed: int = 3) -> list[list[str]]:
    """Return the rows of the mixed table, without its header."""
    rng = np.random.default_rng(seed)
    size, rate, flag = rng.normal(10, 3, rows), rng.exponential(2, rows), rng.random(rows) < 0.4
    colour, count = rng.integers(0, 3, rows), rng.integers(0, 5, rows)
    score = 0.5 * (size - 10) + 0.6 * rate - 1.2 - 1.5 * flag + 1.2 * (colour == 1) + rng.normal(0, 0.7, rows)
    return [
        [
            "" if rng.random() < 0.1 else repr(float(size[row])),
            f"{rate[row]:.3f}",
            "yes" if flag[row] else "no",
            "" if rng.random() < 0.05 else ["red", "green", "blue"][colour[row]],
            str(count[row]),
            "spam" if score[row] > 0 else "ham",
        ]
        for row in range(rows)
    ]


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    """Write a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    return path


def write_mixed(folder: Path, rows: int = 300) -> MixedTable:
    """Write the mixed table and its costs file."""
    costs = folder / "costs.toml"
    costs.write_text(COSTS, encoding="utf-8")
    return MixedTable(write_rows(folder / "mixed.csv", HEADER, mixed_rows(rows)), costs)


def wide_rows(rows: int = 300, features: int = 10, seed: int = 0) -> list[list[str]]:
    """Return rows of many numbers with a label 0 or 1: a genetic search of them can be disturbed."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, features))
    labels = values @ np.linspace(1, 0.1, features) + rng.normal(size=rows) > 0
    return [[*map(repr, map(float, line)), str(int(label))] for line, label in zip(values, labels, strict=True)]


def write_wide(path: Path, rows: int = 300, features: int = 10) -> Path:
    """Write the wide table, with columns f0, f1, ... and label."""
    return write_rows(path, [*(f"f{index}" for index in range(features)), "label"], wide_rows(rows, features))


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
