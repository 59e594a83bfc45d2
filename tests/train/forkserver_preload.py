"""What the server behind `processes` does before it forks: it imports, and loads compiled code. It starts no thread."""

from __future__ import annotations

import importlib

from numba.core.registry import cpu_target

from emsco_train.models.logistic.set_kernels import fit_sets
from emsco_train.search.compilation import SIGNATURES
from emsco_train.support.compiled import is_cached

for name in (
    "onnx",
    "onnxruntime",
    "pyarrow.parquet",
    "scipy.special",
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
# Only what is on disk: compiling is left to the first command that needs it, which shows how that is done.
if is_cached(fit_sets):
    for function, signature in SIGNATURES.items():
        function.compile(signature)
