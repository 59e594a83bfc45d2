"""`AcquirerPool`: threads for synchronous acquirers, so that those of a stage run in parallel and timeouts can end the wait.

A thread cannot be stopped from outside. A call that outlives its timeout is *abandoned*: its result is discarded and a new
thread takes its place, up to `max_abandoned` of them. Beyond that calls are refused at once, new ones and those that wait for a
thread, with the kind "refused", until abandoned ones end. The threads are daemons: one that hangs does not keep the process from
ending.

A call may decide with a cascade that uses the same pool. While it waits for the calls of that decision its slot is free for
another one, so that nested decisions do not deadlock, however few threads there are; their calls go first.

A call has the context variables of its caller, so that tracing and logging know whose call it is; what it sets itself is not
seen outside.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from emsco_runtime.errors import InputError
from emsco_runtime.support.arguments import check_count, check_seconds, is_number
from emsco_runtime.support.done_event import WaitableFuture
from emsco_runtime.support.fork import PickledBySettings
from emsco_runtime.support.formatting import format_value

__all__ = ["AcquirerPool", "CallScope", "PoolCall", "PoolCounts", "PoolFull", "released_slot"]

_IDLE_S = 30.0


class PoolFull(Exception):
    """No call is accepted: as many as allowed were abandoned and still run."""


class PoolCounts(NamedTuple):
    """Threads that run, calls that wait for one, calls that were abandoned and still run, and calls abandoned in all."""

    threads: int
    waiting: int
    abandoned: int
    abandoned_ever: int


@dataclass(slots=True, eq=False)
class CallScope:
    """Calls that are wanted together, to a deadline by `time.perf_counter`, or until the thread that submitted them has ended.

    Those that still wait for a thread by then are not started: a thread may be free at the moment in which they are given up.
    """

    deadline: float = math.inf
    ended: bool = False

    @property
    def is_over(self) -> bool:
        """Return whether no call of it is to begin any more."""
        return self.ended or time.perf_counter() >= self.deadline


class PoolCall(WaitableFuture):
    """One call in a pool, or without a pool: then its caller runs it."""

    def __init__(
        self,
        function: Callable[[Any], Any],
        item: Any,
        pool: AcquirerPool | None = None,
        scope: CallScope | None = None,
    ) -> None:
        super().__init__()
        self.function = function
        self.item = item
        self.pool = pool
        self.scope = scope
        # The call inside which this one was submitted.
        self.parent = _current_call.get()
        # How many waits for other calls are running inside it.
        self.nested_waits = 0
        # A copy for each call: one context cannot be entered by two threads at the same time.
        self.context = contextvars.copy_context()
        self.started: float | None = None
        self.abandoned = False

    def run(self) -> None:
        """Make the call; what it raises is its result."""
        self.started = time.perf_counter()
        try:
            result = self.context.run(self._run)
        except BaseException as error:  # noqa: BLE001 - raised where the result is read
            self.set_exception(error)
        else:
            self.set_result(result)

    def _run(self) -> Any:
        token = _current_call.set(self)
        try:
            return self.function(self.item)
        finally:
            # The call keeps its context, which must not keep the call.
            _current_call.reset(token)

    @property
    def was_refused(self) -> bool:
        """Return whether it ended without a thread, since too many calls were abandoned while it waited."""
        return self.started is None and self.done() and not self.cancelled()

    def is_nested_in(self, pool: AcquirerPool) -> bool:
        """Return whether it was submitted from inside a call of this pool."""
        parent = self.parent
        while parent is not None:
            if parent.pool is pool and not parent.done():
                return True
            parent = parent.parent
        return False


# The call inside which some code runs; a context variable, so that event loops and tasks started inside it know it too.
_current_call: contextvars.ContextVar[PoolCall | None] = contextvars.ContextVar("emsco_running_call", default=None)


@contextlib.contextmanager
def released_slot() -> Iterator[None]:
    """Release the slot of the call inside which this code runs, if there is one, while it waits for another call."""
    call = _current_call.get()
    pool = None if call is None else call.pool
    if call is None or pool is None:
        yield
        return
    released = pool.release_slot(call)
    try:
        yield
    finally:
        if released:
            pool.reacquire_slot(call)


class AcquirerPool(PickledBySettings[tuple[int, int]]):
    """A bounded pool of daemon threads; may be shared by several cascades.

    Parameters
    ----------
    threads
        Calls that run at the same time; abandoned ones, and those that wait for calls of their own, are not counted.
    max_abandoned
        Abandoned calls that may still run; once there are this many, new ones are refused.

    Examples
    --------
    >>> pool = AcquirerPool(threads=2)
    >>> [call.result() for call in [pool.submit(len, "one"), pool.submit(len, "three")]]
    [3, 5]
    """

    def __init__(self, threads: int = 16, *, max_abandoned: int = 16) -> None:
        check_count("threads", threads)
        check_count("max_abandoned", max_abandoned, 0)
        self._settings = (threads, max_abandoned)
        self._start()

    def reset_after_fork(self) -> None:
        """Start over without threads and calls: they belong to their process."""
        self._max_threads, self._max_abandoned = self._settings
        self._condition = threading.Condition()
        self._waiting: deque[PoolCall] = deque()
        self._threads = self._idle = self._blocked = 0
        self._abandoned = self._abandoned_ever = 0
        self._close_count = 0

    @property
    def counts(self) -> PoolCounts:
        """Return what the pool is doing."""
        with self._condition:
            return PoolCounts(self._threads, len(self._waiting), self._abandoned, self._abandoned_ever)

    def close(self) -> None:
        """Let the threads end: those that are idle at once, the others when no call waits for them.

        Calls that run or wait are still made. The pool can be used again, and then starts new threads.
        """
        with self._condition:
            self._close_count += 1
            self._condition.notify_all()

    def submit(self, function: Callable[[Any], Any], item: Any, scope: CallScope | None = None) -> PoolCall:
        """Submit a call. One that waits for a thread is cancelled if its scope is over, and raises `PoolFull` if it is refused.

        Raises
        ------
        PoolFull
            If too many abandoned calls still run, or no thread can be started.
        """
        call = PoolCall(function, item, self, scope)
        with self._condition:
            if self._abandoned and self._abandoned >= self._max_abandoned:
                raise self._make_full_error()
            if call.is_nested_in(self):
                # First: otherwise those before it might all start, and wait for calls behind them.
                self._waiting.appendleft(call)
            else:
                self._waiting.append(call)
            error = self._find_thread()
            if error is not None:
                # It might never run.
                self._waiting.remove(call)
                raise error
        return call

    async def call_async(
        self, function: Callable[[Any], Any], item: Any, *, timeout_s: float, hold_s: float | None = None
    ) -> Any:
        """Make one call in a thread, and wait for it in an event loop, for so long at most.

        A call that takes longer is abandoned as a whole, whatever it does: ``await pool.call_async(cascade.decide, item,
        timeout_s=0.5)`` is one deadline for a whole decision, at the price of one call in a thread. ``decide(item,
        deadline_s=0.5)`` returns what it knows by then, at the price of one call for each acquirer.

        Parameters
        ----------
        function, item
            As in `submit`.
        timeout_s
            How long to wait, from now.
        hold_s
            How long it may run before its slot is free for another call, while it goes on: where calls keep the processor busy, a
            pool of one thread is quickest, and so a long one does not hold up the others. None: to its end. Not while
            `max_abandoned` calls run without a slot already: then the others wait for it.

        Raises
        ------
        TimeoutError
            If it takes longer.
        PoolFull
            As `submit`.
        InputError
            If a number of seconds is none.
        """
        # Before it is submitted: it would be made, though its caller gets an error.
        if not is_number(timeout_s, -math.inf, math.inf):
            raise InputError(f"timeout_s: expected a number of seconds, got {format_value(timeout_s)}")
        if hold_s is not None:
            check_seconds("hold_s", hold_s)
        call = self.submit(function, item)
        ended = call.add_event()
        end = time.perf_counter() + timeout_s
        released = False
        try:
            while not call.done() and (left := end - time.perf_counter()) > 0:
                if hold_s is None or released:
                    await _wait_for_event(ended, left)
                else:
                    await _wait_for_event(ended, min(left, _time_to_hold(call, hold_s)))
                    released = self.release_long_call(call, hold_s)
            if not call.done():
                raise TimeoutError(f"the call has not ended within {timeout_s:g} s")
            return call.result()
        finally:
            self.abandon(call)

    def abandon(self, call: PoolCall) -> None:
        """Abandon a call: one that has not started is removed, one that runs is no longer waited for."""
        with self._condition:
            if call.done() or call.abandoned:
                return
            if call.cancel():
                # Removed at once: where all threads are busy for long, abandoned calls would pile up.
                self._waiting.remove(call)
                return
            if call.nested_waits:
                self._blocked -= 1
            call.abandoned = True
            self._abandoned += 1
            self._abandoned_ever += 1
            if self._abandoned >= self._max_abandoned:
                self._refuse_waiting(self._make_full_error())
            # Its slot is free for waiting calls, which must not wait for one that hangs.
            self._refuse_waiting(self._find_thread())

    def _find_thread(self) -> PoolFull | None:
        """Wake a thread for the waiting calls, or start one; return why not, if there is none for them."""
        try:
            self._wake_or_start_thread()
        except RuntimeError as error:
            # The system starts no more threads. Those that count will do.
            if self._active <= 0:
                full = PoolFull(str(error))
                full.__cause__ = error
                return full
        return None

    def _refuse_waiting(self, error: PoolFull | None) -> None:
        while error is not None and self._waiting:
            call = self._waiting.popleft()
            # The holder of a call may have cancelled it.
            if call.set_running_or_notify_cancel():
                call.set_exception(error)

    def _make_full_error(self) -> PoolFull:
        return PoolFull(f"{self._abandoned} abandoned calls still run, {self._max_abandoned} are allowed")

    def release_slot(self, call: PoolCall) -> bool:
        """Note that a call waits for another one: its slot is free meanwhile; False if it has ended and has no slot."""
        with self._condition:
            if call.done():
                return False
            # Those that wait for a thread must not wait for a call that waits for them.
            self._refuse_waiting(self._free_slot(call))
            return True

    def _free_slot(self, call: PoolCall) -> PoolFull | None:
        """Count a wait inside a call, whose slot is free from the first one on; as `_find_thread`."""
        call.nested_waits += 1
        if call.nested_waits > 1 or call.abandoned:
            return None
        self._blocked += 1
        return self._find_thread()

    def reacquire_slot(self, call: PoolCall) -> None:
        """Note that a call has ended one of its waits."""
        with self._condition:
            call.nested_waits -= 1
            if call.nested_waits == 0 and not call.abandoned:
                self._blocked -= 1

    def release_long_call(self, call: PoolCall, hold_s: float) -> bool:
        """Release the slot of a call that has run for so long, as `call_async` does, and return whether it was released."""
        with self._condition:
            if call.started is None or time.perf_counter() - call.started < hold_s:
                return False
            if self._abandoned + self._blocked >= self._max_abandoned:
                return False
            if call.done():
                return False
            if self._free_slot(call) is None:
                return True
            # Those that wait have this thread when it ends, and are refused if that takes longer than its timeout.
            self.reacquire_slot(call)
            return False

    free_place, take_place = release_slot, reacquire_slot  # the public names

    @property
    def _active(self) -> int:
        """Threads that count: not those of abandoned calls, and of calls that wait for others."""
        return self._threads - self._abandoned - self._blocked

    def _wake_or_start_thread(self) -> None:
        """Wake a thread for the waiting calls, or start one; the caller holds the lock."""
        if self._idle:
            self._condition.notify()
        # A thread that was woken counts as idle until it has its call: so compare the numbers.
        if len(self._waiting) > self._idle and self._active < self._max_threads:
            threading.Thread(target=self._run_thread, name="emsco-acquirer", daemon=True).start()
            self._threads += 1

    def _run_thread(self) -> None:
        close_count = self._close_count
        while self._run_next_call(close_count):
            pass

    def _run_next_call(self, close_count: int) -> bool:
        """Make one call; a separate function, so that an idle thread keeps no item or result alive."""
        call = self._next_call(close_count)
        if call is None:
            return False
        call.run()
        with self._condition:
            # Under the lock: a call may be abandoned at the moment in which it ends.
            if call.abandoned:
                self._abandoned -= 1
            elif call.nested_waits:
                # It ran without its slot, which was let go for good, or for a wait that goes on.
                call.nested_waits = 0
                self._blocked -= 1
        return True

    def _next_call(self, close_count: int) -> PoolCall | None:
        """Return the next call, or None for a thread that is one too many, was idle for long, or is from before a `close`."""
        with self._condition:
            while self._active <= self._max_threads:
                while self._waiting:
                    call = self._waiting.popleft()
                    if call.scope is not None and call.scope.is_over:
                        call.cancel()
                    if call.set_running_or_notify_cancel():
                        return call
                if self._close_count != close_count:
                    break
                self._idle += 1
                woken = self._condition.wait(_IDLE_S)
                self._idle -= 1
                if not woken and not self._waiting:
                    break
            self._threads -= 1
            if self._waiting:
                # This one may have been woken for it, and another one may be idle.
                self._condition.notify()
            return None


def _time_to_hold(call: PoolCall, hold_s: float) -> float:
    """Return for how long a call may still hold its slot, or, if that is over, when to look again."""
    if call.started is None:
        return hold_s
    left = call.started + hold_s - time.perf_counter()
    return left if left > 0 else hold_s


async def _wait_for_event(ended: asyncio.Event, seconds: float) -> None:
    """Wait for an event, so long at most; `asyncio.wait` of a wrapped future does the same and costs half as much again."""
    timer = asyncio.get_running_loop().call_later(seconds, ended.set)
    try:
        await ended.wait()
    finally:
        timer.cancel()
    # Set by the timer, or by a call that is done: the next one to wait looks at that first.
    ended.clear()
