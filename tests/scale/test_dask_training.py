"""Training on a Dask DataFrame in two worker processes: the front of one process, also where a worker is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from emsco_runtime import Cascade
from emsco_train import Front, Problem, Settings, run_evolve
from emsco_train.data.stage_settings import StageKind

dask_frames = pytest.importorskip("dask.dataframe", reason="the extra `dask` is not installed")
distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")

ROWS, FILES = 6_000, 4
COSTS = {"a": 5.0, "b": 1.0, "c": 1.0, "d": 2.0, "kind": 3.0}
SHORT = Settings(population=24, generations=4, max_stages=3)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Start two worker processes."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Return rows with numbers, gaps and categories, and the split of each."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 4)), columns=list("abcd"))
    frame["kind"] = rng.choice(["x", "y", "z"], ROWS)
    score = 2 * frame["a"].abs() + frame["b"] - frame["c"] + (frame["kind"] == "x") + rng.normal(size=ROWS)
    frame["label"] = np.where(score > 0.3, "spam", "ham")
    frame.loc[rng.random(ROWS) < 0.1, "b"] = np.nan
    frame["split"] = np.where(rng.random(ROWS) < 0.4, "validation", "train")
    return frame


@pytest.fixture(scope="module")
def folder(table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write the rows as a folder of Parquet files."""
    path = tmp_path_factory.mktemp("rows")
    for number, rows in enumerate(np.array_split(np.arange(ROWS), FILES)):
        table.iloc[rows].to_parquet(path / f"part-{number}.parquet")
    return str(path)


def search_here(table: pd.DataFrame, stages: StageKind) -> Front:
    """Search the same rows in this process."""
    parts = {name: table[table["split"] == name] for name in ("train", "validation")}
    pairs = {name: (rows[list(COSTS)], rows["label"]) for name, rows in parts.items()}
    return run_evolve(Problem.from_splits(**pairs, costs=COSTS, threshold=0.85, stages=stages), SHORT, jobs=1).front


def assert_equal_fronts(one: Front, other: Front) -> None:
    """Compare the designs of two fronts, and their counts."""
    assert [design.id for design in one] == [design.id for design in other]
    assert [(design.counts, design.labels) for design in one] == [(design.counts, design.labels) for design in other]


@pytest.mark.parametrize("stages", ["straight", "curved"])
def test_the_front_is_that_of_one_process_and_goes_on_to_a_bundle(
    client: Any, table: pd.DataFrame, folder: str, stages: StageKind, tmp_path: Path
) -> None:
    """The same designs and counts; the bundle of one of them has the figures of all validation rows, and decides."""
    from emsco_train.dask import make_problem

    frame = dask_frames.read_parquet(folder)
    with make_problem(frame, "label", costs=COSTS, threshold=0.85, split="split", stages=stages, client=client) as problem:
        front = problem.search(SHORT).front
        assert_equal_fronts(front, search_here(table, stages))
        design = front.knee
        export = problem.export(tmp_path / "bundle", design)
    assert (export.expected.rows, export.expected.accepted) == (design.counts.rows, design.counts.accepted)
    with Cascade.load(tmp_path / "bundle") as cascade:
        assert cascade.decide({"a": 3.0, "b": 2.0, "c": -2.0, "d": 0.0, "kind": "x"}).label == "spam"


def test_a_worker_killed_in_mid_run_changes_nothing(client: Any, table: pd.DataFrame, folder: str) -> None:
    """SIGKILL to one of the two workers during the generations: its partitions are read again, and the front is the same."""
    from emsco_train.dask import make_problem

    killed = []

    def kill_one(generation: Any) -> None:
        if generation.number == 1:
            pids = client.run(os.getpid)
            victim = min(pids.values())
            killed.append(victim)
            os.kill(victim, signal.SIGKILL)

    frame = dask_frames.read_parquet(folder)
    with make_problem(frame, "label", costs=COSTS, threshold=0.85, split="split", client=client) as problem:
        front = problem.search(SHORT, on_generation=kill_one).front
    assert len(killed) == 1
    assert killed[0] not in client.run(os.getpid).values()
    assert_equal_fronts(front, search_here(table, "straight"))


def test_a_cluster_is_started_and_ended_where_there_is_none(client: Any, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a client, a local cluster has the rows, until the problem is closed; rows are drawn where no column says more."""
    from emsco_train.dask import make_problem

    def no_client() -> None:
        raise ValueError

    monkeypatch.setattr(distributed, "default_client", no_client)
    frame = dask_frames.read_parquet(folder, columns=[*COSTS, "label"])
    with make_problem(frame, "label", costs=COSTS, threshold=0.85) as problem:
        assert 0.25 < problem.bench.items / ROWS < 0.35
        assert problem.bench.evaluator()(np.zeros((1, len(COSTS)), dtype=np.int8)).accepted[0] > 0
    assert client.status == "running"
