"""A plan whose calls of acquirers are timed, for observers that want to know.

The functions are wrapped when a cascade is bound, after all checks were made on the user's own ones; without such an observer the
plan stays as it is, and costs what it did.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from emsco_runtime.bundle.encoding import ValueFault
from emsco_runtime.engine.plan import AcquireRequest, Call, ItemKeyReader, Plan
from emsco_runtime.observing.observers import AcquirerCall, CallOutcome, Observers

if TYPE_CHECKING:
    from collections.abc import Awaitable

__all__ = ["time_calls"]

_Notify = Callable[[AcquirerCall], None]


def time_calls(plan: Plan, observers: Observers) -> Plan:
    """Return the plan with functions that tell the observers of each call; the plan itself, if none of them asks for it.

    Where items are mappings there are no acquirers, and reading a key is not told.
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
    wrap = _wrap_async if call.is_async else _wrap_batch if call.batch else _wrap_plain
    return replace(call, function=wrap(call.function, call.names, notify, bundle))


# Three wrappers, not one that asks what it is: this is added to every call, and some acquirers take less than a microsecond.


def _wrap_plain(function: Callable[[Any], Any], names: tuple[str, ...], notify: _Notify, bundle: str) -> Callable[[Any], Any]:
    clock, new_tuple = time.perf_counter, tuple.__new__

    def call(item: Any) -> Any:
        started = clock()
        try:
            value = function(item)
        except BaseException as error:
            notify(AcquirerCall(names, clock() - started, _outcome_of_error(error), 1, bundle))
            raise
        notify(new_tuple(AcquirerCall, (names, clock() - started, "ok", 1, bundle)))
        return value

    return call


def _wrap_batch(function: Callable[[Any], Any], names: tuple[str, ...], notify: _Notify, bundle: str) -> Callable[[Any], Any]:
    def call(items: Any) -> Any:
        started = time.perf_counter()
        try:
            values = function(items)
        except BaseException as error:
            notify(AcquirerCall(names, time.perf_counter() - started, _outcome_of_error(error), len(items), bundle))
            raise
        notify(AcquirerCall(names, time.perf_counter() - started, "ok", len(items), bundle))
        return values

    return call


def _wrap_async(
    function: Callable[[Any], Any], names: tuple[str, ...], notify: _Notify, bundle: str
) -> Callable[[Any], Awaitable[Any]]:
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
