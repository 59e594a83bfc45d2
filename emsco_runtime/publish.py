"""Write a bundle atomically. Its home is `emsco_runtime.bundle.publish`."""

from emsco_runtime.bundle.publish import *  # noqa: F403
from emsco_runtime.bundle.publish import __all__  # noqa: F401
