"""Training on a local Dask cluster of two worker processes: time, memory, and the front of one process.

    python benchmarks/dask_training.py --rows 2000000 --subset 200000

Writes a table of 20 features as Parquet files, searches it on the cluster, and prints the largest memory of the client and of
each worker. A subset of its rows is searched on the cluster and in this process: both fronts must be the same.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import dask.dataframe
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

from emsco_train import Front, Problem, Settings, run_evolve
from emsco_train.dask import make_problem

FEATURES = [f"x{index}" for index in range(20)]
COSTS = {name: 1.0 + index % 5 for index, name in enumerate(FEATURES)}
THRESHOLD, FILES = 0.9, 8


def write_rows(large: str, small: str, rows: int, subset: int) -> None:
    """Write rows as Parquet files, and the first ones of each file as a subset: numbers of different use, some of them gaps."""
    for number in range(FILES):
        rng, share = np.random.default_rng((7, number)), rows // FILES
        frame = pd.DataFrame(rng.normal(size=(share, len(FEATURES))), columns=FEATURES)
        score = frame.to_numpy() @ np.linspace(1.5, 0.0, len(FEATURES)) + 2.0 * rng.normal(size=share)
        frame["x3"] = frame["x3"].where(rng.random(share) > 0.05)
        frame["label"] = np.where(score > 1.0, "spam", "ham")
        frame["split"] = np.where(rng.random(share) < 0.3, "validation", "train")
        frame.to_parquet(Path(large) / f"part-{number:03}.parquet")
        frame.iloc[: subset // FILES].to_parquet(Path(small) / f"part-{number:03}.parquet")


def peak_mb() -> int:
    """Return the largest resident memory that this process had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def search(client: Client, folder: str, settings: Settings) -> Front:
    """Search a folder of Parquet files on the cluster."""
    started, before = time.perf_counter(), sum(client.run(time.process_time).values())
    with make_problem(
        dask.dataframe.read_parquet(folder), "label", costs=COSTS, threshold=THRESHOLD, split="split", client=client
    ) as problem:
        read = time.perf_counter() - started
        outcome = problem.search(settings)
        seconds = time.perf_counter() - started - read
        print(f"  read {read:.0f} s, search {seconds:.0f} s, {outcome.fits} sets, {len(outcome.front)} designs", flush=True)
        used = [sum(client.run(time.process_time).values()) - before, time.process_time()]
        print(f"  processor time: workers {used[0]:.0f} s, client {used[1]:.0f} s since its start", flush=True)
        print(f"  client {peak_mb()} MB, workers {sorted(client.run(peak_mb).values())} MB at most", flush=True)
    return outcome.front


def search_here(folder: str, settings: Settings) -> Front:
    """Search the same rows in this process."""
    table = pd.read_parquet(folder)
    parts = {name: table[table["split"] == name] for name in ("train", "validation")}
    pairs = {name: (rows[FEATURES], rows["label"]) for name, rows in parts.items()}
    started = time.perf_counter()
    front = run_evolve(Problem.from_splits(**pairs, costs=COSTS, threshold=THRESHOLD), settings, jobs=2).front
    print(f"  one process: {time.perf_counter() - started:.0f} s, {peak_mb()} MB", flush=True)
    return front


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--subset", type=int, default=200_000)
    parser.add_argument("--population", type=int, default=30)
    parser.add_argument("--generations", type=int, default=5)
    parser.add_argument("--seeded", action=argparse.BooleanOptionalAction, default=True, help="begin along greedy paths")
    options = parser.parse_args()
    settings = Settings(population=options.population, generations=options.generations, max_stages=4, seeded=options.seeded)
    logging.getLogger("distributed").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as large, tempfile.TemporaryDirectory() as small:
        # In a process of its own, so that this one's memory is that of a client.
        arguments = (large, small, options.rows, options.subset)
        writer = multiprocessing.get_context("spawn").Process(target=write_rows, args=arguments)
        writer.start()
        writer.join()
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            print(f"{options.rows:,} rows, 2 workers", flush=True)
            search(client, large, settings)
            print(f"{options.subset:,} of these rows, 2 workers", flush=True)
            mine = search(client, small, settings)
        theirs = search_here(small, settings)
        same = [(design.id, design.counts) for design in mine] == [(design.id, design.counts) for design in theirs]
        print(f"  its front is {'the same' if same else 'ANOTHER ONE'}, {len(theirs)} designs")


if __name__ == "__main__":
    main()
