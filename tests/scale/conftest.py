"""A bundle, rows in Parquet files, and the decisions of one process, with which those of every engine are compared."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emsco_runtime import Cascade, write_bundle
from emsco_runtime.testing import make_bundle

ROWS, FILES = 100_000, 4
FEATURES = ("a", "b", "c", "d", "e")
DECIDED = ("label", "status", "reason", "stages", "cost")


@dataclass(frozen=True)
class Work:
    """What an engine is given, and what one process decided."""

    bundle: str
    rows: str
    # Where a computed column leaves a file for each of its calls.
    calls: Path
    expected: Any

    def assert_equal(self, answer: Any) -> None:
        """Compare a table of decisions in any order of its rows, given their keys, with those of one process."""
        ordered = answer.sort_by("key")
        assert ordered.num_rows == ROWS
        for name in DECIDED:
            assert ordered.column(name).to_pylist() == self.expected.column(name).to_pylist()

    def make_look_up(self) -> Any:
        """Return the function of the expensive column: it says in a file how many rows it was called for."""
        calls = str(self.calls)

        def look_up(batch: Any) -> Any:
            import os
            import uuid

            rows = len(batch)
            with open(os.path.join(calls, f"{uuid.uuid4().hex}-{rows}"), "w", encoding="utf-8"):  # noqa: PTH118, PTH123
                pass
            return batch["key"] % 7 - 3.0 if hasattr(batch, "iloc") else [float(key % 7 - 3) for key in batch["key"].to_pylist()]

        return look_up

    def looked_up(self) -> int:
        """Return for how many rows the expensive column was computed."""
        return sum(int(path.name.rpartition("-")[2]) for path in self.calls.iterdir())

    def needed(self) -> int:
        """Return how many rows reach the stage of the expensive column."""
        return int((np.asarray(self.expected.column("stages")) == 3).sum())


@pytest.fixture
def work(tmp_path: Path) -> Work:
    """Write bundle and rows, and decide them in this process."""
    bundle = make_bundle([["a", "b"], ["c", "d"], ["e"]], costs={"e": 50.0}, threshold=0.95, seed=5)
    write_bundle(tmp_path / "bundle", bundle.manifest, bundle.models)
    rng = np.random.default_rng(0)
    keys = np.arange(ROWS)
    columns = {name: rng.normal(size=ROWS) * 2 for name in FEATURES[:-1]}
    (tmp_path / "rows").mkdir()
    (tmp_path / "calls").mkdir()
    table = pa.table({"key": keys, **columns})
    for number in range(FILES):
        pq.write_table(table.slice(number * ROWS // FILES, ROWS // FILES), tmp_path / "rows" / f"part-{number}.parquet")
    with Cascade(bundle) as cascade:
        decisions = cascade.decide_columns({**columns, "e": keys % 7 - 3.0})
    expected = pa.table({name: pa.array(getattr(decisions, name), from_pandas=True) for name in DECIDED})
    return Work(str(tmp_path / "bundle"), str(tmp_path / "rows"), tmp_path / "calls", expected)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Start Spark in local mode with two threads."""
    sql = pytest.importorskip("pyspark.sql", reason="the extra `scale` is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17, and there is no `java`")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(name, "127.0.0.1")
    session = builder.config("spark.driver.memory", "2g").getOrCreate()
    yield session
    session.stop()
