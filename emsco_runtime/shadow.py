"""A second bundle, compared. Public import path of `emsco_runtime.serving.shadow`."""

from emsco_runtime.serving.shadow import *  # noqa: F403
from emsco_runtime.serving.shadow import __all__  # noqa: F401
