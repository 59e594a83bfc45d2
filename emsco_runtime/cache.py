"""Caches of acquirers' answers. Public import path of `emsco_runtime.sources.cache`."""

from emsco_runtime.sources.cache import *  # noqa: F403
from emsco_runtime.sources.cache import __all__  # noqa: F401
