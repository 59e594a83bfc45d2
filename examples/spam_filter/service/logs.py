"""The log of the service: lines on standard error, for whatever runs it to keep."""

from __future__ import annotations

import logging

__all__ = ["set_up_logging"]


def set_up_logging(line: str) -> None:
    """Log lines in this form."""
    logging.basicConfig(level=logging.INFO, format=line)
    # Every message has a line; these would be looked up for each, and are not in it.
    logging.logThreads = False
    logging.logMultiprocessing = False
    logging._srcfile = None  # noqa: SLF001 - as the documentation of logging says
