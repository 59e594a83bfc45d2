"""Rows per second of `BatchDecider` on Spark, Dask and Ray against one process, with the same decisions and expensive calls.

``scoring_engines.py spark --rows 5000000``. Needs the extra `scale`, and Spark needs Java 17. The rows are in Parquet files of
100,000. One process reads them file by file and decides them with the same decider. The time of an engine begins when its workers
have decided a first file, so that what is compared is the work and not the start. Decisions are added up by label, status,
reason, stages and cost on the engine, and the sums must be equal; so must the number of rows for which the expensive column was
computed, which is counted in files.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from emsco_runtime import write_bundle
from emsco_runtime.arrow import BatchDecider
from emsco_runtime.cli.console import format_table
from emsco_runtime.testing import make_bundle

FILE_ROWS = 100_000
DECIDED = ("label", "status", "reason", "stages", "cost")
Sums = Counter[tuple[object, ...]]


def write_rows(folder: Path, rows: int) -> None:
    """Write the bundle and the rows."""
    bundle = make_bundle([["a", "b"], ["c", "d"], ["e"]], costs={"e": 50.0}, threshold=0.95, seed=5)
    write_bundle(folder / "bundle", bundle.manifest, bundle.models)
    (folder / "rows").mkdir()
    rng = np.random.default_rng(0)
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        keys = np.arange(start, min(start + FILE_ROWS, rows))
        columns = {name: rng.normal(size=len(keys)) * 2 for name in "abcd"}
        pq.write_table(pa.table({"key": keys, **columns}), folder / "rows" / f"part-{number:05}.parquet")


def make_look_up(calls: str) -> Callable[[Any], Any]:
    """Return the function of the expensive column: it leaves a file that says how many rows it was called for."""

    def look_up(batch: Any) -> Any:
        Path(calls, f"{uuid.uuid4().hex}-{len(batch)}").touch()
        keys = batch["key"].to_numpy() if hasattr(batch, "iloc") else np.asarray(batch["key"])
        return keys % 7 - 3.0

    return look_up


def add_up(table: pa.Table) -> Sums:
    """Count the rows of a table by what was decided."""
    counted = table.group_by(list(DECIDED)).aggregate([([], "count_all")])
    return Counter({tuple(row[name] for name in DECIDED): row["count_all"] for row in counted.to_pylist()})


def as_table(sums: Sums) -> pa.Table:
    """Return sums as a table of few rows, which is all that workers send back."""
    columns = list(zip(*sums, strict=True))
    types = (pa.string(), pa.string(), pa.string(), pa.int64(), pa.float64())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.table([*arrays, pa.array(sums.values(), pa.int64())], names=[*DECIDED, "rows"])


class Summing:
    """Decides a batch and returns the sums; the same for all engines, so that none of them sends decisions around."""

    def __init__(self, bundle: str, calls: str) -> None:
        self._decide = BatchDecider(bundle, compute={"e": make_look_up(calls)})

    def __call__(self, batch: Any) -> Any:
        """Take and return Arrow tables or frames of pandas."""
        if hasattr(batch, "iloc"):
            return self(pa.Table.from_pandas(batch, preserve_index=False)).to_pandas()
        decided = self._decide(batch)
        sums = as_table(add_up(decided if isinstance(decided, pa.Table) else pa.Table.from_batches([decided])))
        return sums if isinstance(batch, pa.Table) else sums.combine_chunks().to_batches()[0]

    def map(self, batches: Any) -> Iterator[Any]:
        """Do it for several batches, as Spark wants it."""
        return map(self, batches)


def total(table: pa.Table) -> Sums:
    """Add up the sums of all batches."""
    sums: Sums = Counter()
    for row in table.to_pylist():
        # pandas has NaN for a missing label.
        sums[tuple(None if row[name] != row[name] else row[name] for name in DECIDED)] += row["rows"]
    return sums


@contextmanager
def one_process(_: int) -> Iterator[Callable[[Summing, list[str]], pa.Table]]:
    """Decide file by file here."""
    yield lambda decide, files: pa.concat_tables(decide(pq.read_table(file)) for file in files)


@contextmanager
def spark(workers: int) -> Iterator[Callable[[Summing, list[str]], pa.Table]]:
    """Decide by `mapInArrow` in Spark's local mode."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - one engine at a time is needed

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{workers}]").config("spark.ui.enabled", "false")
    for name in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(name, "127.0.0.1")
    session = builder.config("spark.driver.memory", "2g").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    schema = "label string, status string, reason string, stages long, cost double, rows long"
    yield lambda decide, files: session.read.parquet(*files).mapInArrow(decide.map, schema).toArrow()
    session.stop()


