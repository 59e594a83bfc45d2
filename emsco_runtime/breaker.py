"""Circuit breakers. Its home is `emsco_runtime.sources.breaker`."""

from emsco_runtime.sources.breaker import *  # noqa: F403
from emsco_runtime.sources.breaker import __all__  # noqa: F401
