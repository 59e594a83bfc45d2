"""Write a bundle atomically. Public import path of `emsco_runtime.bundle.publish`."""

from emsco_runtime.bundle.publish import *  # noqa: F403
from emsco_runtime.bundle.publish import __all__  # noqa: F401
