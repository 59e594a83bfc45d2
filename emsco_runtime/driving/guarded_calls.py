"""`GuardedCall`: one call of an acquirer through its guard, for every driver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from emsco_runtime.bundle.encoding import ValueFault
from emsco_runtime.engine.outcomes import reject_coroutine
from emsco_runtime.engine.plan import Call
from emsco_runtime.engine.walk import NOT_DONE, Failed
from emsco_runtime.sources.guard import CallTicket, JoinedCall
from emsco_runtime.sources.pool import AcquirerPool, CallScope, PoolCall, PoolFull

__all__ = ["GuardedCall"]

# Of a call that is not made: its guard has nothing to end.
_NO_TICKET = CallTicket(None, None)


class GuardedCall:
    """One call of an acquirer for one item, and the only place that notes in its guard how it went.

    After `begin` it has an `outcome`, or it has `joined` a call that is under way elsewhere and must wait for that one, or the
    driver makes the call, with `run`, `submit` or a coroutine, and ends it.
    """

    __slots__ = ("call", "item", "joined", "outcome", "pool_call", "ticket")

    def __init__(self, call: Call, item: Any) -> None:
        self.call = call
        self.item = item
        self.outcome: Any = NOT_DONE
        self.ticket = _NO_TICKET
        self.joined: JoinedCall | None = None
        self.pool_call: PoolCall | None = None

    def begin(self, *, blocking: bool) -> None:
        """Begin it, or begin it again after `finish_joined` had no outcome.

        A `blocking` driver holds its thread while it waits. In the thread of an event loop it joins no call: that one may need
        the loop to end.
        """
        try:
            started = self.call.guard.begin(self.item)
            if blocking and isinstance(started, JoinedCall) and _in_event_loop():
                started = self.call.guard.begin(self.item, never_wait=True)
        except Exception as error:  # noqa: BLE001 - an open breaker, or a key function that raised
            self.outcome = Failed(error)
            return
        if isinstance(started, CallTicket):
            self.ticket = started
        elif isinstance(started, JoinedCall):
            self.joined = started
        else:
            self.outcome = started

    def _runner(self) -> Callable[[Any], Any]:
        """Return the function of a plain acquirer, which also hands its answer to those who joined the call."""
        # It holds no reference to this object, which holds the pool's call and with it the function.
        function, guard, ticket, flight = self.call.function, self.call.guard, self.ticket, self.ticket.flight

        def run(item: Any) -> Any:
            # It may have waited for a thread while other calls failed.
            guard.check_breaker(ticket)
            try:
                answer = reject_coroutine(function(item))
            except Exception:
                guard.count_failure(ticket)
                raise
            guard.count_answer(ticket)
            return answer

        return run if flight is None else lambda item: flight.run(run, item)

    def run(self) -> Any:
        """Make the call in this thread unless it has an outcome, and return the outcome."""
        return self.outcome if self.ticket is _NO_TICKET else self.finish(self._runner(), self.item)

    def submit(self, pool: AcquirerPool, scope: CallScope) -> None:
        """Make the call in a pool unless it has an outcome or joined another; it fails if the pool is full."""
        if self.ticket is _NO_TICKET:
            return
        try:
            self.pool_call = pool.submit(self._runner(), self.item, scope)
        except PoolFull as error:
            self._refuse(error)
        except BaseException:
            self.cancel()
            raise

    def _refuse(self, error: BaseException | None) -> None:
        self.cancel()
        self.outcome = Failed(ValueFault("refused", f"the pool takes no more calls: {error}"))

    def finish_pool_call(self, call: PoolCall) -> Any:
        """End the call as it ended in the pool, and return its outcome; `NOT_DONE` if it was given up before it began."""
        if call.cancelled():
            self.cancel()
        elif call.was_refused:
            self._refuse(call.exception())
        else:
            return self.finish(call.result)
        return self.outcome

    def finish(self, result: Callable[..., Any], *arguments: Any) -> Any:
        """End the call as `result(*arguments)` does: return its outcome, which is `Failed` if it raises."""
        try:
            self.outcome = result(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a failed feature
            return self.fail(error)
        except BaseException:
            self.cancel()
            raise
        self.call.guard.succeeded(self.ticket, self.outcome)
        return self.outcome

    def fail(self, error: Exception) -> Failed:
        """End the call with an error, for those who joined it too."""
        self.call.guard.failed(self.ticket, error)
        outcome = self.outcome = Failed(error)
        return outcome

    def time_out(self) -> Failed:
        """End the call because it took too long."""
        return self.fail(ValueFault("timeout", f"its acquirer did not answer within {self.call.guard.timeout_s:g} s"))

    def finish_joined(self, joined: JoinedCall) -> Any:
        """Return the outcome of the joined call, which has ended; `NOT_DONE` if it was cancelled and must be started again."""
        self.joined = None
        if not joined.flight.cancelled():
            error = joined.flight.exception()
            self.outcome = Failed(error) if isinstance(error, Exception) else self.call.guard.read_joined(joined)
        return self.outcome

    def cancel(self) -> None:
        """Stop waiting for the call, unless it has ended: one of those who joined it makes it instead."""
        if self.outcome is NOT_DONE:
            self.call.guard.cancelled(self.ticket)
            self.ticket = _NO_TICKET


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
