"""Decisions as log records. Public import path of `emsco_runtime.observing.logs`."""

from emsco_runtime.observing.logs import *  # noqa: F403
from emsco_runtime.observing.logs import __all__  # noqa: F401
