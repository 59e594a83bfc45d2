"""A plan whose calls of acquirers are timed, for observers that have ``on_call``.

The functions are wrapped when a cascade is bound, after all checks of the user's own ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from emsco_runtime.bundle.encoding import ValueFault
from emsco_runtime.engine.plan import AcquireRequest, Call, ItemKeyReader, Plan
from emsco_runtime.observing.observers import AcquirerCall, CallOutcome, Observers

__all__ = ["time_calls"]

_Notify = Callable[[AcquirerCall], None]


def time_calls(plan: Plan, observers: Observers) -> Plan:
    """Return the plan with functions that notify the observers of each call; the plan itself, if none of them has ``on_call``.

    Where items are mappings there are no acquirers, and reading a key is not a call.
    """
    if not observers.wants_calls:
        return plan
    notify = observers.notify_call
    by_rank = {
        call.rank: call if isinstance(call.function, ItemKeyReader) else replace(call, function=_wrap(call, notify, plan.bundle))
        for call in plan.calls.values()
    }
    return replace(
        plan,
        calls={name: by_rank[call.rank] for name, call in plan.calls.items()},
        stages=tuple(
            replace(stage, acquire=AcquireRequest.from_calls(by_rank[call.rank] for call in stage.acquire.calls))
            for stage in plan.stages
        ),
    )


def _wrap(timed: Call, notify: _Notify, bundle: str) -> Callable[[Any], Any]:
    # Local variables: this is added to every call, and some acquirers take less than a microsecond.
    function, names, batch = timed.function, timed.names, timed.batch
    clock, new_tuple = time.perf_counter, tuple.__new__

    def call(item: Any) -> Any:
        started = clock()
        try:
            value = function(item)
        except BaseException as error:
            notify(AcquirerCall(names, clock() - started, _outcome_of_error(error), len(item) if batch else 1, bundle))
            raise
        notify(new_tuple(AcquirerCall, (names, clock() - started, "ok", len(item) if batch else 1, bundle)))
        return value

    async def call_async(item: Any) -> Any:
        started = clock()
        try:
            value = await function(item)
        except BaseException as error:
            notify(AcquirerCall(names, clock() - started, _outcome_of_error(error), 1, bundle))
            raise
        notify(AcquirerCall(names, clock() - started, "ok", 1, bundle))
        return value

    return call_async if timed.is_async else call


def _outcome_of_error(error: BaseException) -> CallOutcome:
    if isinstance(error, ValueFault):
        return error.kind
    return "exception" if isinstance(error, Exception) else "cancelled"
