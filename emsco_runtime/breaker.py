"""Circuit breakers. Public import path of `emsco_runtime.sources.breaker`."""

from emsco_runtime.sources.breaker import *  # noqa: F403
from emsco_runtime.sources.breaker import __all__  # noqa: F401
