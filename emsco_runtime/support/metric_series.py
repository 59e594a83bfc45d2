"""Prometheus metrics: registered once, and series of them that no longer apply."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from emsco_runtime.errors import InputError

__all__ = ["register_collector", "remove_series"]


def register_collector(registry: Any, collector: Any) -> None:
    """Register a collector, which describes its metrics; raise `InputError` if some have names that are registered already."""
    try:
        registry.register(collector)
    except ValueError:
        what = f"put all that is to be shown into one {type(collector).__name__}, or give another `prefix` or `registry`"
        raise InputError(f"the registry has metrics of these names already: {what}") from None


def remove_series(gauge: Any, labels: Sequence[str], last: float) -> None:
    """Remove a series; where several processes share their metrics that is impossible, and it gets a last value instead."""
    gauge.labels(*labels).set(last)
    if not {"PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"} & os.environ.keys():
        gauge.remove(*labels)
