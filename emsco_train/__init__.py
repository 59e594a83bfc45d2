"""emsco's training: search designs, fit their stages, prove that the runtime agrees, and write the bundle.

The way of the data, one module each::

    table            named columns of raw values;  costs: what they cost;  labels, thresholds
    features         what the training columns say about each input
    encoder          codes -> standardised and one-hot columns
    stage_model      the one function that fits a stage;  logistic: to convergence
    stage_bits       feature set -> packed bits;  evaluator: designs -> objectives, from the bits
    evolution        the genetic algorithm;  exhaustive_front: the exact one;  searches: both of them, on a problem
    front            the designs found, and how to choose;  estimator: the scikit-learn face of all of it
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
    from emsco_train.checkpoint import CheckpointError, Checkpoints
    from emsco_train.costs import CostGroup, CostModel
    from emsco_train.design import Design
    from emsco_train.errors import (
        ConfidenceWarning,
        ConversionError,
        DataError,
        DesignError,
        ExportError,
        FitError,
        SelectionError,
        ThresholdWarning,
        TrainError,
        VerificationError,
    )
    from emsco_train.estimator import EmscoClassifier
    from emsco_train.export import Export, export_design
    from emsco_train.features import FeatureOptions
    from emsco_train.front import Front
    from emsco_train.problem import Problem
    from emsco_train.searches import Outcome, evolve, exhaustive, run_search
    from emsco_train.settings import Constraints, Settings
    from emsco_train.splits import Shares, Splits
    from emsco_train.sweep import sweep_settings, sweep_thresholds
    from emsco_train.table import Table
    from emsco_train.verification import Verification, verify
    from emsco_train.workbench import Workbench

__all__ = [
    "CascadeModel",
    "CheckpointError",
    "Checkpoints",
    "ConfidenceWarning",
    "Constraints",
    "ConversionError",
    "CostGroup",
    "CostModel",
    "DataError",
    "Design",
    "DesignError",
    "EmscoClassifier",
    "Export",
    "ExportError",
    "FeatureOptions",
    "FitError",
    "Front",
    "Outcome",
    "Problem",
    "SelectionError",
    "Settings",
    "Shares",
    "Splits",
    "Table",
    "ThresholdWarning",
    "TrainError",
    "Verification",
    "VerificationError",
    "Workbench",
    "evolve",
    "exhaustive",
    "export_design",
    "run_search",
    "sweep_settings",
    "sweep_thresholds",
    "verify",
]

_ERRORS = "emsco_train.errors"
_HOMES = {
    "CascadeModel": "emsco_train.cascade_model",
    "CheckpointError": "emsco_train.checkpoint",
    "Checkpoints": "emsco_train.checkpoint",
    "ConfidenceWarning": _ERRORS,
    "Constraints": "emsco_train.settings",
    "ConversionError": _ERRORS,
    "CostGroup": "emsco_train.costs",
    "CostModel": "emsco_train.costs",
    "DataError": _ERRORS,
    "Design": "emsco_train.design",
    "DesignError": _ERRORS,
    "EmscoClassifier": "emsco_train.estimator",
    "Export": "emsco_train.export",
    "ExportError": _ERRORS,
    "FeatureOptions": "emsco_train.features",
    "FitError": _ERRORS,
    "Front": "emsco_train.front",
    "Outcome": "emsco_train.searches",
    "Problem": "emsco_train.problem",
    "SelectionError": _ERRORS,
    "Settings": "emsco_train.settings",
    "Shares": "emsco_train.splits",
    "Splits": "emsco_train.splits",
    "Table": "emsco_train.table",
    "ThresholdWarning": _ERRORS,
    "TrainError": _ERRORS,
    "Verification": "emsco_train.verification",
    "VerificationError": _ERRORS,
    "Workbench": "emsco_train.workbench",
    "evolve": "emsco_train.searches",
    "exhaustive": "emsco_train.searches",
    "export_design": "emsco_train.export",
    "run_search": "emsco_train.searches",
    "sweep_settings": "emsco_train.sweep",
    "sweep_thresholds": "emsco_train.sweep",
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
