"""Series of Prometheus metrics that no longer apply."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

__all__ = ["remove_series"]


def remove_series(gauge: Any, labels: Sequence[str], last: float) -> None:
    """Remove a series; where several processes share their metrics that is impossible, and it gets a last value instead."""
    gauge.labels(*labels).set(last)
    if not {"PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"} & os.environ.keys():
        gauge.remove(*labels)
