"""Drift of a working cascade away from what its bundle expects: monitor, figures, evidence, gauges."""

from emsco_runtime.drift.figures import ExpectedConfidence
from emsco_runtime.drift.monitor import DriftMonitor
from emsco_runtime.drift.status import DriftReading, DriftState, DriftStatus, FigureReading, FigureStatus, Finding, Outside

__all__ = [
    "DriftMonitor",
    "DriftReading",
    "DriftState",
    "DriftStatus",
    "ExpectedConfidence",
    "FigureReading",
    "FigureStatus",
    "Finding",
    "Outside",
]
