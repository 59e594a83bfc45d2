"""Drift of a working cascade away from what its bundle expects: monitor, figures, evidence, gauges."""

from typing import TYPE_CHECKING

from emsco_runtime.support.lazy_names import lazy_names

if TYPE_CHECKING:
    from emsco_runtime.drift.monitor import (
        DriftMonitor as DriftMonitor,
        DriftReading as DriftReading,
        DriftState as DriftState,
        DriftStatus as DriftStatus,
        ExpectedConfidence as ExpectedConfidence,
        FigureReading as FigureReading,
        FigureStatus as FigureStatus,
        Finding as Finding,
        Outside as Outside,
    )

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "emsco_runtime.drift.monitor": "DriftMonitor DriftReading DriftState DriftStatus ExpectedConfidence "
        "FigureReading FigureStatus Finding Outside",
    },
)
