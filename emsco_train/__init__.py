"""emsco's training: fit the stages of a design, prove that the runtime agrees, and write the bundle.

The way of the data, one module each::

    table            named columns of raw values;  costs: what they cost;  labels, thresholds
    features         what the training columns say about each input
    encoder          codes -> standardised and one-hot columns
    stage_model      the one function that fits a stage;  logistic: to convergence
    graph            a stage as ONNX;  conversion: the proof that the two agree
    cascade_model    all stages of a design;  evaluation: what it does with rows;  golden: items for the bundle
    verification     replay through the runtime, row by row
    export           all of it, ending in a bundle

Needs the extra: ``pip install 'emsco[train]'``. Importing this package is quick; a name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emsco_train.cascade_model import CascadeModel
    from emsco_train.costs import CostGroup, CostModel
    from emsco_train.errors import (
        ConversionError,
        DataError,
        DesignError,
        ExportError,
        FitError,
        ThresholdWarning,
        TrainError,
        VerificationError,
    )
    from emsco_train.export import Export, export_design
    from emsco_train.features import FeatureOptions
    from emsco_train.table import Table
    from emsco_train.verification import Verification, verify

__all__ = [
    "CascadeModel",
    "ConversionError",
    "CostGroup",
    "CostModel",
    "DataError",
    "DesignError",
    "Export",
    "ExportError",
    "FeatureOptions",
    "FitError",
    "Table",
    "ThresholdWarning",
    "TrainError",
    "Verification",
    "VerificationError",
    "export_design",
    "verify",
]

_ERRORS = "emsco_train.errors"
_HOMES = {
    "CascadeModel": "emsco_train.cascade_model",
    "ConversionError": _ERRORS,
    "CostGroup": "emsco_train.costs",
    "CostModel": "emsco_train.costs",
    "DataError": _ERRORS,
    "DesignError": _ERRORS,
    "Export": "emsco_train.export",
    "ExportError": _ERRORS,
    "FeatureOptions": "emsco_train.features",
    "FitError": _ERRORS,
    "Table": "emsco_train.table",
    "ThresholdWarning": _ERRORS,
    "TrainError": _ERRORS,
    "Verification": "emsco_train.verification",
    "VerificationError": _ERRORS,
    "export_design": "emsco_train.export",
    "verify": "emsco_train.verification",
}

_missing = [package for package in ("sklearn", "onnx", "skl2onnx") if find_spec(package) is None]
if _missing:
    _told = f"emsco_train needs {', '.join(_missing)}, not installed here. Install with: pip install 'emsco[train]'"
    if Path(sys.argv[0]).name.startswith("emsco-"):
        # One of our commands is importing itself: its user wants the line, not a traceback.
        sys.stderr.write(f"{Path(sys.argv[0]).name}: {_told}\n")
        sys.exit(2)
    raise ImportError(_told)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'emsco_train' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
