"""The models of a bundle's manifest. Public import path of `emsco_runtime.bundle.manifest`."""

from emsco_runtime.bundle.manifest import *  # noqa: F403
from emsco_runtime.bundle.manifest import __all__  # noqa: F401
