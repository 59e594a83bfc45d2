"""Series of Prometheus metrics that are no longer true."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

__all__ = ["LabelledGauge", "remove_series"]


class _Child(Protocol):
    def set(self, value: float) -> None: ...


class LabelledGauge(Protocol):
    """A gauge of prometheus_client, which has no types of its own where it is not installed."""

    def labels(self, *values: str) -> _Child:
        """Return the series of these values."""

    def remove(self, *values: str) -> None:
        """Remove the series of these values."""


def remove_series(gauge: LabelledGauge, labels: Sequence[str], last: float) -> None:
    """Remove a series; where several processes share their metrics that cannot be done, and it gets a last value instead."""
    gauge.labels(*labels).set(last)
    if not {"PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"} & os.environ.keys():
        gauge.remove(*labels)
