"""The log of the service: lines on standard error, for whatever runs it to keep."""

from __future__ import annotations

import logging

__all__ = ["set_up_logging"]


def set_up_logging(line: str) -> None:
    """Log lines in this form, and none of aiosmtpd's, which repeats the conversation, addresses included."""
    logging.basicConfig(level=logging.INFO, format=line)
    logging.getLogger("mail.log").setLevel(logging.WARNING)
