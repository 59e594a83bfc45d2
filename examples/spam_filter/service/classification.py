"""`classify`: one message through the cascade; whatever goes wrong becomes the status ``error``.

The service calls it in a thread, not with `decide_async` in its event loop. Parsing MIME and counting words is plain code that
keeps the processor busy, and SQLite is plain code that may wait: in the loop either would hold up every other connection.
`decide_async` is for sources that wait for the network in coroutines, and there is none here.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

from emsco_runtime.errors import AcquisitionError
from spam_filter.features import source_name
from spam_filter.message.mail import Envelope, Mail
from spam_filter.service.verdict import MailStatus, Verdict

if TYPE_CHECKING:
    from emsco_runtime.decision import Decision
    from emsco_runtime.manifest import Manifest

__all__ = ["MESSAGE_ID", "Decider", "ModelProtocol", "classify"]

# Which message this thread is at; the audit log asks for it.
MESSAGE_ID: ContextVar[str | None] = ContextVar("MESSAGE_ID", default=None)

_LABELS: Final[dict[object, MailStatus]] = {"spam": "spam", "ham": "ham"}
_log = logging.getLogger("spam_filter")


class Decider(Protocol):
    """What is needed of a cascade."""

    @property
    def manifest(self) -> Manifest:
        """Return the manifest of the bundle in service."""

    def decide(self, item: Any, *, deadline_s: float | None = None) -> Decision:
        """Decide one item."""


class ModelProtocol(Protocol):
    """What is needed of a model."""

    @property
    def cascade(self) -> Decider:
        """Return the cascade in service."""


def classify(model: ModelProtocol, raw: bytes, envelope: Envelope | None, deadline_s: float | None) -> Verdict:
    """Return the verdict on one message; never raises.

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
        cascade = model.cascade
        decision = cascade.decide(Mail.parse(raw, envelope), deadline_s=deadline_s)
        return _verdict(decision, cascade.manifest.cost_unit)
    except AcquisitionError as error:
        # Its text may quote the message: only names of our own are logged.
        return _failed(f"{error.feature}: {error.kind}")
    except Exception as error:  # noqa: BLE001 - a message is never lost because of an error of ours
        return _failed(type(error).__name__)


def _verdict(decision: Decision, unit: str) -> Verdict:
    status: MailStatus = "unsure"
    note = ""
    failed_sources = _failed_sources(decision)
    if decision.status == "accepted":
        status = _LABELS.get(decision.label, "error")
        note = "" if status != "error" else "label"
        if status == "ham" and failed_sources:
            # A fallback is the value of common mail, which is mostly ham: it must not speak for a message.
            status = "unsure"
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
    )


def _failed_sources(decision: Decision) -> tuple[str, ...]:
    """Return the names of the sources in whose place fallback values were used, in order."""
    return tuple(dict.fromkeys(source_name(feature) for record in decision.trace for feature in record.defaulted))


def _failed(note: str) -> Verdict:
    _log.error("message %s could not be decided: %s", MESSAGE_ID.get(), note)
    return Verdict("error", note=note)
