"""The cost function. Public import path of `emsco_runtime.bundle.meter`."""

from emsco_runtime.bundle.meter import *  # noqa: F403
from emsco_runtime.bundle.meter import __all__  # noqa: F401
