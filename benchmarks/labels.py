"""Labels that are rare: how often a floor on the recall of one of them is kept on other rows.

``python benchmarks/labels.py`` draws tables from NSL-KDD in which 93 % of the rows are normal, 5 % are probes and 2 % are r2l
attacks (remote to local), ten times. Designs are searched and chosen on 5,000 rows, cross-fitted, and measured on other rows, all
r2l attacks that are left among them. ``--divisions 3`` takes fewer draws.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from _shared_data import NSL_KDD, read_nsl_kdd

from emsco_runtime.bundle.manifest import LabelCounts
from emsco_train.data.label_counts import count_by_label
from emsco_train.data.problem import Problem
from emsco_train.data.splits import Splits
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.designs.selection import Requirements
from emsco_train.errors import SelectionError
from emsco_train.export.searched_design import fit_design
from emsco_train.export.tuned_choice import select_tuned_design
from emsco_train.models.evaluation import evaluate_split
from emsco_train.search.searches import run_search
from emsco_train.search.settings import Objective, Settings

__all__ = ["RARE", "Division", "draw_divisions", "measure"]

SHARES = {"normal": 0.93, "probe": 0.05, "r2l": 0.02}
RARE, FLOOR, ACCURACY = "r2l", 0.4, 0.95
POOL_ROWS, FOLDS, THRESHOLD = 5_000, 3, 0.9
SETTINGS = Settings(max_stages=3, population=60, generations=15)
# Price of each feature: what the packet itself shows is cheap, what counts connections of a host is not.
COSTS = {
    "duration": 1.0,
    "src_bytes": 1.0,
    "dst_bytes": 1.0,
    "logged_in": 2.0,
    "hot": 4.0,
    "is_guest_login": 4.0,
    "same_srv_rate": 6.0,
    "dst_host_srv_count": 10.0,
    "dst_host_same_src_port_rate": 10.0,
}
SKEWED = ("duration", "src_bytes", "dst_bytes", "hot")


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """A draw: the problem, whose test rows are all r2l attacks outside of it and other rows in the same shares, and its front."""

    problem: Problem
    front: Front


@cache
def _read_rows() -> Mapping[str, Any]:
    table = read_nsl_kdd()
    found: dict[str, Any] = {name: table.features[name] for name in COSTS}
    found |= {name: np.log1p(found[name]) for name in SKEWED}
    # Rows that are repeated would be in both parts of a draw.
    numbered = np.column_stack([*found.values(), np.unique(table.label, return_inverse=True)[1]])
    kept = np.unique(numbered, axis=0, return_index=True)[1]
    return {name: column[kept] for name, column in found.items()} | {"label": table.label[kept]}


def draw_divisions(seeds: Iterable[int], objective: Objective = "plain") -> Iterator[Division]:
    """Yield the draws of these seeds, each with its search."""
    table = _read_rows()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        shuffled = {label: rng.permutation(np.flatnonzero(table["label"] == label)) for label in SHARES}
        pool = [rows[: round(POOL_ROWS * SHARES[label])] for label, rows in shuffled.items()]
        left = len(shuffled[RARE]) - round(POOL_ROWS * SHARES[RARE])
        test = [
            rows[len(taken) : len(taken) + round(left * SHARES[label] / SHARES[RARE])]
            for (label, rows), taken in zip(shuffled.items(), pool, strict=True)
        ]
        rows = np.concatenate([*pool, *test])
        train = np.arange(POOL_ROWS)
        splits = Splits(train, train[:0], np.arange(POOL_ROWS, len(rows)), train[:0])
        problem = Problem.of(
            {name: table[name][rows] for name in COSTS},
            table["label"][rows],
            costs=COSTS,
            threshold=THRESHOLD,
            splits=splits,
            folds=FOLDS,
            seed=seed,
        )
        found = run_search(problem, replace(SETTINGS, objective=objective), method="evolve", seed=seed)
        yield Division(problem, found.front)


def measure(division: Division, design: Design) -> tuple[LabelCounts, ...]:
    """Return what a design does with the test rows of each label."""
    problem = division.problem
    assert problem.test is not None
    made = evaluate_split(problem, fit_design(problem, design), problem.test)
    return count_by_label(made.label, problem.test.target, problem.labels)


def main(argv: Sequence[str] | None = None) -> None:
    """Print one line for each draw and choice, and how often the floor was kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--divisions", type=int, default=10)
    parser.add_argument("--objective", choices=("plain", "balanced"), default="plain")
    options = parser.parse_args(argv)
    if not NSL_KDD.exists():
        print("NSL-KDD is not there: nothing is measured", file=sys.stderr)
        return
    floor = {RARE: FLOOR}
    choices = {
        "knee": Requirements(),
        f"accuracy >= {ACCURACY:g}, recall of {RARE} >= {FLOOR:g}, sure": Requirements.of(
            min_accuracy=ACCURACY, min_recall=floor
        ),
        "the same by figures alone": Requirements.of(min_accuracy=ACCURACY, min_recall=floor, sure=None),
    }
    found: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in choices}
    for number, division in enumerate(draw_divisions(range(options.divisions), options.objective)):
        for name, wish in choices.items():
            try:
                design = select_tuned_design(division.problem, division.front, wish)
            except SelectionError:
                print(f"{number:>3}  {name}: no design", flush=True)
                continue
            labels = measure(division, design)
            right, accepted = sum(one.right for one in labels), sum(one.accepted for one in labels)
            recalls = {one.label: one.recall for one in labels}
            line = (recalls[RARE], right / accepted, accepted / sum(one.rows for one in labels), design.cost)
            found[name].append(line)
            recalled = ", ".join(f"{label} {recall:.3f}" for label, recall in recalls.items())
            print(f"{number:>3}  {name}: recall {recalled}; accuracy {line[1]:.4f}, coverage {line[2]:.3f}", flush=True)
    print(f"\n{'choice':<56} {'chosen':>6} {'recall kept':>11} {'accuracy kept':>13} {'recall':>7} {'accuracy':>9} {'cost':>6}")
    for name, lines in found.items():
        kept = [sum(line[place] >= least for line in lines) for place, least in ((0, FLOOR), (1, ACCURACY))]
        means = [float(np.mean([line[place] for line in lines])) if lines else float("nan") for place in (0, 1, 3)]
        shown = f"{name:<56} {len(lines):>6} {kept[0]:>11} {kept[1]:>13} {means[0]:>7.3f} {means[1]:>9.4f} {means[2]:>6.2f}"
        print(shown)


if __name__ == "__main__":
    main()
