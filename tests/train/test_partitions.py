"""Rows in partitions: the same features, fits, counts and fronts as on the same rows in one table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from emsco_train.data.problem import Problem
from emsco_train.designs.front import Front
from emsco_train.distributed.partitions import LocalPartitions
from emsco_train.distributed.problem import PartitionedProblem, ProblemOptions
from emsco_train.distributed.reading import Columns, FramePart
from emsco_train.search.searches import run_evolve
from emsco_train.search.settings import Settings

NAMES = ("a", "b", "c", "kind", "flag")
COSTS = {"a": 5.0, "b": 1.0, "c": 1.0, "kind": 2.0, "flag": 1.0}
SHORT = Settings(population=20, generations=4, max_stages=3)


def make_frame(rows: int = 900, labels: int = 2, seed: int = 0) -> pd.DataFrame:
    """Return a table with numbers, gaps, categories and booleans."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(rows, 3)), columns=["a", "b", "c"])
    frame["kind"] = rng.choice(["x", "y", "z"], rows)
    frame["flag"] = rng.random(rows) < 0.3
    score = 2 * frame["a"] + frame["b"] + (frame["kind"] == "x") + frame["flag"] + rng.normal(size=rows)
    frame["y"] = np.digitize(score, np.quantile(score, np.arange(1, labels) / labels))
    frame.loc[rng.random(rows) < 0.1, "b"] = np.nan
    frame.loc[rng.random(rows) < 0.05, "kind"] = None
    frame["split"] = np.where(rng.random(rows) < 0.4, "validation", "train")
    return frame


def divide(frame: pd.DataFrame, parts: int = 3) -> LocalPartitions[FramePart]:
    """Return a table in parts of different sizes, the last one empty."""
    ends = [0, *sorted(np.random.default_rng(1).choice(len(frame), parts - 1, replace=False)), len(frame), len(frame)]
    return LocalPartitions(
        [FramePart(number, frame.iloc[one:other]) for number, (one, other) in enumerate(itertools.pairwise(ends))]
    )


def columns(**changes: Any) -> Columns:
    """Return what the columns of the table are for."""
    given = {"names": NAMES, "label": "y", "split": "split", "keys": (), "share": 0.3, "seed": 0, "options": {}}
    return Columns(**{**given, **changes})


def partitioned(frame: pd.DataFrame, **options: Any) -> PartitionedProblem:
    """Return the problem of a table in partitions."""
    return PartitionedProblem.of(divide(frame), columns(), ProblemOptions(**{"costs": COSTS, "threshold": 0.8, **options}))


def in_one_table(frame: pd.DataFrame, **options: Any) -> Problem:
    """Return the problem of the same rows in one table."""
    splits = {name: frame[frame["split"] == name] for name in ("train", "validation")}
    pairs = {name: (rows[list(NAMES)], rows["y"]) for name, rows in splits.items()}
    return Problem.from_splits(**pairs, **{"costs": COSTS, "threshold": 0.8, **options})


def assert_equal_fronts(one: Front, other: Front) -> None:
    """Compare the designs of two fronts, and their counts."""
    assert [design.id for design in one] == [design.id for design in other]
    for mine, theirs in zip(one, other, strict=True):
        assert (mine.counts, mine.labels, mine.ties) == (theirs.counts, theirs.labels, theirs.ties)


@pytest.mark.parametrize(
    "options",
    [{}, {"class_weight": "balanced", "C": 0.1}, {"increasing": ["c"], "decreasing": ["a"]}],
    ids=["plain", "weights", "directions"],
)
def test_the_front_is_that_of_one_table(options: dict[str, Any]) -> None:
    """Features, encoder and the whole front are those of one process."""
    frame = make_frame()
    mine, theirs = partitioned(frame, **options), in_one_table(frame, **options)
    assert mine.problem.features == theirs.features
    for block, own in zip(mine.problem.encoder.blocks, theirs.encoder.blocks, strict=True):
        assert (block.mean, block.scale, block.fill) == pytest.approx((own.mean, own.scale, own.fill), abs=1e-12)
    found = mine.search(SHORT, seed=1)
    expected = run_evolve(theirs, SHORT, seed=1, jobs=1)
    assert found.fits == expected.fits
    assert_equal_fronts(found.front, expected.front)


def test_three_labels_and_groups_of_categories() -> None:
    """The front of one table, also with several labels, whose models have a logit each."""
    frame = make_frame(labels=3)
    found, expected = partitioned(frame).search(SHORT), run_evolve(in_one_table(frame), SHORT, jobs=1)
    assert_equal_fronts(found.front, expected.front)
