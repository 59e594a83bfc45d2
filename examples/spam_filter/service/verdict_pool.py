"""`VerdictPool`: verdicts for the event loop, from threads, each within its deadline.

A message is one call in a pool of threads, and abandoned as a whole at its deadline. `decide(deadline_s=...)` would keep it too,
but runs every acquirer as a separate call in such a pool: for some twenty acquirers of a few microseconds that adds
0.5 ms to the 0.7 ms of a decision.

Messages are decided one after the other: deciding is plain code that keeps the processor busy, and threads that take turns at it
would only slow each other down, by a sixth. One that takes long lets the next one begin, so that nobody waits for a few hostile
messages but their senders. While `threads` + 1 of them take long, the others wait for them, to their deadline.

A thread cannot be stopped. One that has missed its deadline is abandoned: its message is delivered at once, marked ``error``,
and a fresh thread takes its place. The pool counts the abandoned ones; when there are too many, it accepts no more calls, and
messages are marked ``error`` without waiting. So a source that hangs costs verdicts, never mail.

A model that asks the network is decided in the event loop itself, with the runtime's deadline around the whole call: messages
that wait for answers then take no threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from emsco_runtime.pool import AcquirerPool, PoolCall, PoolFull
from spam_filter.evidence.read_in_thread import read_in_thread
from spam_filter.message.mail import Envelope, Mail
from spam_filter.service.classification import MESSAGE_ID, ModelProtocol, asks_network, classify, classify_async
from spam_filter.service.sender_lists import SenderLists
from spam_filter.service.verdict import Verdict

__all__ = ["PendingVerdict", "VerdictPool"]

# Most messages take a few milliseconds.
_HOLD_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class _Message:
    message_id: str
    raw: bytes
    envelope: Envelope


class VerdictPool:
    """Decides messages in threads.

    Parameters
    ----------
    model
        The trained model.
    deadline_s
        Time for each message, from the moment that it is handed in.
    threads
        Messages that may take long at the same time. When as many have missed their deadline and are still being decided, no more
        are accepted.
    lists
        Have the last word; may be replaced at any time.
    """

    def __init__(self, model: ModelProtocol, deadline_s: float, threads: int, lists: SenderLists | None = None) -> None:
        self._model = model
        self._deadline_s = deadline_s
        self.lists = lists or SenderLists()
        self.pool = AcquirerPool(1, max_abandoned=threads)

    def begin(
        self, message_id: str, raw: bytes, envelope: Envelope, then: Callable[[Verdict], None]
    ) -> PendingVerdict | asyncio.Task[None]:
        """Begin to decide a message, and return what can be cancelled.

        `then` is called once: in the thread that has decided, which saves the way through the event loop, or in the loop at the
        deadline.
        """
        case = _Message(message_id, raw, envelope)
        if asks_network(self._model):
            return asyncio.ensure_future(self._pass_on(case, then))
        return PendingVerdict(self.pool, self._classify, case, self._deadline_s, then)

    async def verdict(self, message_id: str, raw: bytes, envelope: Envelope) -> Verdict:
        """Return the verdict on a message; never raises, and takes no longer than the deadline."""
        case = _Message(message_id, raw, envelope)
        if asks_network(self._model):
            return await self._classify_async(case)
        loop = asyncio.get_running_loop()
        decided: asyncio.Future[Verdict] = loop.create_future()

        def settle(verdict: Verdict) -> None:
            if not decided.done():
                decided.set_result(verdict)

        def report(verdict: Verdict) -> None:
            # The loop is closed when a decision outlives the service.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, verdict)

        pending = PendingVerdict(self.pool, self._classify, case, self._deadline_s, report)
        try:
            return await decided
        finally:
            pending.cancel()

    async def _pass_on(self, case: _Message, then: Callable[[Verdict], None]) -> None:
        then(await self._classify_async(case))

    async def _classify_async(self, case: _Message) -> Verdict:
        MESSAGE_ID.set(case.message_id)
        decided = await classify_async(self._model, case.raw, case.envelope, self._deadline_s)
        try:
            return await read_in_thread(partial(self.lists.apply, decided), Mail.parse(case.raw, case.envelope))
        except RuntimeError:
            # The system starts no more threads.
            return Verdict("error", note="refused")

    def _classify(self, case: _Message) -> Verdict:
        MESSAGE_ID.set(case.message_id)
        verdict = classify(self._model, case.raw, case.envelope, None)
        return self.lists.apply(verdict, Mail.parse(case.raw, case.envelope))


class _FirstVerdict:
    """Reports one verdict: the thread, the deadline and `cancel` may come at the same time, and the first of them counts."""

    def __init__(self, then: Callable[[Verdict], None]) -> None:
        self._then = then
        self._lock = threading.Lock()

    def claim(self) -> bool:
        """Return whether nothing was reported yet; from now on, nobody else reports anything."""
        return self._lock.acquire(blocking=False)

    def report(self, verdict: Verdict) -> None:
        """Report it, if it is the first."""
        if self.claim():
            self._then(verdict)


class PendingVerdict:
    """A message that is being decided in a thread.

    Parameters
    ----------
    pool
        Its threads.
    classify
        Decides.
    case
        The message.
    deadline_s
        As in `VerdictPool`.
    then
        Called with the verdict.
    """

    def __init__(
        self,
        pool: AcquirerPool,
        classify: Callable[[_Message], Verdict],
        case: _Message,
        deadline_s: float,
        then: Callable[[Verdict], None],
    ) -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + deadline_s
        # The call must not know this object, which knows the call: both would stay until the garbage is collected.
        self._first = first = _FirstVerdict(then)
        self._call: PoolCall | None = None
        try:
            self._call = pool.submit(lambda case: first.report(classify(case)), case)
        except PoolFull:
            first.report(Verdict("error", note="refused"))
        else:
            # Most have ended by then: to stop the timer of each would cost more than to let it ring.
            self._loop.call_later(min(_HOLD_S, deadline_s), self._check, self._call)

    def cancel(self) -> None:
        """Report nothing, unless the verdict was reported already; a message that waits for a thread is not decided.

        One that has a thread keeps it to its end or its deadline: abandoned now, it would count against the others.
        """
        if self._first.claim() and self._call is not None and self._call.started is None:
            self._pool.abandon(self._call)

    def _check(self, call: PoolCall) -> None:
        """Let others begin where it takes long, and give it up at its deadline."""
        left = self._end - self._loop.time()
        if call.done():
            # It has reported its verdict, unless too many were abandoned while it waited for a thread.
            self._first.report(Verdict("error", note="refused"))
        elif left <= 0:
            self._pool.abandon(call)
            self._first.report(Verdict("error", note="deadline"))
        elif not call.abandoned:
            self._pool.release_long_call(call, _HOLD_S)
            self._loop.call_later(min(_HOLD_S, left), self._check, call)
