"""emsco's training: search designs, fit their stages, prove that the runtime agrees, and write the bundle.

The way of the data, one room each::

    data        a table, its features, labels and splits: a `Problem`;  costs: what features cost
    logistic    fits of many feature sets, to convergence;  stage_model: the one place that fits a stage
    scoring     feature sets -> packed bits -> the objectives of designs
    genetic     the genetic algorithm;  exact: every design;  searches: both of them, on a problem;  sweep: at many settings
    designs     chromosomes, `Design`, and the `Front` to choose from
    stages      the stages of one design as ONNX, and what they do with rows
    guarantee   bounds on errors, certificates, calibration
    bundling    golden items, verification through the runtime, and the export of a design
    estimator   the scikit-learn face of all of it
    runs        the command-line face: table files -> a run folder -> a bundle;  report: its page

Needs the extra: ``pip install 'emsco[train]'``. Importing this package is quick; a name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emsco_train.bundling.export import export_design
    from emsco_train.bundling.publication import Export
    from emsco_train.bundling.verification import Verification, verify
    from emsco_train.costs.model import CostGroup, CostModel
    from emsco_train.data.features import FeatureOptions
    from emsco_train.data.problem import Problem
    from emsco_train.data.splits import Shares, Splits
    from emsco_train.data.table import Table
    from emsco_train.designs.design import Design
    from emsco_train.designs.front import Front
    from emsco_train.errors import (
        CertificationError,
        ConfidenceWarning,
        ConversionError,
        DataError,
        DesignError,
        ExportError,
        FitError,
        OutlierWarning,
        SelectionError,
        ThresholdWarning,
        TrainError,
        VerificationError,
        VersionWarning,
    )
    from emsco_train.estimator.classifier import EmscoClassifier
    from emsco_train.genetic.checkpoint import CheckpointError, Checkpoints
    from emsco_train.progress import Progress
    from emsco_train.report.writing import write_report
    from emsco_train.runs.exporting import RunExport, export_run
    from emsco_train.searches import Outcome, evolve, exhaustive, run_evolve, run_search
    from emsco_train.settings import Constraints, Settings
    from emsco_train.stages.cascade_model import CascadeModel
    from emsco_train.sweep import sweep_settings, sweep_thresholds
    from emsco_train.workbench import Workbench

__all__ = [
    "CascadeModel",
    "CertificationError",
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
    "OutlierWarning",
    "Problem",
    "Progress",
    "RunExport",
    "SelectionError",
    "Settings",
    "Shares",
    "Splits",
    "Table",
    "ThresholdWarning",
    "TrainError",
    "Verification",
    "VerificationError",
    "VersionWarning",
    "Workbench",
    "evolve",
    "exhaustive",
    "export_design",
    "export_run",
    "run_evolve",
    "run_search",
    "sweep_settings",
    "sweep_thresholds",
    "verify",
    "write_report",
]

_ERRORS = "emsco_train.errors"
_MODULES = {
    "CascadeModel": "emsco_train.stages.cascade_model",
    "CertificationError": _ERRORS,
    "CheckpointError": "emsco_train.genetic.checkpoint",
    "Checkpoints": "emsco_train.genetic.checkpoint",
    "ConfidenceWarning": _ERRORS,
    "Constraints": "emsco_train.settings",
    "ConversionError": _ERRORS,
    "CostGroup": "emsco_train.costs.model",
    "CostModel": "emsco_train.costs.model",
    "DataError": _ERRORS,
    "Design": "emsco_train.designs.design",
    "DesignError": _ERRORS,
    "EmscoClassifier": "emsco_train.estimator.classifier",
    "Export": "emsco_train.bundling.publication",
    "ExportError": _ERRORS,
    "FeatureOptions": "emsco_train.data.features",
    "FitError": _ERRORS,
    "Front": "emsco_train.designs.front",
    "Outcome": "emsco_train.searches",
    "OutlierWarning": _ERRORS,
    "Problem": "emsco_train.data.problem",
    "Progress": "emsco_train.progress",
    "RunExport": "emsco_train.runs.exporting",
    "SelectionError": _ERRORS,
    "Settings": "emsco_train.settings",
    "Shares": "emsco_train.data.splits",
    "Splits": "emsco_train.data.splits",
    "Table": "emsco_train.data.table",
    "ThresholdWarning": _ERRORS,
    "TrainError": _ERRORS,
    "Verification": "emsco_train.bundling.verification",
    "VerificationError": _ERRORS,
    "VersionWarning": _ERRORS,
    "Workbench": "emsco_train.workbench",
    "evolve": "emsco_train.searches",
    "exhaustive": "emsco_train.searches",
    "export_design": "emsco_train.bundling.export",
    "export_run": "emsco_train.runs.exporting",
    "run_evolve": "emsco_train.searches",
    "run_search": "emsco_train.searches",
    "sweep_settings": "emsco_train.sweep",
    "sweep_thresholds": "emsco_train.sweep",
    "verify": "emsco_train.bundling.verification",
    "write_report": "emsco_train.report.writing",
}

_missing = [package for package in ("sklearn", "onnx", "skl2onnx") if find_spec(package) is None]
if _missing:
    _message = f"emsco_train needs {', '.join(_missing)}, not installed here. Install with: pip install 'emsco[train]'"
    if Path(sys.argv[0]).name.startswith("emsco-"):
        # One of our commands is importing itself: its user wants the line, not a traceback.
        sys.stderr.write(f"{Path(sys.argv[0]).name}: {_message}\n")
        sys.exit(2)
    raise ImportError(_message)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'emsco_train' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
