"""`classify`: one message through the cascade; whatever goes wrong becomes the status ``error``.

The service calls it in a thread: parsing MIME and counting words is plain code that keeps the processor busy, and SQLite is plain
code that may wait; in the event loop either would hold up every other connection. A model that asks the network is decided by
`classify_async` in the loop: its lookups wait in coroutines, many at the same time, and plain acquirers run in the cascade's
pool.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

from emsco_runtime.errors import AcquisitionError
from spam_filter.evidence.names import dns_feature_names
from spam_filter.features import source_name
from spam_filter.message.mail import Envelope, Mail
from spam_filter.service.verdict import MailStatus, Verdict

if TYPE_CHECKING:
    from emsco_runtime.decision import Decision
    from emsco_runtime.manifest import Manifest

__all__ = ["MESSAGE_ID", "Decider", "ModelProtocol", "asks_network", "classify", "classify_async"]

# Which message this thread is at; the audit log asks for it.
MESSAGE_ID: ContextVar[str | None] = ContextVar("MESSAGE_ID", default=None)

_LABELS: Final[dict[object, MailStatus]] = {"spam": "spam", "ham": "ham"}
_DNS_FEATURES: Final = frozenset(dns_feature_names())
_log = logging.getLogger("spam_filter")


class Decider(Protocol):
    """What is needed of a cascade."""

    @property
    def manifest(self) -> Manifest:
        """Return the manifest of the bundle in service."""

    def decide(self, item: Any, *, deadline_s: float | None = None) -> Decision:
        """Decide one item."""

    async def decide_async(self, item: Any, *, deadline_s: float | None = None) -> Decision:
        """Decide one item without waiting in the event loop."""


class ModelProtocol(Protocol):
    """What is needed of a model."""

    @property
    def cascade(self) -> Decider:
        """Return the cascade in service."""


def classify(model: ModelProtocol, raw: bytes, envelope: Envelope | None, deadline_s: float | None) -> Verdict:
    """Return the verdict on one message; never raises. A model that asks the network does so in an event loop of its own.

    Parameters
    ----------
    model
        The trained model.
    raw
        The message, as it came.
    envelope
        What the SMTP conversation said about it; None if there was none.
    deadline_s
        Seconds that it may take. None: the caller sees to that.
    """
    try:
        if asks_network(model):
            return asyncio.run(classify_async(model, raw, envelope, deadline_s))
        cascade, mail = model.cascade, Mail.parse(raw, envelope)
        decision = cascade.decide(mail, deadline_s=deadline_s)
        return _verdict(decision, cascade.manifest.cost_unit, mail)
    except AcquisitionError as error:
        # Its text may quote the message: only names of our own are logged.
        return _failed(f"{error.feature}: {error.kind}")
    except Exception as error:  # noqa: BLE001 - a message is never lost because of an error of ours
        return _failed(type(error).__name__)


async def classify_async(model: ModelProtocol, raw: bytes, envelope: Envelope | None, deadline_s: float | None) -> Verdict:
    """Return the verdict on one message, as `classify`, without waiting in the event loop."""
    try:
        cascade, mail = model.cascade, Mail.parse(raw, envelope)
        decision = await cascade.decide_async(mail, deadline_s=deadline_s)
        return _verdict(decision, cascade.manifest.cost_unit, mail)
    except AcquisitionError as error:
        return _failed(f"{error.feature}: {error.kind}")
    except Exception as error:  # noqa: BLE001 - as above
        return _failed(type(error).__name__)


def asks_network(model: ModelProtocol) -> bool:
    """Return whether a model in service has features that come from the network."""
    return not all(_DNS_FEATURES.isdisjoint(stage.acquire) for stage in model.cascade.manifest.stages)


def _verdict(decision: Decision, unit: str, mail: Mail) -> Verdict:
    status: MailStatus = "unsure"
    note = ""
    failed_sources, unread = _failed_sources(decision), False
    if decision.status == "accepted":
        status = _LABELS.get(decision.label, "error")
        note = "" if status != "error" else "label"
        if status == "ham":
            # Spam may be in what was not read. Only ham is asked: its text has been read by now.
            unread = not mail.is_read_whole
            # A fallback is the value of common mail, which is mostly ham: it must not speak for a message.
            status = "unsure" if failed_sources or unread else "ham"
    elif decision.reason in ("deadline", "acquisition_failed"):
        status, note = "error", decision.reason
    return Verdict(
        status=status,
        confidence=decision.confidence,
        stage=decision.stages,
        cost=decision.cost,
        unit=unit,
        bundle=decision.bundle,
        note=note,
        failed_sources=failed_sources,
        unread=unread,
    )


def _failed_sources(decision: Decision) -> tuple[str, ...]:
    """Return the names of the sources in whose place fallback values were used, in order."""
    return tuple(dict.fromkeys(source_name(feature) for record in decision.trace for feature in record.defaulted))


def _failed(note: str) -> Verdict:
    _log.error("message %s could not be decided: %s", MESSAGE_ID.get(), note)
    return Verdict("error", note=note)
