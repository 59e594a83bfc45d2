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

from dataclasses import dataclass
from functools import partial
from typing import Final

from emsco_runtime.pool import AcquirerPool, PoolFull
from spam_filter.evidence.read_in_thread import read_in_thread
from spam_filter.message.mail import Envelope, Mail
from spam_filter.service.classification import MESSAGE_ID, ModelProtocol, asks_network, classify, classify_async
from spam_filter.service.sender_lists import SenderLists
from spam_filter.service.verdict import Verdict

__all__ = ["VerdictPool"]

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

    async def verdict(self, message_id: str, raw: bytes, envelope: Envelope) -> Verdict:
        """Return the verdict on a message; never raises, and takes no longer than the deadline."""
        if asks_network(self._model):
            MESSAGE_ID.set(message_id)
            decided = await classify_async(self._model, raw, envelope, self._deadline_s)
            return await read_in_thread(partial(self.lists.apply, decided), Mail.parse(raw, envelope))
        try:
            verdict: Verdict = await self.pool.call_async(
                self._classify, _Message(message_id, raw, envelope), timeout_s=self._deadline_s, hold_s=_HOLD_S
            )
        except TimeoutError:
            return Verdict("error", note="deadline")
        except PoolFull:
            return Verdict("error", note="refused")
        return verdict

    def _classify(self, case: _Message) -> Verdict:
        MESSAGE_ID.set(case.message_id)
        verdict = classify(self._model, case.raw, case.envelope, None)
        return self.lists.apply(verdict, Mail.parse(case.raw, case.envelope))
