"""`read_in_thread`: read a message in a thread, so that a large one does not block the event loop.

A small message is read in the event loop itself, which is quicker than going to a thread and back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from spam_filter.message.mail import Mail

__all__ = ["read_in_thread"]

_Result = TypeVar("_Result")
_SMALL: Final = 16_384


async def read_in_thread(read: Callable[[Mail], _Result], mail: Mail) -> _Result:
    """Return the result of a function that reads a message.

    Parameters
    ----------
    read
        Plain code, of bounded work per byte.
    mail
        The message.
    """
    return read(mail) if len(mail.raw) <= _SMALL else await asyncio.to_thread(read, mail)
