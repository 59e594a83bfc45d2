"""emsco's training: search designs, fit their stages, verify that the runtime agrees, and write the bundle.

The subpackages, in the order of the data::

    costs       what features cost, and how to measure it
    data        a table, its features, labels and splits: a `Problem`
    models      what is fitted: the model of a stage, its ONNX graph, and what a cascade of them does with rows
    designs     chromosomes, `Design`, and the `Front` to choose from
    search      feature sets -> packed bits -> objectives; the genetic algorithm, and every design
    guarantee   bounds on errors, certificates, the choice under a largest error
    export      golden items, verification through the runtime, and the bundle
    estimator   all of it as a scikit-learn estimator
    distributed all of it on rows that stay in partitions;  dask: those of a Dask DataFrame
    runs        all of it on files: tables -> a run folder -> a bundle;  report: its page

Needs the extra: ``pip install 'emsco[train]'``. Importing this package is fast: a name is loaded when it is first used.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from emsco_runtime.support.lazy_names import lazy_names

if TYPE_CHECKING:
    from emsco_train.costs.cost_model import CostGroup as CostGroup, CostModel as CostModel
    from emsco_train.data.cross_fitting import cross_fit as cross_fit, deal_folds as deal_folds
    from emsco_train.data.features import FeatureOptions as FeatureOptions
    from emsco_train.data.near_duplicates import group_near_duplicates as group_near_duplicates
    from emsco_train.data.problem import Problem as Problem
    from emsco_train.data.splits import Shares as Shares, Splits as Splits
    from emsco_train.data.table import Table as Table
    from emsco_train.designs.design import Design as Design
    from emsco_train.designs.front import Front as Front
    from emsco_train.designs.selection import Constraints as Constraints
    from emsco_train.errors import (
        CertificationError as CertificationError,
        CertifyUseWarning as CertifyUseWarning,
        ConfidenceWarning as ConfidenceWarning,
        ConversionError as ConversionError,
        DataError as DataError,
        DesignError as DesignError,
        ExportError as ExportError,
        FewGroupsWarning as FewGroupsWarning,
        FitError as FitError,
        OutlierWarning as OutlierWarning,
        RareLabelWarning as RareLabelWarning,
        RepeatedRowsWarning as RepeatedRowsWarning,
        SelectionError as SelectionError,
        TableWarning as TableWarning,
        ThresholdWarning as ThresholdWarning,
        TrainError as TrainError,
        UnknownCategoryWarning as UnknownCategoryWarning,
        VerificationError as VerificationError,
        VersionWarning as VersionWarning,
    )
    from emsco_train.estimator.classifier import EmscoClassifier as EmscoClassifier
    from emsco_train.export.given_design import export_design as export_design
    from emsco_train.export.publication import Export as Export
    from emsco_train.export.verification import Verification as Verification, verify as verify
    from emsco_train.models.cascade_model import CascadeModel as CascadeModel
    from emsco_train.report.report_file import write_report as write_report
    from emsco_train.runs.exporting import RunExport as RunExport, export_run as export_run
    from emsco_train.search.genetic.checkpoint import CheckpointError as CheckpointError, Checkpoints as Checkpoints
    from emsco_train.search.progress import Progress as Progress
    from emsco_train.search.searches import (
        Outcome as Outcome,
        evolve as evolve,
        exhaustive as exhaustive,
        run_evolve as run_evolve,
        run_search as run_search,
    )
    from emsco_train.search.settings import Settings as Settings
    from emsco_train.search.sweep import (
        sweep_seeds as sweep_seeds,
        sweep_settings as sweep_settings,
        sweep_thresholds as sweep_thresholds,
    )
    from emsco_train.search.workbench import Workbench as Workbench

_needed = ("moocore", "numba", "onnx", "scipy", "skl2onnx", "sklearn")
_missing = [package for package in _needed if find_spec(package) is None]
if _missing:
    _message = f"emsco_train needs {', '.join(_missing)}, not installed here. Install with: pip install 'emsco[train]'"
    if Path(sys.argv[0]).name.startswith("emsco-"):
        # One of our commands is starting: its user needs the line, not a traceback.
        sys.stderr.write(f"{Path(sys.argv[0]).name}: {_message}\n")
        sys.exit(2)
    raise ImportError(_message)

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "emsco_train.costs.cost_model": "CostGroup CostModel",
        "emsco_train.data.cross_fitting": "cross_fit deal_folds",
        "emsco_train.data.features": "FeatureOptions",
        "emsco_train.data.near_duplicates": "group_near_duplicates",
        "emsco_train.data.problem": "Problem",
        "emsco_train.data.splits": "Shares Splits",
        "emsco_train.data.table": "Table",
        "emsco_train.designs.design": "Design",
        "emsco_train.designs.front": "Front",
        "emsco_train.designs.selection": "Constraints",
        "emsco_train.errors": "CertificationError CertifyUseWarning ConfidenceWarning ConversionError DataError DesignError"
        " ExportError FewGroupsWarning FitError OutlierWarning RareLabelWarning RepeatedRowsWarning SelectionError TableWarning"
        " ThresholdWarning TrainError UnknownCategoryWarning VerificationError VersionWarning",
        "emsco_train.estimator.classifier": "EmscoClassifier",
        "emsco_train.export.given_design": "export_design",
        "emsco_train.export.publication": "Export",
        "emsco_train.export.verification": "Verification verify",
        "emsco_train.models.cascade_model": "CascadeModel",
        "emsco_train.report.report_file": "write_report",
        "emsco_train.runs.exporting": "RunExport export_run",
        "emsco_train.search.genetic.checkpoint": "CheckpointError Checkpoints",
        "emsco_train.search.progress": "Progress",
        "emsco_train.search.searches": "Outcome evolve exhaustive run_evolve run_search",
        "emsco_train.search.settings": "Settings",
        "emsco_train.search.sweep": "sweep_seeds sweep_settings sweep_thresholds",
        "emsco_train.search.workbench": "Workbench",
    },
)
