"""A second bundle, compared. Its home is `emsco_runtime.serving.shadow`."""

from emsco_runtime.serving.shadow import *  # noqa: F403
from emsco_runtime.serving.shadow import __all__  # noqa: F401
