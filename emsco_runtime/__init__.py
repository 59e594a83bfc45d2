"""emsco's runtime: decide items with a bundle, acquiring features lazily, stage by stage.

``docs/ARCHITECTURE.md`` describes the subpackages, from the top down.

What needs an extra is imported from its module: `emsco_runtime.metrics.Metrics` and `SourceGauges`,
`emsco_runtime.drift_metrics.DriftGauges` (extra ``metrics``), `emsco_runtime.tracing.DecisionTracer` (extra ``otel``).

Nothing here imports `emsco_train`. Importing this package is quick: a name is loaded when it is first used, so that the commands
answer `--help` at once, and onnxruntime is loaded by the first cascade.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emsco_runtime.support.lazy_names import lazy_names

if TYPE_CHECKING:
    from emsco_runtime.acquirers import Acquirers as Acquirers
    from emsco_runtime.bundle.manifest import Manifest as Manifest
    from emsco_runtime.bundle.meter import Meter as Meter
    from emsco_runtime.bundle.model_folder import ModelFolder as ModelFolder, write_model_index as write_model_index
    from emsco_runtime.bundle.publish import sign_bundle as sign_bundle, write_bundle as write_bundle
    from emsco_runtime.bundle.reading import Bundle as Bundle, read_bundle as read_bundle
    from emsco_runtime.cascade import Cascade as Cascade
    from emsco_runtime.decider import Decider as Decider
    from emsco_runtime.decision import Decision as Decision, Failure as Failure, StageRecord as StageRecord
    from emsco_runtime.drift.monitor import DriftMonitor as DriftMonitor
    from emsco_runtime.driving.columns import ColumnDecisions as ColumnDecisions
    from emsco_runtime.errors import *  # noqa: F403
    from emsco_runtime.observing.audit_log import AuditWriter as AuditWriter
    from emsco_runtime.observing.logs import DecisionLogger as DecisionLogger
    from emsco_runtime.observing.observers import AcquirerCall as AcquirerCall, Observer as Observer
    from emsco_runtime.serving.reloading import ReloadingCascade as ReloadingCascade
    from emsco_runtime.serving.shadow import Shadow as Shadow
    from emsco_runtime.sources.breaker import CircuitBreaker as CircuitBreaker
    from emsco_runtime.sources.cache import AcquirerCache as AcquirerCache
    from emsco_runtime.sources.pool import AcquirerPool as AcquirerPool

__version__ = "0.1.0.dev0"

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "emsco_runtime.acquirers": "Acquirers",
        "emsco_runtime.bundle.manifest": "Manifest",
        "emsco_runtime.bundle.meter": "Meter",
        "emsco_runtime.bundle.model_folder": "ModelFolder write_model_index",
        "emsco_runtime.bundle.publish": "sign_bundle write_bundle",
        "emsco_runtime.bundle.reading": "Bundle read_bundle",
        "emsco_runtime.cascade": "Cascade",
        "emsco_runtime.decider": "Decider",
        "emsco_runtime.decision": "Decision Failure StageRecord",
        "emsco_runtime.drift.monitor": "DriftMonitor",
        "emsco_runtime.driving.columns": "ColumnDecisions",
        "emsco_runtime.errors": "AcquisitionError BindError BundleError BundleVersionError ClosedError EmscoError InputError",
        "emsco_runtime.observing.audit_log": "AuditWriter",
        "emsco_runtime.observing.logs": "DecisionLogger",
        "emsco_runtime.observing.observers": "AcquirerCall Observer",
        "emsco_runtime.serving.reloading": "ReloadingCascade",
        "emsco_runtime.serving.shadow": "Shadow",
        "emsco_runtime.sources.breaker": "CircuitBreaker",
        "emsco_runtime.sources.cache": "AcquirerCache",
        "emsco_runtime.sources.pool": "AcquirerPool",
    },
)
