"""One call of an acquirer in the calling thread, through its guard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emsco_runtime._batch import plain
from emsco_runtime._encoding import ValueFault
from emsco_runtime._guard import Cached, Guard, Opened
from emsco_runtime._walk import Failed

if TYPE_CHECKING:
    from emsco_runtime._plan import Call
    from emsco_runtime.pool import PoolFull

__all__ = ["UNGUARDED", "call_here", "open_call", "refused"]

# Without a cache nobody asks whether an outcome is sound.
UNGUARDED = Guard(None, None, None, bool)


def open_call(call: Call, item: Any) -> Opened | Cached | Failed:
    """Begin a call through its guard: it may be made, or its outcome is here already."""
    try:
        return (call.guard or UNGUARDED).open(item)
    except Exception as error:  # noqa: BLE001 - a failure like any other
        return Failed(error)


def refused(call: Call, opened: Opened, error: PoolFull) -> Failed:
    """End a call that was begun and that the pool does not take."""
    (call.guard or UNGUARDED).left(opened)
    return Failed(ValueFault("refused", f"the pool takes no more calls: {error}"))


def call_here(call: Call, item: Any) -> Any:
    """Return the outcome: what the acquirer or its cache gave, or `Failed`."""
    opened = open_call(call, item)
    if not isinstance(opened, Opened):
        return opened
    guard = call.guard or UNGUARDED
    try:
        outcome = plain(call.function(item))
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
        guard.broke(opened)
        return Failed(error)
    except BaseException:
        guard.left(opened)
        raise
    guard.took(opened, outcome)
    return outcome