@contextmanager
def dask(workers: int) -> Iterator[Callable[[Summing, list[str]], pa.Table]]:
    """Decide by `map_partitions` in worker processes of Dask."""
    import dask.dataframe as dd  # noqa: PLC0415
    import distributed  # noqa: PLC0415

    with distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:

        def decide_files(decide: Summing, files: list[str]) -> pa.Table:
            meta = as_table(Counter({("x", "x", "x", 1, 1.0): 1})).slice(0, 0).to_pandas()
            return pa.Table.from_pandas(dd.read_parquet(files).map_partitions(decide, meta=meta).compute())

        with cluster.get_client():
            yield decide_files


@contextmanager
def ray(workers: int) -> Iterator[Callable[[Summing, list[str]], pa.Table]]:
    """Decide by `map_batches` with actors of Ray Data."""
    import ray as engine  # noqa: PLC0415

    engine.init(num_cpus=workers + 1, include_dashboard=False, log_to_driver=False)

    def decide_files(decide: Summing, files: list[str]) -> pa.Table:
        strategy = engine.data.ActorPoolStrategy(size=workers)
        data = engine.data.read_parquet(files)
        done = data.map_batches(_Actor, fn_constructor_args=(decide,), batch_format="pyarrow", compute=strategy)
        return pa.concat_tables(engine.get(one) for one in done.to_arrow_refs())

    yield decide_files
    engine.shutdown()


class _Actor:
    """What an actor of Ray makes once."""

    def __init__(self, decide: Summing) -> None:
        self._decide = decide

    def __call__(self, batch: Any) -> Any:
        return self._decide(batch)


ENGINES: dict[str, Any] = {"spark": spark, "dask": dask, "ray": ray}


def measure(engine: Any, workers: int, folder: Path) -> tuple[float, Sums, int]:
    """Return the seconds, the sums, and how many rows the expensive column was computed for."""
    files = sorted(str(path) for path in (folder / "rows").iterdir())
    with tempfile.TemporaryDirectory() as first_calls, tempfile.TemporaryDirectory() as calls, engine(workers) as decide_files:
        decide_files(Summing(str(folder / "bundle"), first_calls), files[:1])
        decide = Summing(str(folder / "bundle"), calls)
        started = time.perf_counter()
        sums = total(decide_files(decide, files))
        seconds = time.perf_counter() - started
        called = sum(int(path.name.rpartition("-")[2]) for path in Path(calls).iterdir())
    return seconds, sums, called


def main() -> None:
    """Measure engines one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engines", nargs="+", choices=ENGINES)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder, options.rows)
        base_seconds, expected, needed = measure(one_process, 1, folder)
        assert sum(expected.values()) == options.rows
        lines = [["one process", f"{options.rows / base_seconds:,.0f}", "1.00", f"{needed:,}"]]
        for engine in options.engines:
            seconds, sums, called = measure(ENGINES[engine], options.workers, folder)
            assert (sums, called) == (expected, needed), f"{engine}: other decisions"
            ratio = f"{base_seconds / seconds:.2f}"
            lines.append([f"{engine}, {options.workers} workers", f"{options.rows / seconds:,.0f}", ratio, f"{called:,}"])
    print(f"{options.rows:,} rows, equal decisions\n")
    print(format_table(["", "rows/s", "of one process", "expensive calls"], lines))


if __name__ == "__main__":
    main()
