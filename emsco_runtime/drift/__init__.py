"""Drift of a working cascade away from what its bundle expects: monitor, figures, evidence, gauges."""

from typing import TYPE_CHECKING

from emsco_runtime.support.lazy_names import lazy_names

if TYPE_CHECKING:
    from emsco_runtime.drift.figures import ExpectedConfidence as ExpectedConfidence
    from emsco_runtime.drift.monitor import DriftMonitor as DriftMonitor
    from emsco_runtime.drift.status import (
        DriftReading as DriftReading,
        DriftState as DriftState,
        DriftStatus as DriftStatus,
        FigureReading as FigureReading,
        FigureStatus as FigureStatus,
        Finding as Finding,
        Outside as Outside,
    )

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "emsco_runtime.drift.figures": "ExpectedConfidence",
        "emsco_runtime.drift.monitor": "DriftMonitor",
        "emsco_runtime.drift.status": "DriftReading DriftState DriftStatus FigureReading FigureStatus Finding Outside",
    },
)
