"""OpenTelemetry spans; needs the extra ``otel``. Public import path of `emsco_runtime.observing.tracing`."""

from emsco_runtime.observing.tracing import *  # noqa: F403
from emsco_runtime.observing.tracing import __all__  # noqa: F401
