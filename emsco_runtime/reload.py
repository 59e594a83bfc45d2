"""A cascade whose bundle is replaced while it works. Its home is `emsco_runtime.serving.reloading`."""

from emsco_runtime.serving.reloading import *  # noqa: F403
from emsco_runtime.serving.reloading import __all__  # noqa: F401
