"""Threads for plain acquirers. Public import path of `emsco_runtime.sources.pool`."""

from emsco_runtime.sources.pool import *  # noqa: F403
from emsco_runtime.sources.pool import __all__  # noqa: F401
