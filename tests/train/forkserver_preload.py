"""What the server behind `processes` does before it forks: imports, and numba's own preparations. It starts no thread."""

from __future__ import annotations

import importlib

from numba.core.registry import cpu_target

for name in (
    "onnxruntime",
    "pyarrow.parquet",
    "emsco_runtime.cli.inspect",
    "emsco_runtime.cli.run",
    "emsco_train.cli.export_output",
    "emsco_train.cli.train_request",
    "emsco_train.cli.export",
    "emsco_train.cli.train",
    "emsco_train.runs.exporting",
    "emsco_train.runs.training",
    "emsco_train.models.graph",
):
    importlib.import_module(name)

# Done by the first compiled function of a process, and most of what a small training takes.
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
