"""`read_off_loop`: what is read of a message, in a thread unless the message is small.

A hop to a thread and back takes longer than reading a small message, whatever its bytes are; a large one would hold up the event
loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from spam_filter.message.mail import Mail

__all__ = ["read_off_loop"]

_Result = TypeVar("_Result")
_SMALL: Final = 16_384


async def read_off_loop(read: Callable[[Mail], _Result], mail: Mail) -> _Result:
    """Return what a function reads of a message.

    Parameters
    ----------
    read
        Plain code, of bounded work per byte.
    mail
        The message.
    """
    return read(mail) if len(mail.raw) <= _SMALL else await asyncio.to_thread(read, mail)
