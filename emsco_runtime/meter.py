"""The cost function. Its home is `emsco_runtime.bundle.meter`."""

from emsco_runtime.bundle.meter import *  # noqa: F403
from emsco_runtime.bundle.meter import __all__  # noqa: F401
