"""Observers, which are notified of each decision. Public import path of `emsco_runtime.observing.observers`."""

from emsco_runtime.observing.observers import *  # noqa: F403
from emsco_runtime.observing.observers import __all__  # noqa: F401
