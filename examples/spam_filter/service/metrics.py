"""`ServiceMetrics`: what the service counts, for Prometheus. The runtime's own metrics, of decisions and costs, are next to them.

====================================  =================================================================
``spam_filter_messages_total``        by ``status`` (spam, ham, unsure, error) and ``outcome`` (delivered, deferred, refused)
``spam_filter_message_seconds``       from the last byte received to our answer
``spam_filter_decision_errors_total`` by ``kind``: messages that were delivered marked ``error``
``spam_filter_forged_headers_total``  forged headers that messages brought along, and that were removed
``spam_filter_connections``           clients that are connected
``spam_filter_refused_total``         clients that were answered 421, by ``reason``: too many ``connections`` at once, or too many
                                      ``commands`` or too much ``time`` without a message
``spam_filter_oversized_total``       messages that were larger than is allowed, and answered 552
``spam_filter_reloads_total``         by ``outcome`` (done, failed)
``spam_filter_model_changed``         1 while the model's files on the disk are not those in service
====================================  =================================================================
"""

from __future__ import annotations

import itertools
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from spam_filter.service.outgoing import Outcome
from spam_filter.service.refusals import RefusalReason
from spam_filter.service.verdict import MailStatus

__all__ = ["ServiceMetrics"]

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class ServiceMetrics:
    """The service's metrics.

    Parameters
    ----------
    registry
        Where they are registered: the service's own, which the runtime's metrics share.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.messages = Counter(
            "spam_filter_messages_total",
            "Messages, by what we said and what became of them.",
            ["status", "outcome"],
            registry=registry,
        )
        self.seconds = Histogram(
            "spam_filter_message_seconds", "Time from the last byte to the answer.", registry=registry, buckets=_SECONDS
        )
        self.errors = Counter(
            "spam_filter_decision_errors_total", "Messages marked error, by kind of failure.", ["kind"], registry=registry
        )
        self.forged = Counter("spam_filter_forged_headers_total", "Forged headers that were removed.", registry=registry)
        self.connections = Gauge(
            "spam_filter_connections", "Clients that are connected.", registry=registry, multiprocess_mode="livesum"
        )
        self.refused = Counter("spam_filter_refused_total", "Clients that were answered 421.", ["reason"], registry=registry)
        self.reloads = Counter("spam_filter_reloads_total", "Reloads of the model, by outcome.", ["outcome"], registry=registry)
        self.model_changed = Gauge(
            "spam_filter_model_changed",
            "Whether the files on the disk are not those in service.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self.oversized = Counter("spam_filter_oversized_total", "Messages that were larger than is allowed.", registry=registry)
        # At 0 from the start: Prometheus sees no increase in what appears with its first event.
        for outcome in ("done", "failed"):
            self.reloads.labels(outcome)
        for reason in get_args(RefusalReason):
            self.refused.labels(reason)
        for status, outcome in itertools.product(get_args(MailStatus), get_args(Outcome)):
            self.messages.labels(status, outcome)
