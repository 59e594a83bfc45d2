"""A bundle and its side files as one unit. Public import path of `emsco_runtime.bundle.model_folder`."""

from emsco_runtime.bundle.model_folder import *  # noqa: F403
from emsco_runtime.bundle.model_folder import __all__  # noqa: F401
