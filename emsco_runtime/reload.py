"""A cascade whose bundle is replaced while it works. Public import path of `emsco_runtime.serving.reloading`."""

from emsco_runtime.serving.reloading import *  # noqa: F403
from emsco_runtime.serving.reloading import __all__  # noqa: F401
