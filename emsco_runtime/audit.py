"""Append every decision to a file. Public import path of `emsco_runtime.observing.audit_log`."""

from emsco_runtime.observing.audit_log import *  # noqa: F403
from emsco_runtime.observing.audit_log import __all__  # noqa: F401
