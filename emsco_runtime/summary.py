"""Figures and texts about bundles and decisions. Public import path of `emsco_runtime.bundle.summary`."""

from emsco_runtime.bundle.summary import *  # noqa: F403
from emsco_runtime.bundle.summary import __all__  # noqa: F401
