"""A plan whose calls of acquirers are timed, for observers that have ``on_call``.

The functions are wrapped when a cascade is bound, after all checks of the user's own ones.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
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
    by_rank = {call.rank: _observe_call(call, observers.notify_call, plan.bundle) for call in plan.calls.values()}
    return replace(
        plan,
        calls={name: by_rank[call.rank] for name, call in plan.calls.items()},
        stages=tuple(
            replace(stage, acquire=AcquireRequest.from_calls(by_rank[call.rank] for call in stage.acquire.calls))
            for stage in plan.stages
        ),
    )


def _observe_call(call: Call, notify: _Notify, bundle: str) -> Call:
    if isinstance(call.function, ItemKeyReader):
        return call
    wrap = _wrap_async if call.is_async else _wrap_plain
    return replace(call, function=wrap(call, notify, bundle))


def _wrap_plain(timed: Call, notify: _Notify, bundle: str) -> Callable[[Any], Any]:
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

    return call


def _wrap_async(timed: Call, notify: _Notify, bundle: str) -> Callable[[Any], Awaitable[Any]]:
    function, names = timed.function, timed.names

    async def call(item: Any) -> Any:
        started = time.perf_counter()
        try:
            value = await function(item)
        except BaseException as error:
            notify(AcquirerCall(names, time.perf_counter() - started, _outcome_of_error(error), 1, bundle))
            raise
        notify(AcquirerCall(names, time.perf_counter() - started, "ok", 1, bundle))
        return value

    return call


def _outcome_of_error(error: BaseException) -> CallOutcome:
    if isinstance(error, ValueFault):
        return error.kind
    return "exception" if isinstance(error, Exception) else "cancelled"
