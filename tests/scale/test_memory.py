"""`emsco-run` on a folder of Parquet files that is four times larger than the memory it may use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emsco_runtime import write_bundle
from emsco_runtime.testing import make_bundle

pytestmark = pytest.mark.uncounted

MIB = 2**20
ALLOWED = 384 * MIB
ROWS_PER_FILE = 100_000

# The most that the process ever had in memory. It is measured, since it cannot be limited: pyarrow and onnxruntime reserve some
# gigabytes of address space that they never use, which RLIMIT_AS and RLIMIT_DATA count.
RUN = """
import json, pathlib, sys
from emsco_runtime.cli.run import main
ended = main(sys.argv[1:])
status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
print(json.dumps({"ended": ended, "peak_kib": int(status["VmHWM"].split()[0])}))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of the memory is read from /proc")
def test_a_table_larger_than_the_memory(tmp_path: Path) -> None:
    """All rows are decided, and the peak of the memory, libraries included, stays below a quarter of the table."""
    names = [f"f{number}" for number in range(60)]
    bundle = make_bundle([names[:30], names[30:]], threshold=0.9, seed=1)
    write_bundle(tmp_path / "bundle", bundle.manifest, bundle.models)
    rows = tmp_path / "rows"
    rows.mkdir()
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.normal(size=ROWS_PER_FILE) * 0.2 for name in names})
    first = rows / "part-000.parquet"
    pq.write_table(table, first, compression="none", use_dictionary=False, row_group_size=20_000)
    # The same file under many names: a large table on a small disk.
    files = -(-4 * ALLOWED // first.stat().st_size)
    for number in range(1, files):
        os.link(first, rows / f"part-{number:03}.parquet")
    assert sum(path.stat().st_size for path in rows.iterdir()) >= 4 * ALLOWED
    command = [sys.executable, "-c", RUN, str(tmp_path / "bundle"), str(rows), "--out", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["ended"] == 0
    assert f"rows       {files * ROWS_PER_FILE}" in done.stdout
    assert said["peak_kib"] * 1024 < ALLOWED
