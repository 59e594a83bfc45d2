"""emsco's runtime: decide items with a bundle, acquiring features lazily, stage by stage.

The way of an item, one module each::

    acquirers    the user's callables, in a registry
    bundle       read and audit the folder; manifest: its models; publish: write it atomically
    _plan        bind the two: who serves which feature at which stage, every fault listed at once
    _walk        the control flow of a cascade, without input or output
    _drivers     pump the walk: one item, many in step;  _columns: whole tables
    _scorer      onnxruntime: probabilities
    _rule        accept or go on;  meter: what it costs
    decision     what happened, with its bill
    cascade      the face of it all

Nothing here imports `emsco_train`, and importing this package does not load onnxruntime.
"""

from emsco_runtime._columns import ColumnDecisions
from emsco_runtime.acquirers import Acquirers
from emsco_runtime.bundle import Bundle, read_bundle
from emsco_runtime.cascade import Cascade
from emsco_runtime.decision import Decision, Failure, StageRecord
from emsco_runtime.errors import AcquisitionError, BindError, BundleError, BundleVersionError, EmscoError, InputError
from emsco_runtime.manifest import Manifest
from emsco_runtime.meter import Meter
from emsco_runtime.publish import write_bundle

__version__ = "0.1.0.dev0"

__all__ = [
    "Acquirers",
    "AcquisitionError",
    "BindError",
    "Bundle",
    "BundleError",
    "BundleVersionError",
    "Cascade",
    "ColumnDecisions",
    "Decision",
    "EmscoError",
    "Failure",
    "InputError",
    "Manifest",
    "Meter",
    "StageRecord",
    "read_bundle",
    "write_bundle",
]
