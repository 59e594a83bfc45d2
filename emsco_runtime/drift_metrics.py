"""Drift as Prometheus metrics; needs the extra ``metrics``. Public import path of `emsco_runtime.drift.gauges`."""

from emsco_runtime.drift.gauges import *  # noqa: F403
from emsco_runtime.drift.gauges import __all__  # noqa: F401
