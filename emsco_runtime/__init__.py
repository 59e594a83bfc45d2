"""emsco's runtime: decide items with a bundle, acquiring features lazily, stage by stage.

The way of an item, one module each::

    acquirers    the user's callables, in a registry
    bundle       read and audit the folder; manifest: its models; publish: write it atomically
    _plan        bind the two: who serves which feature at which stage, every fault listed at once
    _walk        the control flow of a cascade, without input or output
    _drivers     pump the walk: one item, many in step;  _columns: whole tables;  _pooled: in threads;  _async: as a coroutine
    pool         threads for plain acquirers;  breaker, cache: what guards a source;  _guard: both, and the time-out
    _scorer      onnxruntime: probabilities
    _rule        accept or go on;  meter: what it costs
    decision     what happened, with its bill
    cascade      the face of it all;  decider: its type, and that of whatever else decides
    observers    who is told of each decision: logs, audit, metrics, tracing, drift;  drift_metrics: drift as metrics
    reload       a cascade whose bundle is replaced while it works;  shadow: a second bundle, compared

What an extra brings is imported by its own name: `emsco_runtime.metrics.Metrics` and `SourceGauges`,
`emsco_runtime.drift_metrics.DriftGauges` (extra ``metrics``), `emsco_runtime.tracing.DecisionTracer` (extra ``otel``).

Nothing here imports `emsco_train`. Importing this package is quick: a name is loaded when it is first used, so that the commands
answer `--help` at once, and onnxruntime is loaded by the first cascade.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emsco_runtime._columns import ColumnDecisions
    from emsco_runtime.acquirers import Acquirers
    from emsco_runtime.audit import AuditWriter
    from emsco_runtime.breaker import CircuitBreaker
    from emsco_runtime.bundle import Bundle, read_bundle
    from emsco_runtime.cache import AcquirerCache
    from emsco_runtime.cascade import Cascade
    from emsco_runtime.decider import Decider
    from emsco_runtime.decision import Decision, Failure, StageRecord
    from emsco_runtime.drift import DriftMonitor
    from emsco_runtime.errors import (
        AcquisitionError,
        BindError,
        BundleError,
        BundleVersionError,
        ClosedError,
        EmscoError,
        InputError,
    )
    from emsco_runtime.logs import DecisionLogger
    from emsco_runtime.manifest import Manifest
    from emsco_runtime.meter import Meter
    from emsco_runtime.observers import AcquirerCall, Observer
    from emsco_runtime.pool import AcquirerPool
    from emsco_runtime.publish import write_bundle
    from emsco_runtime.reload import ReloadingCascade
    from emsco_runtime.shadow import Shadow

__version__ = "0.1.0.dev0"

__all__ = [
    "AcquirerCache",
    "AcquirerCall",
    "AcquirerPool",
    "Acquirers",
    "AcquisitionError",
    "AuditWriter",
    "BindError",
    "Bundle",
    "BundleError",
    "BundleVersionError",
    "Cascade",
    "CircuitBreaker",
    "ClosedError",
    "ColumnDecisions",
    "Decider",
    "Decision",
    "DecisionLogger",
    "DriftMonitor",
    "EmscoError",
    "Failure",
    "InputError",
    "Manifest",
    "Meter",
    "Observer",
    "ReloadingCascade",
    "Shadow",
    "StageRecord",
    "read_bundle",
    "write_bundle",
]

_MODULES = {
    "AcquirerCache": "emsco_runtime.cache",
    "AcquirerCall": "emsco_runtime.observers",
    "AcquirerPool": "emsco_runtime.pool",
    "Acquirers": "emsco_runtime.acquirers",
    "AcquisitionError": "emsco_runtime.errors",
    "AuditWriter": "emsco_runtime.audit",
    "BindError": "emsco_runtime.errors",
    "Bundle": "emsco_runtime.bundle",
    "BundleError": "emsco_runtime.errors",
    "BundleVersionError": "emsco_runtime.errors",
    "Cascade": "emsco_runtime.cascade",
    "CircuitBreaker": "emsco_runtime.breaker",
    "ClosedError": "emsco_runtime.errors",
    "ColumnDecisions": "emsco_runtime._columns",
    "Decider": "emsco_runtime.decider",
    "Decision": "emsco_runtime.decision",
    "DecisionLogger": "emsco_runtime.logs",
    "DriftMonitor": "emsco_runtime.drift",
    "EmscoError": "emsco_runtime.errors",
    "Failure": "emsco_runtime.decision",
    "InputError": "emsco_runtime.errors",
    "Manifest": "emsco_runtime.manifest",
    "Meter": "emsco_runtime.meter",
    "Observer": "emsco_runtime.observers",
    "ReloadingCascade": "emsco_runtime.reload",
    "Shadow": "emsco_runtime.shadow",
    "StageRecord": "emsco_runtime.decision",
    "read_bundle": "emsco_runtime.bundle",
    "write_bundle": "emsco_runtime.publish",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'emsco_runtime' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
