"""One call of an acquirer in the calling thread, through its guard."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from emsco_runtime._encoding import ValueFault
from emsco_runtime._guard import Cached, Guard
from emsco_runtime._walk import Failed

if TYPE_CHECKING:
    from emsco_runtime._plan import Call

__all__ = ["UNGUARDED", "call_here", "plain"]

# Without a cache nobody asks whether an outcome is sound.
UNGUARDED = Guard(None, None, None, bool)


def call_here(call: Call, item: Any) -> Any:
    """Return the outcome: what the acquirer or its cache gave, or `Failed`."""
    guard = call.guard or UNGUARDED
    try:
        opened = guard.open(item)
    except Exception as error:  # noqa: BLE001 - a failure like any other
        return Failed(error)
    if isinstance(opened, Cached):
        return opened
    try:
        outcome = plain(call.function(item))
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
        guard.broke()
        return Failed(error)
    except BaseException:
        guard.left()
        raise
    guard.took(opened, outcome)
    return outcome


def plain(outcome: Any) -> Any:
    """Refuse a coroutine that a plain function has handed on: nobody would await it."""
    if inspect.iscoroutine(outcome):
        outcome.close()
        raise ValueFault("wrong_type", "its acquirer returned a coroutine: write it as `async def`, and use decide_async")
    return outcome
