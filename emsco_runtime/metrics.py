"""Prometheus metrics; needs the extra ``metrics``. Public import path of `emsco_runtime.observing.prometheus`."""

from emsco_runtime.observing.prometheus import *  # noqa: F403
from emsco_runtime.observing.prometheus import __all__  # noqa: F401
