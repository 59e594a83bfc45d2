"""Who is notified of each decision. Its home is `emsco_runtime.observing.observers`."""

from emsco_runtime.observing.observers import *  # noqa: F403
from emsco_runtime.observing.observers import __all__  # noqa: F401
